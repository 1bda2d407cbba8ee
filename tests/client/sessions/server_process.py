# SPDX-License-Identifier: Apache-2.0
"""The server's binary, to be drained and killed."""

import os
import pathlib
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
BINARY = pathlib.Path(os.environ.get("RNNSERVE_BINARY") or REPOSITORY / "build/release/server/rnnserve").resolve()
SECONDS = 60


class Server:
    """Runs on a free port, or on the one given."""

    def __init__(self, *flags, port=0):
        self._folder = tempfile.TemporaryDirectory(prefix="rnnserve-sessions-")
        port_file = pathlib.Path(self._folder.name) / "port"
        self._log = pathlib.Path(self._folder.name) / "log"
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(
                [BINARY, f"--listen=127.0.0.1:{port}", f"--port_file={port_file}", *flags], stdout=log,
                stderr=subprocess.STDOUT)
        for _ in range(SECONDS * 50):
            if port_file.exists() and (text := port_file.read_text().strip()):
                break
            try:
                self.process.wait(timeout=0.02)  # the pause between two looks, which ends early with the server
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"the server ended at start:\n{self.log()}")
        else:
            self.kill()
            raise RuntimeError(f"the server wrote no port:\n{self.log()}")
        self.port = int(text.rsplit(":", 1)[-1])
        self.address = f"127.0.0.1:{self.port}"

    def log(self):
        return self._log.read_text(errors="replace")

    def drain(self):
        """SIGTERM; waits until the server has begun to drain or has ended."""
        self.process.terminate()
        for _ in range(SECONDS * 100):
            if self.process.poll() is not None or "finishing what is being served" in self.log():
                return
            time.sleep(0.01)
        raise RuntimeError(f"the server does not drain:\n{self.log()}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """The exit status after SIGTERM, or whatever it ended with before."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout=SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self._folder.cleanup()
