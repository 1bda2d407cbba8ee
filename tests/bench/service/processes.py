# SPDX-License-Identifier: Apache-2.0
"""The servers that service_table.py measures, and one run of the load generator."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import environment


class Server:
    """A child process that tells its port on standard output or in a file; ends with the `with` block."""

    def __init__(self, name, command, port_file=None):
        self.name = name
        self.process = subprocess.Popen(command, stdout=None if port_file else subprocess.PIPE, text=True)
        port = self._told(port_file) if port_file else self._printed()
        self.address = f"127.0.0.1:{port}"

    def _printed(self):
        found = re.search(r"port (\d+)", self.process.stdout.readline())
        if not found:
            raise RuntimeError(f"{self.name} did not start")
        return found[1]

    def _told(self, port_file):
        while not port_file.exists() or not port_file.read_text().strip():
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} exited with {self.process.returncode}")
            time.sleep(0.02)
        return port_file.read_text().strip().rsplit(":", 1)[-1]

    def cpu_seconds(self):
        """User and system, all threads."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)


def rnnserve(binary, flags):
    with tempfile.TemporaryDirectory() as folder:
        port_file, admin_file = pathlib.Path(folder) / "port", pathlib.Path(folder) / "port.admin"
        command = [binary, "--listen=127.0.0.1:0", f"--port_file={port_file}", "--admin_listen=", "--log_level=error"]
        server = Server("rnnserve", [*command, *flags], port_file)
        if any(flag.startswith("--admin_listen=") for flag in flags):
            server.admin = f"127.0.0.1:{server._told(admin_file)}"
        return server


def batching(binary, mode):
    """rnnserve itself, or, with `mode`, its comparison with another scheduler (batching_server.cc)."""
    if mode is None:
        return rnnserve(binary, [])
    return Server(mode, [environment.program("tests/bench/batching_server"), mode])


class Failed(Exception):
    """The load generator refused the answers, or there were none."""


def report(rnnctl, server, flags):
    """What `rnnctl bench` measured."""
    command = [rnnctl, "bench", f"--server={server.address}", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def load(rnnctl, server, flags, seconds):
    """What one level of `rnnctl bench` measured, and the server's CPU microseconds a call."""
    cpu = server.cpu_seconds()
    level = report(rnnctl, server, ["--warm-up=200ms", f"--duration={seconds}s", *flags])["levels"][0]
    cpu = server.cpu_seconds() - cpu
    if level["failed"] or level["wrong"]:
        raise Failed(f"{server.name} {' '.join(flags)}: {level['failed']} calls failed ({level['codes']}), "
                     f"{level['wrong']} wrong")
    # Warm-up's calls cost CPU too, at the same rate.
    level["server_cpu_us_per_call"] = cpu * 1e6 / (level["calls_per_second"] * (level["seconds"] + 0.2))
    return level
