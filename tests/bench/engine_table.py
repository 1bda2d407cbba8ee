#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The engines' Advance next to onnxruntime, OpenVINO (float32) and oneDNN's own primitive: prints a Markdown table.

    tests/bench/engine_table.py [--quick] [--write] [--json FILE] [--kinds LSTM,GRU,RNN] [--threads 1,2] [--shapes 1,1,512 ...]
                               [--weights FLOAT16,BFLOAT16,INT8] [--product] [--limits]

--weights BFLOAT16 asks oneDNN and OpenVINO for their own bfloat16 as well. --limits adds the least that each cell's
multiply-adds of float32 or reads of weights take, gates left out, measured in turns with the contestants.

Forward, float32, I = H, constant weights. Every contestant is a process of its own that waits on a pipe until it is
asked; all take turns at each cell of the table, so that noise meets all of them. A turn's figure is the median of
samples of half a millisecond, a cell's the median over the rounds.

Ours is the fastest engine, as engine "auto" chooses. With two threads the cpu engine has its helper, as in the server;
two halves of the rows run side by side on the onednn engine, as two workers run them; or one thread runs all where that is
faster. A peer with two threads is likewise the better of its one-thread and two-thread run.
"""

import argparse
import datetime
import json
import math
import statistics
import subprocess
import sys
import time

import environment

SHAPES = ["1,1,128", "1,1,256", "1,1,512", "1,1,1024", "1,32,512", "1,64,1024", "32,1,512", "32,16,256", "64,32,512",
          "100,1,256", "16,64,1024"]
OURS = ["cpu", "onednn"]
PRODUCT = "onednn-product"
LIMIT = "limit"
PEERS = {"onednn-primitive": "oneDNN", "onnxruntime": "onnxruntime", "openvino": "OpenVINO"}
NARROW_PEERS = {"onednn-primitive/BFLOAT16": "oneDNN, bfloat16", "openvino/BFLOAT16": "OpenVINO, bfloat16"}


class Contestant:
    def __init__(self, name, verb):
        timer = environment.program("tests/bench/cell_timer")
        script = environment.HERE / "engines" / "peer_timer.py"
        command = [environment.python(), script] if name.split("/")[0] in ("onnxruntime", "openvino") else [timer]
        self.name, self.verb = name, verb
        self.process = subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            sys.exit(f"{self.name} died at: {line}")
        return answer

    def make(self, kind, shape, threads):
        return self.ask(f"make {kind} {shape.replace(',', ' ')} {threads}") == "ok"

    def seconds(self, span_ms):
        return float(self.ask(f"{self.verb} {span_ms}"))


def measure(contestants, kind, shape, threads, rounds, span_ms):
    """Seconds of each contestant that runs this cell, a figure for each round."""
    taking_part = [one for one in contestants if one.make(kind, shape, threads)]
    times = {one.name: [] for one in taking_part}
    for turn in range(rounds):
        # The order changes, in case an engine leaves threads spinning.
        for one in taking_part[turn % len(taking_part):] + taking_part[:turn % len(taking_part)]:
            time.sleep(0.01)  # teams of OpenMP go on spinning for milliseconds
            times[one.name].append(one.seconds(span_ms))
    return times


def judge(by_threads, threads):
    """Our best and the best peer's median for a cell, of all runs with at most so many threads."""
    best = {}
    for count, times in by_threads.items():
        for name, rounds in times.items():
            if count <= threads:
                best[name] = min(best.get(name, (math.inf, 0)), (statistics.median(rounds), count))
    ours = min(OURS, key=lambda name: best.get(name, (math.inf, 0)))
    peer = min(PEERS, key=lambda name: best.get(name, (math.inf, 0)))
    return {"ours": best[ours][0], "engine": ours, "threads": best[ours][1], "peer": best[peer][0], "who": peer,
            "ratio": best[peer][0] / best[ours][0], "all": {name: value for name, (value, _) in best.items()},
            "spread": spread(by_threads, best)}


