# SPDX-License-Identifier: Apache-2.0
"""The servers of a client: in which order a call or a new session asks them. No gRPC channels, no clock."""

from __future__ import annotations

import dataclasses
import itertools
import random
import threading
from collections.abc import Callable, Iterable, Sequence

from rnnserve.errors import RnnServeError
from rnnserve.tries import lacks_engine

# A server that refused a call is tried after the others for this time, unless it named a longer one itself.
_AVOID_SECONDS = 1.0
_MASK = (1 << 64) - 1


def score(name: str, address: str) -> int:
    """Of rendezvous hashing: a session of that name belongs on the server with the highest score. The C++ client computes
    the same (client/cpp/servers.cc): FNV-1a over both texts, then the finalizer of MurmurHash3."""
    value = 0xCBF29CE484222325
    for byte in f"{name}\n{address}".encode():
        value = (value ^ byte) * 0x100000001B3 & _MASK
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33


@dataclasses.dataclass
class _Server:
    listed: bool = True
    avoided_until: float = 0.0
    calls: int = 0  # in flight
    called: int = 0  # when a call last chose it, counted
    opened: int = 0  # when a new session last did


def _shuffled(addresses: Sequence[str]) -> list[str]:
    return random.sample(addresses, len(addresses))


class Servers:
    """From any thread. pick_first: the first server of the list that takes calls, instead of all of them in turn."""

    def __init__(self, addresses: Iterable[str], pick_first: bool = False,
                 shuffled: Callable[[Sequence[str]], list[str]] = _shuffled) -> None:
        self._lock = threading.Lock()
        self._pick_first = pick_first
        self._shuffled = shuffled
        self._turns = itertools.count(1)
        self._servers: dict[str, _Server] = {}  # those of the list in its order, and those that still have calls
        self.set(addresses)

    def set(self, addresses: Iterable[str]) -> list[str]:
        """Another list. Returns those that were dropped and have no calls any more."""
        with self._lock:
            before = self._servers
            listed = list(dict.fromkeys(addresses))
            new = [address for address in listed if address not in before]
            self._servers = {address: before.get(address) or _Server() for address in listed}
            # Clients that start at the same time begin with different servers.
            for order, address in enumerate(self._shuffled(new)):
                self._servers[address].called = self._servers[address].opened = order - len(new)
            dropped = {address: server for address, server in before.items() if address not in self._servers}
            for address, server in dropped.items():
                server.listed = False
                if server.calls:
                    self._servers[address] = server
            return [address for address, server in dropped.items() if not server.calls]

    @property
    def addresses(self) -> list[str]:
        with self._lock:
            return [address for address, server in self._servers.items() if server.listed]

    def for_call(self, now: float) -> list[str]:
        """The one with the fewest calls in flight first, among equals the one that was chosen longest ago. `began` of it
        is to be called before the next call asks."""
        return self._in_order(now, lambda address, server: (server.calls, server.called))

    def for_session(self, name: str, now: float) -> list[str]:
        """By the hash of its name, the same in each client that has these addresses; without a name in turn."""
        if name:
            return self._in_order(now, lambda address, _: -score(name, address))
        order = self._in_order(now, lambda _, server: server.opened)
        with self._lock:
            if order[0] in self._servers:
                self._servers[order[0]].opened = next(self._turns)
        return order

    def began(self, address: str) -> None:
        """A call there begins."""
        with self._lock:
            server = self._servers.setdefault(address, _Server(listed=False))
            server.calls += 1
            server.called = next(self._turns)

    def ended(self, address: str) -> bool:
        """Returns whether it is not on the list any more, and this was its last call."""
        with self._lock:
            server = self._servers[address]
            server.calls -= 1
            if server.listed or server.calls:
                return False
            del self._servers[address]
            return True

    def took(self, address: str) -> None:
        with self._lock:
            if address in self._servers:
                self._servers[address].avoided_until = 0.0

    def refused(self, address: str, error: RnnServeError, now: float) -> None:
        if lacks_engine(error):  # the matter of that call alone
            return
        with self._lock:
            if address in self._servers:
                until = now + max(_AVOID_SECONDS, error.retry_after or 0.0)
                self._servers[address].avoided_until = until

    def _in_order(self, now: float, key: Callable[[str, _Server], object]) -> list[str]:
        with self._lock:
            def rank(item: tuple[str, _Server]) -> tuple[float, object]:
                address, server = item
                return max(server.avoided_until, now), 0 if self._pick_first else key(address, server)

            return [address for address, _ in sorted(
                [item for item in self._servers.items() if item[1].listed], key=rank)]
