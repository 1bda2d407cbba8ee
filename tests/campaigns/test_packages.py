# SPDX-License-Identifier: Apache-2.0
"""The .deb and the wheel on machines that have nothing else: README's commands, and the time to a first answer; the demo
on the Debian that no other test builds on.

RNNSERVE_IMAGE_TOOLS=DIR: DIR/fresh-machine.sh runs commands on a new root file system, in a clone of a checkout. The
checkout here holds one package and the commands, nothing of this repository."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import pytest

import wire

TOOLS = os.environ.get("RNNSERVE_IMAGE_TOOLS")
PACKAGES = wire.REPOSITORY / "build/packages"
BLOCK = re.compile(r"<!-- run by: tests/campaigns/test_packages\.py -->\n```\n(.*?)```", re.S)
# (package, Debian, what a machine with Python has before)
MACHINES = [("*.deb", "bookworm", "true"),
            ("*.whl", "bookworm", "apt-get install -y -qq --no-install-recommends python3-venv"),
            ("*.whl", "trixie", "apt-get install -y -qq --no-install-recommends python3-venv")]


NEEDS_TOOLS = pytest.mark.skipif(not TOOLS, reason="RNNSERVE_IMAGE_TOOLS names no folder with fresh-machine.sh")


def run(*command, cwd, **environment):
    done = subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **environment}, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def commands():
    """README's: how both packages are built, which is done here; how the .deb is used; how the wheel is."""
    build, *use = BLOCK.findall((wire.REPOSITORY / "README.md").read_text())
    shutil.rmtree(PACKAGES, ignore_errors=True)
    run("bash", "-euo", "pipefail", "-c", build, cwd=wire.REPOSITORY)
    return dict(zip(("*.deb", "*.whl"), use, strict=True))


@NEEDS_TOOLS
@pytest.mark.parametrize(("pattern", "debian", "before"), MACHINES, ids=["deb", "wheel", "wheel_trixie"])
def test_first_answer_on_a_bare_machine(commands, pattern, debian, before, tmp_path, tell):
    (package,) = PACKAGES.glob(pattern)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    shutil.copy(package, checkout)
    install, serve, ask = commands[pattern].split("\n", 2)
    venv = "python3 -m venv /venv && . /venv/bin/activate\n" if pattern == "*.whl" else ""
    (checkout / "use.sh").write_text(f"set -euo pipefail\nbegan=$(date +%s%N)\n{venv}{install}\n"
                                     "installed=$(date +%s%N)\n"
                                     f"{serve}\ntrap 'kill $!' EXIT\n{ask}"
                                     "answered=$(date +%s%N)\n"
                                     'echo "took $((installed - began)) $((answered - installed)) ns"\n')
    for command in (("init", "-q"), ("add", "-A"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")):
        run("git", *command, cwd=checkout)
    said = run(pathlib.Path(TOOLS).resolve() / "fresh-machine.sh", "-s", debian, checkout, f"apt-get update -qq && {before}",
               "bash use.sh", cwd=tmp_path)
    install_s, answer_s = (int(word) / 1e9 for word in re.search(r"took (\d+) (\d+) ns", said).groups())
    tell(f"{package.name} ({package.stat().st_size / 1e6:.1f} MB) on a bare Debian ({debian}): installed in {install_s:.1f} s, "
         f"first answer {answer_s:.1f} s later")


@NEEDS_TOOLS
def test_demo_on_debian_13():
    """Of the last commit. LIMIT_S: the script ends itself and cleans up, which it could not do if it were killed."""
    said = run(pathlib.Path(TOOLS).resolve() / "fresh-machine.sh", "-s", "trixie", wire.REPOSITORY, "./demo.sh",
               cwd=wire.REPOSITORY, LIMIT_S="1500")
    assert not re.findall(r".*\.(?:cc|h):\d+.* warning: .*", said)
