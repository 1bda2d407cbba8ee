#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's perf_analyzer, unchanged, against Triton and against this server, turns interleaved; a table in Markdown.

  perf_analyzer_table.py PERF_ANALYZER TRITON OURS [--rounds 3] [--milliseconds 1000]

TRITON and OURS are addresses of servers of the repositories that `tests/campaigns/kserve_beside.py models` makes.
perf_analyzer 2.51.0 comes in the PyPI wheel tritonclient 2.51.0; LD_LIBRARY_PATH names a folder with libcudart.so.12 (PyPI:
nvidia-cuda-runtime-cu12), and Debian's libb64-0d is installed. Leave the machine alone meanwhile."""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess

# what a row is called: (model of ours, options for both, shape of ours)
KINDS = {
    "unary, T = 32": ("unary128", [], "X:32,128"),
    "sequences of 10 steps, unary": ("step128", ["--sequence-length", "10"], "X:1,128"),
    "sequences of 10 steps, one stream a caller": ("step128", ["--sequence-length", "10", "--streaming"], "X:1,128"),
}
CALLERS = (1, 8, 64)


def run(chosen, address, model, options, callers):
    """(answers a second, p50 and p99 in ms)."""
    command = [chosen.perf_analyzer, "-m", model, "-i", "grpc", "-u", address, "--concurrency-range", str(callers),
               "-p", str(chosen.milliseconds), "-r", "3", "-s", "999", "--percentile", "99", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:  # it waits for ever where a server died
        return None
    rate = re.search(r"Throughput: ([\d.]+) infer/sec", done.stdout)
    if done.returncode or not rate:
        return None
    times = [int(re.search(rf"p{p} latency: (\d+) usec", done.stdout)[1]) / 1000 for p in (50, 99)]
    return float(rate[1]), *times


def cell(runs):
    found = [run for run in runs if run]
    if not found:
        return "failed"
    rate, p50, p99 = (statistics.median(values) for values in zip(*found))
    lost = f"; {len(runs) - len(found)} of {len(runs)} failed" if len(found) < len(runs) else ""
    return f"{rate:,.0f} [{min(r[0] for r in found):,.0f} to {max(r[0] for r in found):,.0f}], {p50:.2f} / {p99:.2f}{lost}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("perf_analyzer")
    parser.add_argument("triton")
    parser.add_argument("ours")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--milliseconds", type=int, default=1000, help="of a window of perf_analyzer; it takes three")
    chosen = parser.parse_args()
    print("| load | callers | Triton | rnnserve | ratio of rates |\n|---|---|---|---|---|", flush=True)
    for kind, (model, options, shape) in KINDS.items():
        for callers in CALLERS:
            theirs, ours = [], []
            for _ in range(chosen.rounds):
                theirs.append(run(chosen, chosen.triton, model,
                                  [*options, *(["--shape", shape] if model == "unary128" else [])], callers))
                ours.append(run(chosen, chosen.ours, model + ("@sequence" if model == "step128" else ""),
                                [*options, "--shape", shape], callers))
            both = [[r[0] for r in side if r] for side in (theirs, ours)]
            ratio = f"{statistics.median(both[1]) / statistics.median(both[0]):.2f}" if all(both) else "-"
            print(f"| {kind} | {callers} | {cell(theirs)} | {cell(ours)} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
