#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a step costs with durability local, interval and sync, beside redis-benchmark's SET of as many bytes as a write has.

    tests/bench/durability_table.py [--rounds N] [--seconds S] [--write] [--json FILE]

`rnnctl bench` is the load generator; a redis-server of its own, the server and both load generators share this machine. T = 1,
output Y_h, one operation a message. Turns are interleaved; figures are medians over rounds. The store's bytes and operations are
counted by the server's metrics between two moments at which all sessions are open and send.
"""

import argparse
import contextlib
import csv
import datetime
import io
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import environment

sys.path.insert(0, str(environment.HERE / "service"))
import processes  # noqa: E402

WAYS = ("local", "interval", "sync")
SESSIONS = (1, 64, 1000)
UNITS = 128
PACED = 20000  # sessions with a step a second each


class Redis:
    def __init__(self, folder):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        self._folder = folder

    def __enter__(self):
        self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir",
                                         self._folder], stdout=subprocess.DEVNULL)
        while not self.command("PING").startswith("PONG"):
            if self.process.poll() is not None:
                raise processes.Failed("redis-server did not start")
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)

    def command(self, *words):
        return subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True).stdout

    def used_memory(self):
        """Bytes of what is stored and of Redis's own."""
        return int(next(line for line in self.command("INFO", "memory").splitlines()
                        if line.startswith("used_memory:")).split(":")[1])

    def benchmark(self, size, clients, seconds):
        """SET a second, p50 and p99 ms: one connection for each session, one SET under way on each."""
        def run(requests):
            done = subprocess.run(["redis-benchmark", "-p", str(self.port), "-t", "set", "-d", str(size), "-c", str(clients), "-n",
                                   str(requests), "-r", str(clients), "--csv"], capture_output=True, text=True, check=True)
            row = next(csv.DictReader(io.StringIO(done.stdout)))
            return {"calls_per_second": float(row["rps"]), "latency_p50_ms": float(row["p50_latency_ms"]),
                    "latency_p99_ms": float(row["p99_latency_ms"])}
        hint = run(2000 + 10 * clients)["calls_per_second"]
        return run(int(hint * seconds) + clients)


def counters(server):
    text = urllib.request.urlopen(f"http://{server.admin}/metrics").read().decode()
    values = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    def total(*parts):
        return sum(float(value) for name, value in values if all(part in name for part in parts))
    return {"steps": total("rnnserve_sequence_steps_total", 'kind="useful"'),
            "bytes": total("rnnserve_store_bytes_total", 'direction="sent"'),
            "writes": total("rnnserve_store_operations_total", 'operation="write"', 'result="ok"')}


def resident_bytes(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) << 10


