# SPDX-License-Identifier: Apache-2.0
"""A redis-server of the test's own, and several servers that share it as their session store."""

from __future__ import annotations

import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import wire
from server_process import Server
from session_calls import Sessions, open_request

HAS_REDIS = shutil.which("redis-server") is not None
WITHOUT_REDIS = "no redis-server (Debian: redis-server)"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Redis:
    def __init__(self, *arguments, hosts=("127.0.0.1",)):
        self._hosts = hosts
        self._folder = tempfile.TemporaryDirectory(prefix="rnnserve-redis-")
        self.port = free_port()
        self._arguments = arguments
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", *self._hosts, "--save", "", "--dir", self._folder.name,
             *self._arguments], stdout=subprocess.DEVNULL)
        while self.process.poll() is None and not self.command("PING").startswith("PONG"):
            pass
        assert self.process.poll() is None, "redis-server did not start"

    def command(self, *words) -> str:
        return subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True,
                              check=False).stdout

    def keys(self) -> list[str]:
        return self.command("KEYS", "rnnserve:session:*").split()

    def copy(self, source: int, target: int):
        """Copies all records from one database to another; servers use database 0."""
        keys = self.command("-n", str(source), "KEYS", "rnnserve:session:*").split()
        for key in keys:
            self.command("-n", str(source), "COPY", key, key, "DB", str(target), "REPLACE")

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.go_on()
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.kill()
        self._folder.cleanup()


class Replica:
    """A server of the store, and calls on it."""

    def __init__(self, store: str, secret_file: pathlib.Path, *flags, host="127.0.0.1", run_in=()):
        self._flags = (f"--store={store}", f"--session_secret_file={secret_file}", *flags)
        self._host, self._run_in = host, run_in
        self.start()

    def start(self, port=0):
        self.server = Server(*self._flags, listen=f"{self._host}:{port}", host=self._host, run_in=self._run_in)
        self.calls = Sessions(self.server.address)
        # Knows the remembering cell from then on, by its fingerprint.
        opened = self.calls.stub.Open(open_request())
        self.calls.apply(opened.session, close=wire.sessions_pb2.Close())
        self.fingerprint = opened.fingerprint

    def open(self, durability, **fields):
        return self.calls.stub.Open(open_request(fingerprint=self.fingerprint, durability=durability, **fields))

    def signal(self, number):
        self.server.process.send_signal(number)

    def kill(self):
        self.calls.close()
        self.server.stop(with_signal=signal.SIGKILL)

    def stop(self):
        self.calls.close()
        if self.server.alive():
            self.server.process.send_signal(signal.SIGCONT)
            self.server.process.kill()
        self.server.stop()
