#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The service beyond its capacity, and next to itself with other ways of batching: prints Markdown tables.

    tests/bench/overload_table.py [--quick] [--write]
    tests/bench/overload_table.py --beyond          only beyond capacity, and nothing written

Goodput counts answers inside their deadline, in open loop, from the moment a request was due. The load generator wakes every
5 ms (TICK); a row beside the sweep has it wake for every request and every answer. Health is asked every 30 ms meanwhile, over
a connection of its own.
"""

import argparse
import contextlib
import datetime
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import environment

sys.path.insert(0, str(environment.HERE / "service"))
import processes  # noqa: E402

MODEL = ["--hidden=512", "--steps=32", "--outputs=Y_h"]
MIXED = ["--hidden=128", "--steps=1:400", "--outputs=Y_h"]
# Much to compute in few bytes: the load generator shares the machine, and beyond capacity its part would be most of it.
LONG = ["--hidden=512", "--input=8", "--steps=400", "--outputs=Y_h"]
# At 4 x it takes as much CPU as taking the requests in does, half of it for waking up. Its deadlines and latencies count
# from when requests were due, not from the tick.
TICK = "--tick=5ms"
SMALL_QUEUE = 128
MODES = {"cellular": None, "whole requests of equal shape": "request", "one by one": "off"}
MODE_ROWS = {
    "H = 512, T = 32": [*MODEL, "--concurrency=64"],
    "H = 512, T = 1": ["--hidden=512", "--steps=1", "--outputs=Y_h", "--concurrency=64"],
    "H = 128, T from 1 to 400": [*MIXED, "--concurrency=64"],
}

# Prints the slowest health check and the slowest request to the admin port, in milliseconds, and what CPU it took.
# Starts at a line of input: Python takes its time to get there.
ASK_HEALTH = """
import http.client, sys, time, grpc
channel = grpc.insecure_channel(sys.argv[1])
check = channel.unary_unary("/grpc.health.v1.Health/Check", lambda x: x, lambda x: x)
check(b"", wait_for_ready=True, timeout=10)
def admin():
    connection = http.client.HTTPConnection(sys.argv[2], timeout=10)
    connection.request("GET", "/readyz")
    connection.getresponse().read()
    connection.close()
admin()
print(flush=True)
sys.stdin.readline()
cpu, worst, end = time.process_time(), [0.0, 0.0], time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    for k, ask in enumerate((lambda: check(b"", timeout=10), admin)):
        start = time.monotonic()
        ask()
        worst[k] = max(worst[k], time.monotonic() - start)
    time.sleep(0.03)
