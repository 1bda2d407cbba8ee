#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""100,000 live sessions: memory a session, open and chunk latency, cost of a step among them, and what the end of 20,000
idle ones does to the others. About 5 minutes; prints Markdown.

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
EXPIRING = 20_000
OPENING_SECONDS = 6  # enough for them


class Campaign:
    def __init__(self, arguments):
        self.rnnctl = environment.program("client/rnnctl/rnnctl")
        self.sessions, self.flags = arguments.sessions, arguments.flags.split()
        self.lines = []

    def start(self):
        folder = self.folder = pathlib.Path(processes.tempfile.mkdtemp(prefix="rnnserve-campaign-"))
        command = [environment.program("server/rnnserve"), "--listen=127.0.0.1:0", f"--port_file={folder / 'port'}",
                   "--admin_listen=127.0.0.1:0", f"--admin_port_file={folder / 'admin'}", "--log_level=error",
                   f"--session_idle_timeout={IDLE_SECONDS}s", *self.flags]
        self.server = processes.Server("rnnserve", command, folder / "port")
        self.admin = (folder / "admin").read_text().strip().rsplit(":", 1)[-1]
        return self.server

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

    def cost(self):
        """Server CPU microseconds and rate of a step, 1,000 busy sessions."""
        flags = ["--hidden=128", "--outputs=Y", "--sessions=1000", "--operations=32", "--keep=0"]
        runs = [processes.load(self.rnnctl, self.server, flags, 1) for _ in range(5)]
        return sorted(run["server_cpu_us_per_call"] for run in runs)[2], sorted(run["calls_per_second"] for run in runs)[2]

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
        self.cost()  # programs packed, buffers grown
        alone_us, alone_rate = self.cost()
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
        early_us, _ = self.cost()  # the allocator's free blocks lie scattered where the idle sessions' first states were
        among_us, among_rate = self.cost()
        self.add(f"| server CPU a step, 1,000 busy sessions | {alone_us:.1f} us alone, {among_us:.1f} us among {bare:,} idle ones: "
                 f"{among_us / alone_us:.2f} (in the first seconds after they were opened {early_us / alone_us:.2f}); {alone_rate:,.0f} and {among_rate:,.0f} steps/s |")
        for what, level in zip(("T = 1, one every 40 s in each", "T = 32, one every 8 s in each"), levels):
            self.add(f"| {level['sessions']:,} sessions, {what} | open p50 / p99 {level['open_p50_ms']:.2f} / "
                     f"{level['open_p99_ms']:.2f} ms; chunk p50 / p99 {level['latency_p50_ms']:.2f} / "
                     f"{level['latency_p99_ms']:.2f} ms; failed {level['failed']} |")
        self.expire()

    def expire(self):
        began = time.monotonic()
        leaver = self.background(f"--sessions={EXPIRING}", "--keep=0", "--cadence=1h", "--warm-up=0s", "--duration=1h")
        time.sleep(OPENING_SECONDS)
        leaver.send_signal(signal.SIGKILL)
        leaver.wait()
        during, rest = [], []
        while (at := time.monotonic() - began) < IDLE_SECONDS + 4 * OPENING_SECONDS:
            level = self.probe(3)
            until = time.monotonic() - began
            ending = until > IDLE_SECONDS and at < IDLE_SECONDS + OPENING_SECONDS
            (during if ending else rest).append(level["latency_p99_ms"])
        rest.sort()
        usual = rest[len(rest) // 2]
        self.add(f"| {EXPIRING:,} others expire: p99 of 64 sessions with a chunk every 32 ms | {max(during):.2f} ms in the worst 3 s "
                 f"around it, else {usual:.2f} ms ({rest[0]:.2f} to {rest[-1]:.2f}): {max(during) / usual:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md as well")
    parser.add_argument("--flags", default="", help="of rnnserve")
    campaign = Campaign(parser.parse_args())
    started = datetime.datetime.now(datetime.timezone.utc)
    report = environment.Report("session_campaign", "--write" in sys.argv)
    with contextlib.ExitStack() as stack:
        stack.enter_context(campaign.start())
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