def spread(by_threads, best):
    """Half the distance between the quartiles, relative to the median: the largest of those that count."""
    shares = []
    for name, (value, count) in best.items():
        if name == LIMIT:
            continue
        quartiles = statistics.quantiles(by_threads[count][name], n=4)
        shares.append((quartiles[2] - quartiles[0]) / 2 / value)
    return max(shares)


def shown(seconds):
    us = seconds * 1e6
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 100 else f"{us:.0f}"


def counted(threads):
    return f"{threads} thread{'s' if threads > 1 else ''}"


def table(results, kind, threads):
    lines = [f"\n**{kind}{' (linear_before_reset = 1)' if kind == 'GRU' else ''}, "
             f"{counted(threads)}** (us a call)\n",
             "| T, N, H | ours | engine | " + " | ".join(PEERS.values()) + " | best peer / ours | spread |",
             "|---|---|---|" + "---|" * (len(PEERS) + 2)]
    for shape, cell in results.items():
        engine = cell["engine"] + ("" if cell["threads"] == 1 else ", helper" if cell["engine"] == "cpu" else ", 2 halves")
        peers = [shown(cell["all"][name]) if name in cell["all"] else "-" for name in PEERS]
        lines.append(f"| {shape.replace(',', ', ')} | {shown(cell['ours'])} | {engine} | " + " | ".join(peers) +
                     f" | {cell['ratio']:.2f} | {cell['spread']:.0%} |")
    ratios = {shape: cell["ratio"] for shape, cell in results.items()}
    worst = min(ratios, key=ratios.get)
    lines.append(f"\nWorst {ratios[worst]:.2f} ({worst.replace(',', ', ')}), "
                 f"geometric mean {statistics.geometric_mean(ratios.values()):.2f}.")
    return "\n".join(lines)


def narrow_table(results, kind, threads, weights):
    """The cpu engine with narrow weights beside the best peer's float32 and peers' own bfloat16."""
    peers = NARROW_PEERS if "BFLOAT16" in weights else {}
    lines = [f"\n**{kind}, {counted(threads)}, narrow weights** (us a call; best peer's float32 / ours)\n",
             "| T, N, H | float32 | best peer | " + " | ".join([*weights, *peers.values()]) + " |",
             "|---|---|---|" + "---|" * (len(weights) + len(peers))]
    for shape, cell in results.items():
        narrow = [cell["all"].get(name) for name in [*(f"cpu/{name}" for name in weights), *peers]]
        lines.append(f"| {shape.replace(',', ', ')} | {shown(cell['ours'])} | {shown(cell['peer'])} | " +
                     " | ".join(f"{shown(value)} ({cell['peer'] / value:.1f})" if value else "-" for value in narrow) + " |")
    return "\n".join(lines)


def product_table(results, kind, threads):
    """Cells of many rows beside their products by oneDNN, without gates."""
    cells = {shape: cell for shape, cell in results.items() if int(shape.split(",")[1]) >= 16}
    lines = [f"\n**{kind}, {counted(threads)}, beside oneDNN's packed product alone** (us a call)\n",
             "| T, N, H | ours | product | product / ours |", "|---|---|---|---|"]
    for shape, cell in cells.items():
        ours, product = cell["ours"], cell["all"][PRODUCT]
        lines.append(f"| {shape.replace(',', ', ')} | {shown(ours)} | {shown(product)} | {product / ours:.2f} |")
    return "\n".join(lines)


