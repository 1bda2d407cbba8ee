#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Latency over load, in open loop: the service, the service with other ways of batching, and Python with onnxruntime.

    tests/bench/load_curve.py [--quick] [--write]

Requests of mixed lengths arrive at random moments at a rate that is a share of the service's own peak; latency counts from
the moment a request was due. --write puts the table and the plot (docs/latency_over_load.svg) into docs/benchmarks.md.
"""

import argparse
import contextlib
import datetime
import math
import statistics
import subprocess
import sys

import environment

sys.path.insert(0, str(environment.HERE / "service"))
import processes  # noqa: E402

MIXED = ["--hidden=128", "--steps=1:400", "--outputs=Y_h"]
MODES = {"cellular": None, "whole requests of equal shape": "request", "one by one": "off"}
PEER = "Python + onnxruntime"
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
PLOT = environment.ROOT / "docs" / "latency_over_load.svg"
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")  # told apart by the colour-blind, too


def measure(rnnctl, server, rate, seconds):
    command = [rnnctl, "bench", f"--server={server.address}", "--json", "--warm-up=300ms", f"--duration={seconds}s",
               "--max-in-flight=4096", "--timeout=5s", f"--rate={rate:.0f}", *MIXED]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise processes.Failed(done.stderr.strip())
    return processes.json.loads(done.stdout)["levels"][0]


def svg(title, curves):
    """Curves of p99 over the share of the peak; the vertical axis is logarithmic."""
    width, height, left, top, right, bottom = 720, 420, 70, 40, 20, 60
    values = [value for points in curves.values() for _, value in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(share):
        return left + (width - left - right) * share / max(SHARES)

    def y(value):
        return top + (height - top - bottom) * (high - math.log10(value)) / max(high - low, 1)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>', f'<text x="{left}" y="20" font-size="14">{title}</text>']
    for power in range(low, high + 1):
        at = y(10 ** power)
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{10 ** power:g} ms</text>')
    for share in SHARES:
        parts.append(f'<text x="{x(share):.1f}" y="{height - bottom + 18}" text-anchor="middle">{share:.0%}</text>')
    parts.append(f'<text x="{(left + width - right) / 2}" y="{height - bottom + 36}" text-anchor="middle">'
                 "offered load, of the peak of cellular batching</text>")
    for k, (name, points) in enumerate(curves.items()):
        line = " ".join(f"{x(share):.1f},{y(value):.1f}" for share, value in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[k]}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(share):.1f}" cy="{y(value):.1f}" r="3" fill="{COLOURS[k]}"/>' for share, value in points]
        parts.append(f'<rect x="{left + 10}" y="{top + 8 + 18 * k}" width="12" height="3" fill="{COLOURS[k]}"/>'
                     f'<text x="{left + 28}" y="{top + 14 + 18 * k}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1 round of short runs: only a hint")
    parser.add_argument("--write", action="store_true", help="put table and plot into docs/ as well")
    arguments = parser.parse_args()
    rounds, seconds = (1, 1) if arguments.quick else (3, 2.5)
    rnnctl, binary = environment.program("client/rnnctl/rnnctl"), environment.program("server/rnnserve")
    started = datetime.datetime.now(datetime.timezone.utc)
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(processes.batching(binary, mode)) for name, mode in MODES.items()}
        script = environment.HERE / "service" / "ort_server.py"
        servers[PEER] = stack.enter_context(processes.Server(PEER, [environment.python(), script, "pool"]))
        peak = statistics.median(
            processes.load(rnnctl, servers["cellular"], [*MIXED, "--concurrency=64"], seconds)["calls_per_second"]
            for _ in range(max(rounds, 2)))
        found = {(name, share): [] for name in servers for share in SHARES}
        for share in SHARES:
            for _ in range(rounds):
                for name, server in servers.items():
                    found[name, share].append(measure(rnnctl, server, peak * share, seconds))

    def median(name, share, figure):
        return statistics.median(run[figure] for run in found[name, share])

    report = environment.Report("load_curve", arguments.write)
    report.add(f"{started:%Y-%m-%d %H:%M} UTC, {environment.machine()}, shared by server and load generator; `{' '.join(sys.argv)}`, "
               f"medians of {rounds} rounds of {seconds} s. LSTM H = 128, T from 1 to 400; the peak is {peak:,.0f} /s "
               "(64 callers in closed loop). Cells: p50 / p99 ms, and the share answered within 5 s where it is not all.\n")
    report.add("| offered, of the peak | " + " | ".join(servers) + " |")
    report.add("|---" * (1 + len(servers)) + "|")
    for share in SHARES:
        cells = []
        for name in servers:
            asked = statistics.median(run["calls"] + run["failed"] + run["unsent"] for run in found[name, share])
            answered = median(name, share, "calls") / max(asked, 1)
            note = "" if answered > 0.999 else f", {answered:.0%}"
            cells.append(f"{median(name, share, 'latency_p50_ms'):.1f} / {median(name, share, 'latency_p99_ms'):.1f}{note}")
        report.add(f"| {share:.0%} | " + " | ".join(cells) + " |")
    report.add("\n![p99 latency over load](latency_over_load.svg)")
    report.finish()
    if arguments.write:
        curves = {name: [(share, max(median(name, share, "latency_p99_ms"), 1e-3)) for share in SHARES] for name in servers}
        PLOT.write_text(svg("p99 latency of answers over load, LSTM H = 128, T from 1 to 400", curves), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except processes.Failed as failed:
        sys.exit(f"load_curve: {failed}")
