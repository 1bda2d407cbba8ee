# SPDX-License-Identifier: Apache-2.0
"""What the tables share: the peers' Python environment (build/bench-venv, made on first use from requirements.txt), the
programs of the release build, the machine in words, and where results go."""

import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENVIRONMENT = ROOT / "build" / "bench-venv"
RELEASE = ROOT / "build" / "release"


def python():
    """The interpreter to run peers with."""
    interpreter, wanted = ENVIRONMENT / "bin" / "python", (HERE / "requirements.txt").read_text()
    done = ENVIRONMENT / "installed.txt"
    if not done.exists() or done.read_text() != wanted:
        print(f"installing the peers into {ENVIRONMENT}", file=sys.stderr)
        venv.create(ENVIRONMENT, with_pip=True)
        subprocess.run([interpreter, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                        "-r", HERE / "requirements.txt"], check=True)
        done.write_text(wanted)
    return str(interpreter)


def program(path):
    """A program of the release build."""
    found = RELEASE / path
    if not found.exists():
        sys.exit(f"{found} is missing: cmake --preset release && cmake --build --preset release")
    return str(found)


def machine():
    """One line on where this runs: CPU, what matters of its flags, caches."""
    facts = {}
    for line in subprocess.run(["lscpu"], capture_output=True, text=True, env={"LC_ALL": "C"}).stdout.splitlines():
        key, _, value = line.partition(":")
        facts[key.strip()] = value.strip()
    flags = facts.get("Flags", "").split()
    matter = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile") if flag in flags]
    caches = ", ".join(f"{level} {facts[level + ' cache']}" for level in ("L1d", "L2", "L3") if level + " cache" in facts)
    return f"{facts.get('CPU(s)')} CPUs, {facts.get('Model name')} ({' '.join(matter)}; {caches})"


class Report:
    """Prints as it goes; with `write`, the text also replaces a part of docs/benchmarks.md in the end."""

    def __init__(self, part, write):
        self.part, self.write, self.text = part, write, []

    def add(self, text):
        print(text, flush=True)
        self.text.append(text)

    def finish(self):
        if not self.write:
            return
        page = ROOT / "docs" / "benchmarks.md"
        begin, end = f"<!-- {self.part}: begin -->", f"<!-- {self.part}: end -->"
        before, rest = page.read_text(encoding="utf-8").split(begin)
        after = rest.split(end)[1]
        page.write_text("".join([before, begin, "\n", "\n".join(self.text), "\n", end, after]), encoding="utf-8")
