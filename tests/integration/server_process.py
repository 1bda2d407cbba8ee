# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the real server binary."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import tempfile

import wire

BINARY = pathlib.Path(os.environ.get("RNNSERVE_BINARY") or wire.REPOSITORY / "build/release/server/rnnserve").resolve()
START_SECONDS = 60
STOP_SECONDS = 60


class Server:
    """A running server on a free port; `stop` ends it and checks how it went."""

    def __init__(self, *flags: str, listen="127.0.0.1:0", admin_listen="127.0.0.1:0", descriptors=0,
                 environment=None, binary=BINARY, host="127.0.0.1", run_in=()):
        """`run_in`: a command that runs another one, such as `ip netns exec NAME`; `host`: where it listens then."""
        self._folder = tempfile.TemporaryDirectory(prefix="rnnserve-test-")
        port_file = pathlib.Path(self._folder.name) / "port"
        self.log_path = pathlib.Path(self._folder.name) / "log"
        with open(self.log_path, "wb") as log:
            # Not by preexec_fn: that runs Python in a fork, beside gRPC's threads of this process.
            limit = ["prlimit", f"--nofile={descriptors}:{descriptors}"] if descriptors else []
            self.process = subprocess.Popen([*run_in, *limit, binary, f"--listen={listen}", f"--port_file={port_file}",
                                             f"--admin_listen={admin_listen}", *flags],
                                            stdout=log, stderr=subprocess.STDOUT,
                                            env={**os.environ, **(environment or {})})
        self.port = self._await_port(port_file)
        self.admin_port = self._await_port(port_file.with_name("port.admin"))
        self.address = f"{host}:{self.port}"
        self.channel = wire.channel(self.address)
        self.recurrent = wire.recurrent_grpc.RecurrentStub(self.channel)
        self.models = wire.models_grpc.ModelsStub(self.channel)

    def _await_port(self, port_file) -> int:
        for _ in range(START_SECONDS * 50):
            if port_file.exists() and (text := port_file.read_text().strip()):
                return int(text.rsplit(":", 1)[-1])
            try:
                # Doubles as the pause between two looks, and notices a server that has given up.
                code = self.process.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"{BINARY} exited with {code} at start:\n{self.log()}")
        self.process.kill()
        raise RuntimeError(f"{BINARY} wrote no port within {START_SECONDS} s:\n{self.log()}")

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def alive(self) -> bool:
        return self.process.poll() is None

    def resident_kib(self) -> int:
        """VmRSS, in KiB."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise RuntimeError("no VmRSS")

    def stop(self, with_signal=signal.SIGTERM) -> int:
        """The exit status."""
        self.channel.close()
        if self.alive():
            self.process.send_signal(with_signal)
        try:
            return self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"the server did not stop within {STOP_SECONDS} s:\n{self.log()}") from None
        finally:
            self._folder.cleanup()


def run_to_end(*flags: str) -> subprocess.CompletedProcess:
    """A server that is expected to give up at once."""
    return subprocess.run([BINARY, *flags], capture_output=True, text=True, timeout=START_SECONDS, check=False)
