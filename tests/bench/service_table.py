#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The service next to a bare gRPC echo and to a Python gRPC + onnxruntime server: prints Markdown tables.

    tests/bench/service_table.py [--quick] [--write] [--json FILE] [--flags="--workers=2 ..."]

`rnnctl bench` is the only load generator, on the same machine as the servers. Every row takes its turns interleaved:
one run of each server, then the next round; figures are medians over the rounds. Answers are compared with the first one
to the same request in each run, and beforehand with the other server's.
"""

import argparse
import contextlib
import datetime
import json
import statistics
import subprocess
import sys

import environment

sys.path.insert(0, str(environment.HERE / "service"))
import processes  # noqa: E402

STEP = ["--outputs=Y", "--steps=1"]
# Section 2: messages of equal sizes, next to a server that only moves them.
ECHO_ROWS = {
    "LSTM H = 128, T = 1, 1 caller": ["--hidden=128", "--concurrency=1", *STEP],
    "LSTM H = 128, T = 1, 8 callers": ["--hidden=128", "--concurrency=8", *STEP],
    "LSTM H = 128, T = 1, 64 callers": ["--hidden=128", "--concurrency=64", *STEP],
    "RNN H = 128, T = 1, N = 32 (16 KiB), 64 callers": ["--op=RNN", "--hidden=128", "--rows=32", "--concurrency=64", *STEP],
    "LSTM H = 512, T = 1, 1 caller": ["--hidden=512", "--concurrency=1", *STEP],
}
# Section 2, compute-bound: next to the engine's own rate with 64 rows.
ENGINE_ROWS = {512: ["--hidden=512", "--concurrency=64", *STEP], 1024: ["--hidden=1024", "--concurrency=64", *STEP]}
# Section 3: whole sequences, next to what people write themselves.
PEER_ROWS = {
    "H = 128, T = 32, 1 caller": ["--hidden=128", "--steps=32", "--concurrency=1"],
    "H = 128, T = 32, 64 callers": ["--hidden=128", "--steps=32", "--concurrency=64"],
    "H = 512, T = 32, 1 caller": ["--hidden=512", "--steps=32", "--concurrency=1"],
    "H = 512, T = 32, 64 callers": ["--hidden=512", "--steps=32", "--concurrency=64"],
    "H = 128, T from 1 to 400, 64 callers": ["--hidden=128", "--steps=1:400", "--concurrency=64"],
}
CHECK = "--check=1e-5"


def median(runs, figure):
    return statistics.median(run[figure] for run in runs)


def rate(runs):
    values = [run["calls_per_second"] for run in runs]
    shown = statistics.median(values)
    return f"{shown:,.0f}"


def spread(*all_runs):
    """Half of the range of a contestant's rates, relative to their median: the largest."""
    shares = []
    for runs in all_runs:
        values = [run["calls_per_second"] for run in runs]
        shares.append((max(values) - min(values)) / 2 / statistics.median(values))
    return f"{max(shares):.0%}"


class Bench:
    def __init__(self, rounds, seconds):
        self.rounds, self.seconds = rounds, seconds
        self.rnnctl = environment.program("client/rnnctl/rnnctl")
        self.results = {}

    def load(self, server, flags):
        return processes.load(self.rnnctl, server, flags, self.seconds)

    def rows(self, rows, contestants):
        """`contestants(name, flags)`: pairs of a server and its flags for a row. Returns runs by row and server."""
        taking_part = {name: contestants(name, flags) for name, flags in rows.items()}
        runs = {name: {server.name: [] for server, _ in pairs} for name, pairs in taking_part.items()}
        for turn in range(self.rounds):
            for name, pairs in taking_part.items():
                if sys.stderr.isatty():
                    print(f"\r\033[Kround {turn + 1} of {self.rounds}: {name}", end="", file=sys.stderr, flush=True)
                for server, flags in pairs:
                    runs[name][server.name].append(self.load(server, flags))
        self.results.update({str(name): by_server for name, by_server in runs.items()})
        return runs


def echo_table(bench, ours, servers):
    echoes = {}

    def contestants(_, flags):
        size = processes.load(bench.rnnctl, ours, flags, 0.2)["received_bytes_per_call"]
        if size not in echoes:
            program = environment.program("tests/bench/echo_server")
            echoes[size] = servers.enter_context(processes.Server("echo", [program, "127.0.0.1:0", str(size)]))
        return [(ours, [*flags, CHECK]), (echoes[size], [*flags, "--echo"])]

    lines = ["| unary calls | bytes out / back | ours /s | echo /s | ours / echo | p50 ms ours / echo | compute p50 us "
             "| server CPU us a call ours / echo | spread |", "|---|---|---|---|---|---|---|---|---|"]
    for name, runs in bench.rows(ECHO_ROWS, contestants).items():
        own, echo = runs["rnnserve"], runs["echo"]
        lines.append(
            f"| {name} | {own[0]['sent_bytes_per_call']} / {own[0]['received_bytes_per_call']} | {rate(own)} | {rate(echo)} "
            f"| {median(own, 'calls_per_second') / median(echo, 'calls_per_second'):.2f} "
            f"| {median(own, 'latency_p50_ms'):.3f} / {median(echo, 'latency_p50_ms'):.3f} "
            f"| {median(own, 'compute_p50_ms') * 1000:.1f} "
            f"| {median(own, 'server_cpu_us_per_call'):.1f} / {median(echo, 'server_cpu_us_per_call'):.1f} "
            f"| {spread(own, echo)} |")
    return "\n".join(lines)