def limit_table(results, kind, threads):
    """Cells beside the least that they take; what a peer's time over that allows in the mean."""
    lines = [f"\n**{kind}, {counted(threads)}, beside the machine's limit** (us a call)\n",
             "| T, N, H | ours | limit | limit / ours | best peer / limit | oneDNN / limit |", "|---|---|---|---|---|---|"]
    shares, allowed, of_onednn = [], [], []
    for shape, cell in results.items():
        limit = cell["all"][LIMIT]
        shares.append(limit / cell["ours"])
        allowed.append(cell["peer"] / limit)
        of_onednn.append(cell["all"].get("onednn-primitive", cell["peer"]) / limit)
        lines.append(f"| {shape.replace(',', ', ')} | {shown(cell['ours'])} | {shown(limit)} | {shares[-1]:.2f} | "
                     f"{allowed[-1]:.2f} | {of_onednn[-1]:.2f} |")
    means = [statistics.geometric_mean(ratios) for ratios in (shares, allowed, of_onednn)]
    lines.append(f"| mean | | | {means[0]:.2f} | {means[1]:.2f} | {means[2]:.2f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds of short turns: about a minute, only a hint")
    parser.add_argument("--json", metavar="FILE", help="write all rounds' figures as well")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md as well")
    parser.add_argument("--kinds", default="LSTM,GRU,RNN")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="T,N,H")
    parser.add_argument("--weights", default="", metavar="TYPE,...",
                        help="narrow weights of the cpu engine, in a table of their own")
    parser.add_argument("--product", action="store_true",
                        help="the time of oneDNN's packed product alone, for cells of 16 rows and more")
    parser.add_argument("--limits", action="store_true", help="the least that the machine allows, beside each cell")
    parser.add_argument("--rounds", type=int, help="default 7")
    parser.add_argument("--cpu-time", action="store_true",
                        help="CPU time instead of elapsed time, for machines that do other work as well; one thread only")
    arguments = parser.parse_args()
    rounds = arguments.rounds or (3 if arguments.quick else 7)
    span_ms = 8 if arguments.quick else 50
    narrow = arguments.weights.split(",") if arguments.weights else []
    counts = [1] if arguments.cpu_time else [int(count) for count in arguments.threads.split(",")]
    names = [*OURS, *PEERS, *(f"cpu/{weights}" for weights in narrow),
             *(NARROW_PEERS if "BFLOAT16" in narrow else []), *([PRODUCT] if arguments.product else []),
             *([LIMIT] if arguments.limits else [])]
    contestants = [Contestant(name, "cpu-time" if arguments.cpu_time else "time") for name in names]
    started = datetime.datetime.now(datetime.timezone.utc)
    floors = {one.name: one.seconds(50) for one in contestants
              if one.name in ("onnxruntime", "openvino") and one.make("none", "1,1,128", 1)}

    report = environment.Report("engine_table", arguments.write)
    report.add(f"{started:%Y-%m-%d %H:%M} UTC, {environment.machine()}; `{' '.join(sys.argv)}`, medians of {rounds} "
               f"rounds. A call from Python of a graph that only copies 128 values takes " +
               ", ".join(f"{PEERS[name]} {shown(value)} us" for name, value in floors.items()) + ".")
    everything = []
    for kind in arguments.kinds.split(","):
        cells = {}
        for shape in arguments.shapes:
            # Two threads are compared with one as well.
            wanted = sorted({1, *counts})
            cells[shape] = {count: measure(contestants, kind, shape, count, rounds, span_ms) for count in wanted}
            if sys.stderr.isatty():
                print(f"\r\033[K{kind} {shape}", end="", file=sys.stderr, flush=True)
        for count in counts:
            results = {shape: judge(by_threads, count) for shape, by_threads in cells.items()}
            everything.append({"kind": kind, "threads": count, "cells": results, "rounds": cells})
            report.add(table(results, kind, count))
            if narrow:
                report.add(narrow_table(results, kind, count, narrow))
            if arguments.product:
                report.add(product_table(results, kind, count))
            if arguments.limits:
                report.add(limit_table(results, kind, count))
    ratios = [cell["ratio"] for part in everything for cell in part["cells"].values()]
    report.add(f"\nAll {len(ratios)} cells: worst {min(ratios):.2f}, geometric mean {statistics.geometric_mean(ratios):.2f}, "
          f"below 1.0: {sum(ratio < 1 for ratio in ratios)}.")
    report.finish()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"started": started.isoformat(), "machine": environment.machine(), "parts": everything}, file, indent=1)


if __name__ == "__main__":
    main()
