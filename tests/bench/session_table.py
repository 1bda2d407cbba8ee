#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions next to a bare gRPC echo stream, to a Python gRPC + onnxruntime server and to the engine alone.

    tests/bench/session_table.py [--quick] [--write] [--json FILE] [--flags="--workers=2 ..."]

As service_table.py: `rnnctl bench` is the only load generator, turns are interleaved, figures are medians over rounds,
answers are checked beforehand (the n-th reply of a session against the first n-th reply of any). T = 1, output Y.
"""

import argparse
import contextlib
import datetime
import json
import sys

import environment

sys.path.insert(0, str(environment.HERE / "service"))
import processes  # noqa: E402
from service_table import Bench, engine_seconds, median, rate, spread  # noqa: E402

SESSIONS = (1, 8, 64, 1000)
GATEWAY = "--operations=32"
# The Python server answers a few thousand a second: at 1,000 sessions its windows would hold next to nothing.
PEER_SESSIONS = (1, 64)


def name_of(units, sessions, gateway):
    one = "1 session" if sessions == 1 else f"{sessions:,} sessions"
    return f"H = {units}, {one}, {'up to 32 operations' if gateway else '1 operation'} a message"


def rows():
    table = {}
    for units in (128, 512):
        for gateway in (False, True):
            for sessions in SESSIONS:
                if gateway and sessions < 64:
                    continue
                flags = [f"--hidden={units}", f"--sessions={sessions}", "--outputs=Y", *([GATEWAY] if gateway else [])]
                table[name_of(units, sessions, gateway)] = (units, sessions, flags)
    return table


def shown(runs):
    return f"{rate(runs)} ({median(runs, 'latency_p50_ms'):.2f} / {median(runs, 'latency_p99_ms'):.2f})"


def session_table(bench, ours, echo, peers):
    table = rows()

    def contestants(name, flags):
        bench.load(ours, [*flags, "--check=1e-5"])  # apart: comparing costs the load generator more than all else
        pairs = [(ours, flags), (echo, [*flags, "--echo"])]
        if table[name][1] in PEER_SESSIONS:
            pairs += [(peer, flags) for peer in peers]
        return pairs

    alone = {units: 64 / engine_seconds(units) for units in (128, 512)}
    lines = ["| LSTM, T = 1 | steps/s (p50 / p99 ms) | compute p50 us | server CPU us a step | echo /s (p50 / p99 ms) "
             "| ours / echo | ours / engine on one CPU, 64 rows | Python + onnxruntime /s (p50 / p99 ms) | ours / Python "
             "| p99 ours / Python | spread |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    runs_of = bench.rows({name: flags for name, (_, _, flags) in table.items()}, contestants)
    for name, runs in runs_of.items():
        own, echoed = runs["rnnserve"], runs["echo"]
        units = table[name][0]
        peer = max((runs[peer.name] for peer in peers if peer.name in runs),
                   key=lambda of: median(of, "calls_per_second"), default=None)
        against = ["-", "-", "-"]
        if peer:
            against = [shown(peer), f"{median(own, 'calls_per_second') / median(peer, 'calls_per_second'):.2f}",
                       f"{median(own, 'latency_p99_ms') / median(peer, 'latency_p99_ms'):.2f}"]
        lines.append(f"| {name} | {shown(own)} | {median(own, 'compute_p50_ms') * 1000:.1f} "
                     f"| {median(own, 'server_cpu_us_per_call'):.1f} | {shown(echoed)} "
                     f"| {median(own, 'calls_per_second') / median(echoed, 'calls_per_second'):.2f} "
                     f"| {median(own, 'calls_per_second') / alone[units]:.2f} | {' | '.join(against)} "
                     f"| {spread(own, echoed)} |")
    bench.results["engine alone, 64 rows, /s"] = alone
    return "\n".join(lines) + "\n\nThe engine alone, 64 rows, one CPU: " + ", ".join(
        f"H = {units}: {value:,.0f} /s" for units, value in alone.items()) + "."


def find_table(bench, server, quick):
    """How many real-time sessions are held: chunks of T = 2 every 32 ms, as a voice detector has them."""
    flags = ["--hidden=128", "--chunk=2", "--outputs=Y_h", "--cadence=32ms", "--sessions=512", "--find=20ms",
             f"--duration={1 if quick else 2}s", "--warm-up=500ms", "--operations=32", "--arrivals=random"]
    report = processes.report(bench.rnnctl, server, flags)
    held = [level for level in report["levels"] if level["sessions"] == report["held_sessions"]]
    bench.results["find"] = report
    if not held:
        return "Not even one real-time session had a p99 of at most 20 ms."
    return (f"Real-time sessions (LSTM H = 128, a chunk of T = 2 every 32 ms on average, Y_h, up to 32 operations a message) "
            f"held at a p99 of at most 20 ms: **{report['held_sessions']:,}**, {held[-1]['calls_per_second']:,.0f} chunks/s, "
            f"real-time factor {held[-1]['real_time_factor']:.3f} (`rnnctl bench {' '.join(flags)}`).")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 rounds of short runs: 2 minutes, only a hint")
    parser.add_argument("--rounds", type=int, help="default 5")
    parser.add_argument("--json", metavar="FILE", help="write all runs' figures as well")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md as well")
    parser.add_argument("--flags", default="", help="of rnnserve")
    arguments = parser.parse_args()
    bench = Bench(arguments.rounds or (2 if arguments.quick else 5), 0.4 if arguments.quick else 1)
    started = datetime.datetime.now(datetime.timezone.utc)
    python = environment.python()
    with contextlib.ExitStack() as servers:
        ours = servers.enter_context(processes.rnnserve(environment.program("server/rnnserve"), arguments.flags.split()))
        echo = servers.enter_context(
            processes.Server("echo", [environment.program("tests/bench/echo_server"), "127.0.0.1:0"]))
        peers = [servers.enter_context(processes.Server(way, [python, environment.HERE / "service" / "ort_server.py", way]))
                 for way in ("inline", "pool")]
        report = environment.Report("session_table", arguments.write)
        report.add(f"{started:%Y-%m-%d %H:%M} UTC, {environment.machine()}, shared by servers and load generator; "
                   f"`{' '.join(sys.argv)}`, medians of {bench.rounds} rounds of {bench.seconds} s.\n")
        report.add(session_table(bench, ours, echo, peers))
        report.add("\n" + find_table(bench, ours, arguments.quick))
        report.finish()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"started": started.isoformat(), "machine": environment.machine(), "rows": bench.results}, file, indent=1)


if __name__ == "__main__":
    try:
        main()
    except processes.Failed as failed:
        sys.exit(f"session_table: {failed}")
