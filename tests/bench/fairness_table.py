#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One large model beside a crowd of small ones, each sent over a connection of its own: prints a Markdown table.

    tests/bench/fairness_table.py [--quick]

Compute a second is calls a second times the time of the slices that a call was in. A model that shares compute evenly has half
of it, or all it asks for. What the crowd costs elsewhere (the load generator, reading its messages) is not shared out by the scheduler.
"""

import argparse
import contextlib
import datetime
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time

import environment

sys.path.insert(0, str(environment.HERE / "service"))
import processes  # noqa: E402

LARGE = ["--hidden=512", "--input=64", "--rows=16", "--steps=30", "--outputs=Y_h"]
SMALL_CELLS = 1000
# Steps of the crowd's requests, and whether the weights come with each.
CROWDS = {"T = 4, weights inline": (4, ["--inline"]), "T = 400": (400, [])}
CALLERS = 200


def crowd_flags(folder, steps, more):
    mix = pathlib.Path(folder) / f"{steps}.json"
    mix.write_text(json.dumps([{"op": "LSTM", "hidden": 48, "input": 16, "steps": steps}] * SMALL_CELLS))
    return [f"--mix={mix}", f"--concurrency={CALLERS}", "--outputs=Y_h", *more]


def level(rnnctl, server, flags, seconds):
    return processes.report(rnnctl, server, [f"--duration={seconds}s", "--warm-up=500ms", *flags])["levels"][0]


def compute(run):
    """Seconds of slices a second."""
    return run["calls_per_second"] * run["compute_mean_ms"] / 1000


def beside(rnnctl, server, large, crowd, seconds):
    """Both at once: the crowd comes before the large one and stays after it."""
    found = {}
    thread = threading.Thread(target=lambda: found.update(crowd=level(rnnctl, server, crowd, seconds + 2)))
    thread.start()
    time.sleep(1)
    found["large"] = level(rnnctl, server, large, seconds)
    thread.join()
    return found


def cell(run):
    return f"{run['calls_per_second']:,.0f}, {run['latency_p50_ms']:.1f} / {run['latency_p99_ms']:.1f}, {compute(run):.2f}"


def table(rnnctl, binary, rounds, seconds):
    lines = ["| large: callers | crowd of 1,000 cells | large alone: calls /s, p50 / p99 ms, compute a second | large beside the crowd "
             "| crowd beside it | large's part of the compute |", "|---|---|---|---|---|---|"]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(processes.rnnserve(binary, []))
        for callers in (1, 8):
            large = [*LARGE, f"--concurrency={callers}"]
            for name, (steps, more) in CROWDS.items():
                crowd = crowd_flags(folder, steps, more)
                runs = []
                for _ in range(rounds):
                    alone = level(rnnctl, server, large, seconds)
                    runs.append({"alone": alone, **beside(rnnctl, server, large, crowd, seconds)})
                runs.sort(key=lambda run: run["large"]["calls_per_second"])
                median = runs[len(runs) // 2]
                share = statistics.median(compute(run["large"]) / (compute(run["large"]) + compute(run["crowd"])) for run in runs)
                lines.append(f"| {callers} | {name} | {cell(median['alone'])} | {cell(median['large'])} | {cell(median['crowd'])} "
                             f"| {share:.0%} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1 round of short runs: only a hint")
    arguments = parser.parse_args()
    rounds, seconds = (1, 3) if arguments.quick else (3, 5)
    rnnctl, binary = environment.program("client/rnnctl/rnnctl"), environment.program("server/rnnserve")
    started = datetime.datetime.now(datetime.timezone.utc)
    print(f"{started:%Y-%m-%d %H:%M} UTC, {environment.machine()}, shared with the load generators; `{' '.join(sys.argv)}`, medians of "
          f"{rounds} rounds of {seconds} s.\n")
    print(table(rnnctl, binary, rounds, seconds))


if __name__ == "__main__":
    try:
        main()
    except processes.Failed as failed:
        sys.exit(f"fairness_table: {failed}")
