# SPDX-License-Identifier: Apache-2.0
"""clang-tidy 14 (tests/requirements.txt) over the product, with the checks of .clang-tidy: each finding is an error.

    tests/lint/tidy.py BUILD_FOLDER [PART_OF_A_FILE'S_NAME ...]

BUILD_FOLDER has compile_commands.json; with unity builds a room is read once, and not once a file. Clang's analysis of
the mutexes (base/mutex.h) is one of the checks; gcc has none. What a unit says twice is printed once.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLANG_TIDY = ROOT / ".venv/bin/clang-tidy"
HEADERS = "/usr/lib/llvm-14/lib/clang/14.0.6"  # of libclang-common-14-dev: the wheel has none
FINDING = re.compile(r"^(?P<place>/\S+?:\d+:\d+): (?:warning|error): (?P<text>.*)$")
# gcc's own words; and headers that gcc has compiled.
NOT_CLANGS = re.compile(r" (-Werror|-Wno-maybe-uninitialized|-Winvalid-pch|-include \S+\.hxx|-march=\S+|-W\w\S*)(?= )")


def units(build, parts):
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = entry["file"]
        if "/tests/" in file or "_proto.dir" in file or "rnnserve_test_headers" in file or file.endswith((".cu", ".pb.cc")):
            continue
        if not parts or any(part in file for part in parts):
            command = re.sub(r"^\S*ccache ", "", entry["command"])
            yield {**entry, "command": NOT_CLANGS.sub("", NOT_CLANGS.sub("", command))}


def main(build, *parts):
    listed = list(units(pathlib.Path(build).resolve(), parts))
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "compile_commands.json").write_text(json.dumps(listed))

        def run(unit):
            command = [str(CLANG_TIDY), "-p", folder, "--quiet", "--extra-arg=-Wthread-safety",
                       f"--extra-arg=-resource-dir={HEADERS}", unit["file"]]
            return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)

        findings = {}
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            for unit, done in zip(listed, threads.map(run, listed)):
                lines = done.stdout.splitlines()
                found = [line for line in lines if FINDING.match(line)]
                if done.returncode != 0 and not found:
                    findings[unit["file"]] = done.stdout + done.stderr
                for line in found:
                    match = FINDING.match(line)
                    place = os.path.relpath(match["place"], ROOT)
                    findings[f"{place}: {match['text']}"] = ""
    for finding, text in sorted(findings.items()):
        print(finding, text)
    print(f"{len(listed)} units, {len(findings)} findings")
    return 1 if findings or not listed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
