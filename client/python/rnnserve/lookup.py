# SPDX-License-Identifier: Apache-2.0
"""The addresses behind a client's names: looked up again every half minute while calls are made, and sooner where one
fails."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from rnnserve.servers import Servers

LOOK_SECONDS = 30.0
_SOONER_SECONDS = 1.0
_MOST_NAMES = 4096
# (host, port) -> the IPv4 addresses of the host, else the IPv6 ones; raises OSError
Resolve = Callable[[str, int], Awaitable[list[str]]]


def host_and_port(target: str) -> tuple[str, int] | None:
    """Of a target whose host is a name that may have several addresses, else None."""
    host, _, port = target.removeprefix("dns:///").removeprefix("dns:").rpartition(":")
    if not host or not port.isdigit() or ":" in host or "/" in host or host == "localhost":
        return None
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host, int(port)
    return None


class Lookup:
    """Keeps `servers` at what `targets` lead to. A name with one address stays a name: gRPC looks it up by itself."""

    def __init__(self, targets: Iterable[str], servers: Servers, resolve: Resolve,
                 beside: Callable[[Callable[[], Coroutine[Any, Any, None]]], None], dropped: Callable[[str], None],
                 clock: Callable[[], float] = time.monotonic) -> None:
        """beside(run) awaits run() beside everything else; dropped(address) is called for those that are left."""
        self._targets = list(targets)
        self._servers = servers
        self._resolve = resolve
        self._beside = beside
        self._dropped = dropped
        self._clock = clock
        self._has_names = any(map(host_and_port, self._targets))
        self._lock = threading.Lock()
        self._due: float | None = None  # None: never looked up
        self._looking = False
        self._found: dict[str, list[str]] = {}  # by target
        self.names: dict[str, str] = {}  # address -> the target that led to it

    async def fresh(self) -> None:
        """Before a call. The first one waits for the addresses; later ones go on with those that are known."""
        if not self._has_names:
            return
        with self._lock:
            first, now = self._due is None, self._clock()
            if self._looking or (self._due is not None and now < self._due):
                return
            self._looking = True
        if first:
            await self._look()
        else:
            self._beside(self._look)

    def doubt(self) -> None:
        """One of the addresses took no call: they may be others by now."""
        with self._lock:
            if self._due is not None:
                self._due = min(self._due, self._clock() + _SOONER_SECONDS)

    async def _look(self) -> None:
        try:
            for target in self._targets:
                place = host_and_port(target)
                if place is not None:
                    try:
                        self._found[target] = await self._resolve(*place)
                    except OSError:  # the addresses that were known stay
                        continue
            addresses: list[str] = []
            if len(self.names) > _MOST_NAMES:
                self.names = {}
            for target in self._targets:
                found = self._found.get(target, [])
                place = host_and_port(target)
                if place is None or len(found) < 2:
                    addresses.append(target)
                    continue
                for ip in found:
                    address = f"[{ip}]:{place[1]}" if ":" in ip else f"{ip}:{place[1]}"
                    self.names[address] = f"{place[0]}:{place[1]}"
                    addresses.append(address)
            for address in self._servers.set(addresses):
                self._dropped(address)
        finally:
            with self._lock:
                self._looking = False
                self._due = self._clock() + LOOK_SECONDS