print(*(seconds * 1000 for seconds in worst), time.process_time() - cpu)
"""


def median(runs, figure):
    return statistics.median(run[figure] for run in runs)


def modes_table(rnnctl, binary, rounds, seconds):
    lines = ["| 64 callers, LSTM | batching | calls /s | p50 / p99 ms | largest batch | server CPU us a call |",
             "|---|---|---|---|---|---|"]
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(processes.batching(binary, mode)) for name, mode in MODES.items()}
        for row, flags in MODE_ROWS.items():
            runs = {name: [] for name in MODES}
            for _ in range(rounds):
                for name, server in servers.items():
                    runs[name].append(processes.load(rnnctl, server, flags, seconds))
            for name, own in runs.items():
                lines.append(f"| {row} | {name} | {median(own, 'calls_per_second'):,.0f} | {median(own, 'latency_p50_ms'):.1f} / "
                             f"{median(own, 'latency_p99_ms'):.1f} | {max(run['largest_batch'] for run in own)} "
                             f"| {median(own, 'server_cpu_us_per_call'):,.0f} |")
    return "\n".join(lines)


def open_loop(rnnctl, server, flags, seconds):
    """Like processes.load, where refusals are what we look for."""
    command = [rnnctl, "bench", f"--server={server.address}", "--json", "--warm-up=500ms", f"--duration={seconds}s",
               "--max-in-flight=8192", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        if "DEADLINE_EXCEEDED" in done.stderr:  # a storm's own check call
            return None
        raise processes.Failed(done.stderr.strip())
    return processes.json.loads(done.stdout)["levels"][0]


def client_cpus(run):
    return run["client_cpu_us_per_call"] * (run["calls"] + run["failed"]) / run["seconds"] / 1e6


def open_row(rnnctl, asked, flags, seconds, beside=None):
    """One run in open loop, with health and admin port asked meanwhile and perhaps a storm beside it."""
    health = subprocess.Popen([environment.python(), "-c", ASK_HEALTH, asked.address, asked.admin, str(seconds)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    health.stdout.readline()
    health.stdin.write("\n")
    health.stdin.flush()
    storm = threading.Thread(target=open_loop, args=(rnnctl, asked, beside, seconds)) if beside else None
    if storm:
        storm.start()
        time.sleep(0.2)
    run = open_loop(rnnctl, asked, flags, seconds)
    *run["slowest"], cpu = (float(figure) for figure in health.communicate()[0].split())
    run["client"] = client_cpus(run)
    run["left"] = os.cpu_count() - run["client"] - cpu / seconds
    if storm:
        storm.join()
    return run


def overload_table(rnnctl, binary, rounds, seconds):
    lines = ["| offered, of the closed loop | goodput /s | of the peak | of the closed loop | of the peak, by CPU left to the server "
             "| p50 / p99 ms of answers | refused or too late /s | refusal p50 / p99 ms | load generator CPUs "
             "| slowest health check / admin request ms |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(processes.rnnserve(binary, ["--admin_listen=127.0.0.1:0"]))
        bounded = stack.enter_context(
            processes.rnnserve(binary, ["--admin_listen=127.0.0.1:0", f"--queue_sequences={SMALL_QUEUE}"]))
        closed = [processes.load(rnnctl, server, [*LONG, "--concurrency=64"], seconds)]
        rate = closed[0]["calls_per_second"]
        sweep = {f"{times} x": (server, [*LONG, f"--rate={rate * times:.0f}", "--timeout=1s", TICK]) for times in (0.5, 1, 2, 4)}
        rows = {**sweep,
                "4 x, the load generator wakes for each": (server, [*LONG, f"--rate={rate * 4:.0f}", "--timeout=1s"]),
                f"4 x, deadlines of 20 s, `--queue_sequences={SMALL_QUEUE}`":
                    (bounded, [*LONG, f"--rate={rate * 4:.0f}", "--timeout=20s"]),
                "0.5 x beside a storm: 4 x with deadlines of 50 ms, which few can keep":
                    (server, [*LONG, f"--rate={rate / 2:.0f}", "--timeout=1s"],
                     [*LONG, f"--rate={rate * 4:.0f}", "--timeout=50ms"])}
        runs = {name: [] for name in rows}
        for _ in range(rounds):
            closed.append(processes.load(rnnctl, server, [*LONG, "--concurrency=64"], seconds))
            for name, (asked, flags, *beside) in rows.items():
                runs[name].append(open_row(rnnctl, asked, flags, seconds, *beside))
    closed_rate = median(closed, "calls_per_second")
    peak = max(median(runs[name], "calls_per_second") for name in sweep)
    by_cpu = {name: statistics.median(run["calls_per_second"] / run["left"] for run in runs[name]) for name in runs}
    peak_by_cpu = max(by_cpu[name] for name in sweep)
    for name, found in runs.items():
        is_stormed, is_bounded = len(rows[name]) > 2, rows[name][0] is bounded
        good = median(found, "calls_per_second")
        refused = statistics.median(run["failed"] / run["seconds"] for run in found)
        # Only RESOURCE_EXHAUSTED counts as a refusal here.
        refusal = f"{median(found, 'refusal_p50_ms'):.1f} / {median(found, 'refusal_p99_ms'):.1f}" if is_bounded else ""
        lines.append(f"| {name} | {good:,.0f} | {good / peak:.0%} | {good / closed_rate:.0%} "
                     f"| {'' if is_stormed else f'{by_cpu[name] / peak_by_cpu:.0%}'} "
                     f"| {median(found, 'latency_p50_ms'):.0f} / {median(found, 'latency_p99_ms'):.0f} | {refused:,.0f} | {refusal} | {median(found, 'client'):.2f} "
                     f"| {max(run['slowest'][0] for run in found):.0f} / {max(run['slowest'][1] for run in found):.0f} |")
    best = max(run["calls_per_second"] for run in closed)
    return (f"Peak: {peak:,.0f} /s, the highest goodput of 0.5 to 4 x. Closed loop of 64 callers in the same rounds: median "
            f"{closed_rate:,.0f} /s, best of {len(closed)} runs {best:,.0f} /s (4 x is {median(runs['4 x'], 'calls_per_second') / best:.0%} "
            f"of that one). Deadlines of 1 s.\n\n" + "\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2 rounds of short runs: only a hint")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md as well")
    parser.add_argument("--beyond", action="store_true", help="only the table beyond capacity; to look at its spread")
    arguments = parser.parse_args()
    if arguments.beyond and arguments.write:
        parser.error("--write needs both tables")
    rounds, seconds = (2, 1.5) if arguments.quick else (5, 3)
    rnnctl, binary = environment.program("client/rnnctl/rnnctl"), environment.program("server/rnnserve")
    report = environment.Report("overload_table", arguments.write)
    started = datetime.datetime.now(datetime.timezone.utc)
    report.add(f"{started:%Y-%m-%d %H:%M} UTC, {environment.machine()}, shared with the load generator and a load of "
               f"{pathlib.Path('/proc/loadavg').read_text().split()[0]} beside it; `{' '.join(sys.argv)}`, medians of {rounds} "
               f"rounds of {seconds} s.")
    if not arguments.beyond:
        report.add("\n**Ways of batching**\n\n" + modes_table(rnnctl, binary, rounds, seconds))
    report.add("\n**Beyond capacity** (LSTM H = 512, I = 8, T = 400)\n\n" + overload_table(rnnctl, binary, rounds, seconds))
    report.finish()


if __name__ == "__main__":
    try:
        main()
    except processes.Failed as failed:
        sys.exit(f"overload_table: {failed}")
