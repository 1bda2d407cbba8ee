# SPDX-License-Identifier: Apache-2.0
"""Docker, or podman with the images of RNNSERVE_IMAGE_TOOLS/build-image.sh where there is no daemon and no registry."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import threading

TOOLS = os.environ.get("RNNSERVE_IMAGE_TOOLS")
STORE = pathlib.Path(os.environ.get("STORE") or pathlib.Path.home() / ".cache/build-image")
# What build-image.sh says of this kind of machine.
PODMAN = """[containers]
default_ulimits = ["nofile=16384:16384", "nproc=16384:16384"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""


def why_not() -> str | None:
    if TOOLS or shutil.which("docker"):
        return None
    return "there is no docker; RNNSERVE_IMAGE_TOOLS=DIR takes podman and DIR/build-image.sh"


class Engine:
    def __init__(self, folder: pathlib.Path):
        self.environment = dict(os.environ)
        self.engine, self.compose = ["docker"], ["docker", "compose"]
        if TOOLS:
            (folder / "containers.conf").write_text(PODMAN)
            self.environment |= {"CONTAINERS_CONF": str(folder / "containers.conf"), "DISABLE_HC_SYSTEMD": "true"}
            driver = (STORE / "driver").read_text().strip()
            store = ["--storage-driver", driver, "--root", f"{STORE}/{driver}", "--runroot", f"{STORE}/run-{driver}"]
            self.engine = ["podman", *store]
            compose = pathlib.Path(sys.executable).with_name("podman-compose")
            self.compose = [str(compose), f"--podman-args={' '.join(store)}"]

    def build(self, folder, tag):
        command = [f"{TOOLS}/build-image.sh", folder, tag] if TOOLS else ["docker", "build", "-t", tag, folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def run(self, *arguments) -> str:
        return self._run(self.engine, arguments)

    def run_compose(self, *arguments) -> str:
        return self._run(self.compose, arguments)

    def _run(self, command, arguments) -> str:
        done = subprocess.run([*command, *arguments], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{[*command, *arguments]}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ask_for_health(self, names, stop: threading.Event):
        """podman without systemd runs no HEALTHCHECKs, so this thread does."""
        while TOOLS and not stop.wait(1):
            for name in names:
                subprocess.run([*self.engine, "healthcheck", "run", name], env=self.environment, capture_output=True,
                               check=False)
