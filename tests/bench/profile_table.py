#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where a server's CPU time goes, call by call: a Markdown table of perf's samples, beside an echo of equal messages.

    tests/bench/profile_table.py [--seconds S] [--loads "NAME;..."] [--hidden H]

perf (Debian's linux-perf) samples the whole server by cpu-clock while `rnnctl bench` loads it. A sample belongs to what its
function is part of: the engines, this server, gRPC (which is linked in), an allocator, other libraries, or the kernel.
"""

import argparse
import collections
import datetime
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

import environment

sys.path.insert(0, str(environment.HERE / "service"))
import processes  # noqa: E402

UNARY, STEP = ["--steps=1"], ["--chunk=1", "--outputs=Y"]
LOADS = {
    "steps, one stream, 8 sessions": [*STEP, "--sessions=8"],
    "steps, one stream, 64 sessions": [*STEP, "--sessions=64"],
    "unary, T = 1, 8 callers": [*UNARY, "--concurrency=8"],
    "unary, T = 1, 64 callers": [*UNARY, "--concurrency=64"],
    "unary, T = 32, 64 callers": ["--steps=32", "--concurrency=64"],
    "steps, a stream each, 64 sessions": [*STEP, "--sessions=64", "--streams=64"],
    "gateway, 64 sessions, one stream": [*STEP, "--sessions=64", "--operations=64"],
}
PARTS = ["engine", "this server", "gRPC", "allocator", "libraries", "kernel"]
ALLOCATOR = re.compile(r"^(_?mi_|malloc|free|calloc|operator (new|delete)|rnnserve::(Take|Give)Recycled)")


def part_of(library, symbol, is_kernel):
    if is_kernel:
        return "kernel"
    if ALLOCATOR.match(symbol) or "mimalloc" in library:
        return "allocator"
    if "rnnserve::cpu" in symbol or "rnnserve::onednn" in symbol or "dnnl" in library or "JIT" in library:
        return "engine"
    if "rnnserve" in symbol:
        return "this server"
    return "gRPC" if library in ("rnnserve", "echo_server") or "grpc" in library else "libraries"


def samples(pid, seconds):
    """Shares of the samples of `seconds`, by part."""
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder) / "perf.data"
        subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-F", "4999", "-p", str(pid), "-o", data, "sleep", str(seconds)],
                       check=True, stderr=subprocess.DEVNULL)
        report = subprocess.run(["perf", "report", "-i", data, "--no-children", "--stdio", "--sort", "dso,sym"],
                                capture_output=True, text=True).stdout
    shares = collections.Counter()
    for line in report.splitlines():
        if found := re.match(r"\s*([\d.]+)%\s+(.+?)\s+\[(.)\]\s+(.*)", line):
            shares[part_of(found[2], found[4].strip(), found[3] == "k")] += float(found[1])
    whole = sum(shares.values())
    return {part: shares[part] / whole for part in PARTS}


def start(kind, size):
    if not kind:
        return processes.rnnserve(environment.program("server/rnnserve"), [])
    return processes.Server("echo", [environment.program("tests/bench/echo_server"), "127.0.0.1:0", str(size)])


def measure(server, flags, seconds):
    """What rnnctl measured, and the shares of the server's CPU time."""
    shares = {}
    timer = threading.Timer(0.25 * seconds, lambda: shares.update(samples(server.process.pid, 0.5 * seconds)))
    timer.start()
    level = processes.load(environment.program("client/rnnctl/rnnctl"), server, flags, seconds)
    timer.join()
    return level, shares


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6, help="of each load")
    parser.add_argument("--loads", help="names, by semicolon; default: all")
    parser.add_argument("--hidden", type=int, default=128)
    arguments = parser.parse_args()
    wanted = arguments.loads.split(";") if arguments.loads else LOADS
    print(f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC, {environment.machine()}; `{' '.join(sys.argv)}`. "
          f"LSTM, H = {arguments.hidden}; us of CPU an answer.\n")
    print("| load | answers/s | client | server | " + " | ".join(PARTS) + " |\n|---|" + "---|" * (len(PARTS) + 3))
    for name in wanted:
        flags = [f"--hidden={arguments.hidden}", *LOADS[name]]
        size = 0  # of a reply
        for kind in ("", ", echo"):
            with start(kind, size) as server:
                level, shares = measure(server, flags + (["--echo"] if kind else []), arguments.seconds)
            size = level["received_bytes_per_call"]
            cpu = level["server_cpu_us_per_call"]
            print(f"| {name}{kind} | {level['calls_per_second']:,.0f} | {level['client_cpu_us_per_call']:.1f} | {cpu:.1f} | " +
                  " | ".join(f"{cpu * shares[part]:.1f}" for part in PARTS) + " |", flush=True)


if __name__ == "__main__":
    main()
