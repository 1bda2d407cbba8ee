# SPDX-License-Identifier: Apache-2.0
"""Network cables that can be pulled: each leads to a network namespace of its own (Linux, root, iproute2)."""

from __future__ import annotations

import os
import subprocess


def _ip(*words) -> subprocess.CompletedProcess:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True)


class Cable:
    """From `here`, an address of this machine, to `there`, one of the namespace. `run_in` runs a command there."""

    def __init__(self, number: int):
        self._name = f"rnn{os.getpid() % 100000}-{number}"
        self.here, self.there = f"10.213.{number}.1", f"10.213.{number}.2"
        self.run_in = ("ip", "netns", "exec", self._name)
        _ip("netns", "add", self._name)
        _ip("link", "add", self._name, "type", "veth", "peer", "name", "eth0", "netns", self._name)
        _ip("addr", "add", f"{self.here}/30", "dev", self._name)
        _ip("-n", self._name, "addr", "add", f"{self.there}/30", "dev", "eth0")
        _ip("-n", self._name, "link", "set", "lo", "up")
        _ip("-n", self._name, "link", "set", "eth0", "up")
        self.plug_in()

    def pull(self):
        _ip("link", "set", self._name, "down")

    def plug_in(self):
        _ip("link", "set", self._name, "up")

    def remove(self):
        _ip("netns", "del", self._name)


def are_allowed() -> bool:
    """Whether this user may make them."""
    try:
        Cable(255).remove()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