def turn(rnnctl, server, redis, sessions, way, seconds, *flags):
    """One run's figures, with what the server sent to the store while all sessions ran."""
    redis.command("FLUSHALL")
    empty, at_rest = redis.used_memory(), resident_bytes(server)
    begin = counters(server)["steps"]
    command = [rnnctl, "bench", f"--server={server.address}", "--json", f"--hidden={UNITS}", "--outputs=Y_h", "--warm-up=500ms",
               f"--duration={seconds}s", f"--sessions={sessions}", f"--durability={way}", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while (first := counters(server))["steps"] < begin + 0.2 * sessions and process.poll() is None:  # all are open by then
        time.sleep(0.05)
    cpu, redis_cpu = server.cpu_seconds(), processes.Server.cpu_seconds(redis)
    time.sleep(0.8 * seconds)  # the run's own warm-up and duration last longer
    last, stored, resident = counters(server), redis.used_memory(), resident_bytes(server)
    cpu, redis_cpu = server.cpu_seconds() - cpu, processes.Server.cpu_seconds(redis) - redis_cpu
    stdout, stderr = process.communicate()
    if process.returncode != 0:
        raise processes.Failed(stderr.strip())
    level = json.loads(stdout)["levels"][0]
    if level["failed"]:
        raise processes.Failed(f"{way}, {sessions} sessions: {level['failed']} calls failed ({level['codes']})")
    steps, writes = last["steps"] - first["steps"], last["writes"] - first["writes"]
    level |= {"server_cpu_us": cpu * 1e6 / steps, "redis_cpu_us": redis_cpu * 1e6 / steps,
              "store_bytes_a_step": (last["bytes"] - first["bytes"]) / steps,
              "bytes_a_write": (last["bytes"] - first["bytes"]) / writes if writes else 0,
              "writes_a_step": writes / steps, "redis_bytes_a_session": (stored - empty) / sessions,
              "server_bytes_a_session": (resident - at_rest) / sessions}
    return level


def median(runs, figure):
    return statistics.median(run[figure] for run in runs)


def spread(runs):
    values = [run["calls_per_second"] for run in runs]
    return f"{(max(values) - min(values)) / 2 / statistics.median(values):.0%}"


def shown(runs):
    return (f"{median(runs, 'calls_per_second'):,.0f} ({median(runs, 'latency_p50_ms'):.2f} / "
            f"{median(runs, 'latency_p99_ms'):.2f})")


def table(measured, beside):
    lines = [f"| sessions, LSTM H = {UNITS}, T = 1 | durability | steps/s (p50 / p99 ms) | share of local | server CPU us a step | Redis CPU us a "
             "step | writes a step | bytes to the store a step | bytes a write | redis-benchmark SET of these /s (p50 / p99 ms) | "
             "spread |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for (sessions, way), runs in measured.items():
        share = median(runs, "calls_per_second") / median(measured[sessions, "local"], "calls_per_second")
        lines.append(f"| {sessions:,} | {way} | {shown(runs)} | {share:.2f} | {median(runs, 'server_cpu_us'):.1f} | "
                     + ("- | - | - | - | - | " if way == "local" else
                        f"{median(runs, 'redis_cpu_us'):.1f} | {median(runs, 'writes_a_step'):.3f} | "
                        f"{median(runs, 'store_bytes_a_step'):,.0f} | {median(runs, 'bytes_a_write'):,.0f} | "
                        f"{shown(beside[sessions]) if way == 'sync' else '-'} | ") + f"{spread(runs)} |")
    return "\n".join(lines)


def paced_table(measured):
    lines = [f"| {PACED:,} sessions, a step a second each | steps/s (p50 / p99 ms) | server CPU us a step | Redis CPU us a step | writes a "
             "step | bytes to the store a step | resident bytes of the server a session | bytes of Redis a session |",
             "|---|---|---|---|---|---|---|---|"]
    for way, run in measured.items():
        lines.append(f"| {way} | {shown([run])} | {run['server_cpu_us']:.1f} | {run['redis_cpu_us']:.1f} | {run['writes_a_step']:.2f} | "
                     f"{run['store_bytes_a_step']:,.0f} | {run['server_bytes_a_session']:,.0f} | "
                     f"{run['redis_bytes_a_session']:,.0f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json", metavar="FILE", help="write all runs' figures as well")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md as well")
    arguments = parser.parse_args()
    started = datetime.datetime.now(datetime.timezone.utc)
    rnnctl = environment.program("client/rnnctl/rnnctl")
    measured = {(sessions, way): [] for sessions in SESSIONS for way in WAYS}
    beside = {sessions: [] for sessions in SESSIONS}
    with contextlib.ExitStack() as running:
        folder = running.enter_context(tempfile.TemporaryDirectory())
        secret = pathlib.Path(folder) / "secret"
        secret.write_text("a secret of the table's own, 32 letters or more\n")
        redis = running.enter_context(Redis(folder))
        flags = [f"--store=redis://127.0.0.1:{redis.port}", f"--session_secret_file={secret}", "--admin_listen=127.0.0.1:0"]
        paced = {}
        for way in WAYS:  # each with a server of its own, whose memory no earlier run has touched
            with processes.rnnserve(environment.program("server/rnnserve"), flags) as server:
                paced[way] = turn(rnnctl, server, redis, PACED, way, 2 * arguments.seconds, "--cadence=1s", "--arrivals=random",
                                  "--operations=32", "--keep=1")
        server = running.enter_context(processes.rnnserve(environment.program("server/rnnserve"), flags))
        for _ in range(arguments.rounds):
            for sessions, way in measured:
                measured[sessions, way].append(turn(rnnctl, server, redis, sessions, way, arguments.seconds))
                if way == "sync":
                    size = round(measured[sessions, way][-1]["bytes_a_write"])
                    beside[sessions].append(redis.benchmark(size, sessions, arguments.seconds))
    report = environment.Report("durability_table", arguments.write)
    report.add(f"{started:%Y-%m-%d %H:%M} UTC, {environment.machine()}, shared by server, Redis and load generator; "
               f"`{' '.join(sys.argv)}`, medians of {arguments.rounds} rounds of {arguments.seconds} s.\n")
    report.add(table(measured, beside) + "\n\n" + paced_table(paced))
    report.finish()
    if arguments.json:
        rows = {f"paced {way}": run for way, run in paced.items()} | {f"{sessions} {way}": runs for (sessions, way), runs in measured.items()} | {
            f"{sessions} redis-benchmark": runs for sessions, runs in beside.items()}
        pathlib.Path(arguments.json).write_text(json.dumps({"started": started.isoformat(), "machine": environment.machine(),
                                                            "rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except processes.Failed as failed:
        sys.exit(f"durability_table: {failed}")