def engine_seconds(units):
    """Of one Advance of 64 rows, one step, on one thread: the fastest engine's."""
    found = []
    for engine in ("cpu", "onednn"):
        done = subprocess.run([environment.program("tests/bench/cell_timer"), engine], text=True, capture_output=True,
                              input=f"make LSTM 1 64 {units} 1\ntime 300\n", check=True)
        found.append(float(done.stdout.split()[-1]))
    return min(found)


def engine_table(bench, ours):
    lines = ["| unary calls, T = 1, 64 callers | ours /s | largest batch | client's share of a CPU | engine alone, 64 rows, /s "
             "a CPU | ours / engine on what the client leaves | spread |", "|---|---|---|---|---|---|---|"]
    alone = {units: [] for units in ENGINE_ROWS}
    runs = {units: [] for units in ENGINE_ROWS}
    for _ in range(bench.rounds):
        for units, flags in ENGINE_ROWS.items():
            alone[units].append(64 / engine_seconds(units))
            runs[units].append(bench.load(ours, [*flags, CHECK]))
    for units, own in runs.items():
        client = statistics.median(run["client_cpu_us_per_call"] * 1e-6 * run["calls_per_second"] for run in own)
        engine = statistics.median(alone[units])
        share = median(own, "calls_per_second") / (engine * (2 - client))
        lines.append(f"| LSTM H = {units} | {rate(own)} | {max(run['largest_batch'] for run in own)} | {client:.2f} "
                     f"| {engine:,.0f} | {share:.2f} | {spread(own)} |")
        bench.results[f"engine {units}"] = {"rnnserve": own, "engine": alone[units]}
    return "\n".join(lines)


def peer_table(bench, ours, peers):
    def contestants(_, flags):
        return [(server, [*flags, CHECK]) for server in (ours, *peers)]

    lines = ["| unary calls, LSTM | ours /s (p50 / p99 ms) | Python + onnxruntime /s (p50 / p99 ms) | which | rate ratio "
             "| p99 ratio | spread |", "|---|---|---|---|---|---|---|"]
    for name, runs in bench.rows(PEER_ROWS, contestants).items():
        own = runs["rnnserve"]
        best = max(peers, key=lambda peer: median(runs[peer.name], "calls_per_second")).name
        peer = runs[best]

        def shown(of):
            return f"{rate(of)} ({median(of, 'latency_p50_ms'):.2f} / {median(of, 'latency_p99_ms'):.2f})"

        lines.append(f"| {name} | {shown(own)} | {shown(peer)} | {best} "
                     f"| {median(own, 'calls_per_second') / median(peer, 'calls_per_second'):.2f} "
                     f"| {median(own, 'latency_p99_ms') / median(peer, 'latency_p99_ms'):.2f} | {spread(own, peer)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 rounds of short runs: about a minute, only a hint")
    parser.add_argument("--rounds", type=int, help="default 5")
    parser.add_argument("--json", metavar="FILE", help="write all runs' figures as well")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md as well")
    parser.add_argument("--flags", default="", help="of rnnserve")
    arguments = parser.parse_args()
    bench = Bench(arguments.rounds or (2 if arguments.quick else 5), 0.4 if arguments.quick else 1.5)
    started = datetime.datetime.now(datetime.timezone.utc)
    service = environment.HERE / "service"
    python = environment.python()
    with contextlib.ExitStack() as servers:
        ours = servers.enter_context(
            processes.rnnserve(environment.program("server/rnnserve"), arguments.flags.split()))
        peers = [servers.enter_context(processes.Server(way, [python, service / "ort_server.py", way]))
                 for way in ("inline", "pool")]
        for peer in peers:
            subprocess.run([python, service / "same_answers.py", ours.address, peer.address], check=True)
        report = environment.Report("service_table", arguments.write)
        report.add(f"{started:%Y-%m-%d %H:%M} UTC, {environment.machine()}, shared by servers and load generator; "
                   f"`{' '.join(sys.argv)}`, medians of {bench.rounds} rounds of {bench.seconds} s.")
        report.add("\n**Next to a bare gRPC echo of equal message sizes**\n\n" + echo_table(bench, ours, servers))
        report.add("\n**Next to the engine alone**\n\n" + engine_table(bench, ours))
        report.add("\n**Next to a Python asyncio gRPC server with onnxruntime**\n\n" + peer_table(bench, ours, peers))
        report.finish()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"started": started.isoformat(), "machine": environment.machine(), "rows": bench.results}, file, indent=1)


if __name__ == "__main__":
    try:
        main()
    except processes.Failed as failed:
        sys.exit(f"service_table: {failed}")
