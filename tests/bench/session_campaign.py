#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""100,000 live sessions: memory a session, open and chunk latency, cost of a step among them, and what the end of
20,000 idle ones does to the others. About 5 minutes; prints Markdown.

    tests/bench/session_campaign.py [--sessions N] [--write] [--flags="..."]

LSTM H = 128. Nine in ten sessions send chunks of T = 1 and keep no replies; one in ten sends T = 32, asks for Y and has a
window of 8 replies, which is full when memory is looked at.
"""

import argparse
import contextlib
import datetime
import json
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

import environment

sys.path.insert(0, str(environment.HERE / "service"))
import processes  # noqa: E402

STATE_BYTES = 2 * 128 * 4
CHUNK_STEPS, KEPT = 32, 8
REPLY_BYTES = CHUNK_STEPS * 128 * 4 + 256  # as the window counts it
IDLE_SECONDS = 75
EXPIRING, GROUPS = 20_000, 4
OPENING_SECONDS = 6  # enough for them
GROUP_SECONDS = 12
COST_ROUNDS = 9


class Campaign:
    def __init__(self, arguments):
        self.rnnctl = environment.program("client/rnnctl/rnnctl")
        self.sessions, self.flags = arguments.sessions, arguments.flags.split()
        self.lines = []

    def start(self):
        """The server of the sessions; self.empty is another one beside it, which only cost() uses."""
        self.empty, _ = self.serve()
        self.server, self.admin = self.serve()
        return self.empty, self.server

    def serve(self):
        folder = pathlib.Path(processes.tempfile.mkdtemp(prefix="rnnserve-campaign-"))
        command = [environment.program("server/rnnserve"), "--listen=127.0.0.1:0", f"--port_file={folder / 'port'}",
                   "--admin_listen=127.0.0.1:0", "--log_level=error",
                   f"--session_idle_timeout={IDLE_SECONDS}s", *self.flags]
        server = processes.Server("rnnserve", command, folder / "port")
        return server, (folder / "port.admin").read_text().strip().rsplit(":", 1)[-1]

    def resident(self):
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024

    def charged(self):
        """What sessions count against --session_bytes; nothing where the server has no such metric."""
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=60).read().decode()
        found = re.search(r"^rnnserve_session_bytes(?:{.*})? (\S+)$", text, re.M)
        return float(found[1]) if found else None

    def command(self, *flags):
        return [self.rnnctl, "bench", f"--server={self.server.address}", "--json", "--hidden=128", "--outputs=Y",
                "--timeout=0", *flags]

    def background(self, *flags):
        return subprocess.Popen(self.command("--operations=32", *flags), stdout=subprocess.PIPE, text=True)

    def level(self, *flags):
        return processes.report(self.rnnctl, self.server, self.command(*flags)[4:])["levels"][0]

    def cost(self, server):
        """Server CPU microseconds and rate of a step, 1,000 busy sessions."""
        flags = ["--hidden=128", "--outputs=Y", "--sessions=1000", "--operations=32", "--keep=0"]
        run = processes.load(self.rnnctl, server, flags, 1)
        return run["server_cpu_us_per_call"], run["calls_per_second"]

    def compare_cost(self, idle):
        """Among the idle ones and on the server that has none, in turn."""
        alone, among = zip(*((self.cost(self.empty), self.cost(self.server)) for _ in range(COST_ROUNDS)))
        middle = COST_ROUNDS // 2
        (alone_us, alone_rate), (among_us, among_rate) = ([sorted(values)[middle] for values in zip(*runs)] for runs in (alone, among))
        ratios = sorted(b[0] / a[0] for a, b in zip(alone, among))
        self.add(f"| server CPU a step, 1,000 busy sessions, medians of {COST_ROUNDS} runs in turn | {alone_us:.1f} us alone, {among_us:.1f} us "
                 f"among {idle:,} idle ones: {among_us / alone_us:.2f} (of pairs {ratios[0]:.2f} to {ratios[-1]:.2f}); "
                 f"{alone_rate:,.0f} and {among_rate:,.0f} steps/s |")

    def probe(self, seconds):
        return self.level("--sessions=64", "--cadence=32ms", "--keep=0", "--warm-up=0s", f"--duration={seconds}s")

    def add(self, line):
        self.lines.append(line)
        print(line, flush=True)

    def grown(self, since):
        """Resident bytes, and those charged, beyond what there was."""
        charged = self.charged()
        return self.resident() - since[0], None if charged is None else charged - since[1]

    def add_memory(self, what, held, charge):
        told = f"{held / 2**20:,.0f} MiB"
        if charge is not None:
            told += f"; charged (`rnnserve_session_bytes`) {charge / 2**20:,.0f} MiB, ratio {held / charge:.2f}"
        self.add(f"| {what} | {told} |")

    def run(self):
        for server in (self.empty, self.server):
            for _ in range(3):
                self.cost(server)  # programs packed, buffers grown
        empty = self.resident(), self.charged()
        with_window = self.sessions // 10
        bare = self.sessions - with_window
        quiet = self.background(f"--sessions={bare}", "--keep=0", "--cadence=40s", "--warm-up=0s", "--duration=1h")
        time.sleep(50)  # each has had a chunk
        held, charge = self.grown(empty)
        self.add_memory(f"resident memory of {bare:,} sessions that keep no replies", held, charge)
        self.add(f"| a session of these | {held / bare:,.0f} B; state {STATE_BYTES:,} B; goal {STATE_BYTES * 1.25 + 400:,.0f} B |")
        windows = self.background(f"--sessions={with_window}", f"--keep={KEPT}", f"--keep-bytes={KEPT * REPLY_BYTES}",
                                  f"--chunk={CHUNK_STEPS}", "--cadence=8s", "--warm-up=0s", "--duration=78s")
        time.sleep(75)  # windows are full
        held, charge = self.grown(empty)
        replies = with_window * KEPT * REPLY_BYTES
        self.add_memory(f"the same with {with_window:,} more, whose windows hold {replies / 2**20:,.0f} MiB", held, charge)
        levels = []
        for process in (quiet, windows):
            if process is quiet:
                process.send_signal(signal.SIGINT)  # tells what it has measured and leaves its sessions as they are
            levels.append(json.loads(process.communicate()[0])["levels"][0])
        self.compare_cost(bare)
        for what, level in zip(("T = 1, one every 40 s in each", "T = 32, one every 8 s in each"), levels):
            self.add(f"| {level['sessions']:,} sessions, {what} | open p50 / p99 {level['open_p50_ms']:.2f} / "
                     f"{level['open_p99_ms']:.2f} ms; chunk p50 / p99 {level['latency_p50_ms']:.2f} / "
                     f"{level['latency_p99_ms']:.2f} ms; failed {level['failed']} |")
        self.expire()

    def expire(self):
        """Sessions expire in groups, one every GROUP_SECONDS, and others step on: probes while a group expires and between
        groups take turns."""
        began = time.monotonic()

        def wait(until):
            time.sleep(max(0, began + until - time.monotonic()))

        for group in range(GROUPS):
            wait(group * GROUP_SECONDS)
            leaver = self.background(f"--sessions={EXPIRING}", "--keep=0", "--cadence=1h", "--warm-up=0s", "--duration=1h")
            wait(group * GROUP_SECONDS + OPENING_SECONDS)
            leaver.send_signal(signal.SIGKILL)
            leaver.wait()
        during, rest, ended = [], [], []
        for group in range(GROUPS):
            # By now everything that was there before the groups is gone.
            for where, offset in ((during, 0), (rest, OPENING_SECONDS + 0.5)):
                wait(IDLE_SECONDS + group * GROUP_SECONDS + offset)
                before = self.expired()
                where.append(self.probe(5)["latency_p99_ms"])
                ended.append(self.expired() - before)
        usual, beside = (statistics.median(values) for values in (rest, during))
        shown = [", ".join(f"{value:.2f}" for value in values) for values in (during, rest)]
        self.add(f"| p99 of 64 sessions with a chunk every 32 ms, 5 s at a time in turn: while {min(ended[::2]):,} to "
                 f"{max(ended[::2]):,} others expire / while {min(ended[1::2]):,} to {max(ended[1::2]):,} do | {beside:.2f} / "
                 f"{usual:.2f} ms: {beside / usual:.2f} ({shown[0]} / {shown[1]}) |")

    def expired(self):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=60).read().decode()
        return sum(int(float(value)) for value in re.findall(r'^rnnserve_sessions_total{[^}]*event="expired".*} (\S+)$', text, re.M))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md as well")
    parser.add_argument("--flags", default="", help="of rnnserve")
    campaign = Campaign(parser.parse_args())
    started = datetime.datetime.now(datetime.timezone.utc)
    report = environment.Report("session_campaign", "--write" in sys.argv)
    with contextlib.ExitStack() as stack:
        for server in campaign.start():
            stack.enter_context(server)
        campaign.add(f"{started:%Y-%m-%d %H:%M} UTC, {environment.machine()}, shared by server and load generators; "
                     f"`{' '.join(sys.argv)}`, {campaign.sessions:,} sessions, LSTM H = 128.\n\n| what | measured |\n|---|---|")
        campaign.run()
    report.text = campaign.lines
    report.finish()


if __name__ == "__main__":
    try:
        main()
    except processes.Failed as failed:
        sys.exit(f"session_campaign: {failed}")
