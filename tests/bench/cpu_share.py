# SPDX-License-Identifier: Apache-2.0
"""What two busy processes get of the CPUs beside two others, each in a session of its own, alone and with a process
that only wakes up each millisecond: cpu_share.py [--seconds 3]

The kernel gives each session of processes one share of each CPU (sched_autogroup). See docs/benchmarks.md, "Beside
Triton".
"""

import argparse
import os
import signal
import subprocess
import sys
import time

BUSY = "while True: pass"
TICK = "import time\nwhile True: time.sleep(0.001)"
# Starts the programs that it is given in its own session, and prints their process numbers.
GROUP = """import subprocess, sys, time
print(*[subprocess.Popen([sys.executable, "-c", code]).pid for code in sys.argv[1:]], flush=True)
time.sleep(3600)"""


def session(*programs):
    leader = subprocess.Popen([sys.executable, "-c", GROUP, *programs], stdout=subprocess.PIPE, text=True,
                              start_new_session=True)
    return leader, leader.stdout.readline().split()


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def share(seconds, *programs):
    """CPUs that a session of these programs has, in the mean."""
    leader, pids = session(*programs)
    try:
        time.sleep(0.5)  # until all of them run
        before, start = cpu_seconds(pids), time.monotonic()
        time.sleep(seconds)
        return (cpu_seconds(pids) - before) / (time.monotonic() - start)
    finally:
        os.killpg(leader.pid, signal.SIGKILL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    seconds = parser.parse_args().seconds
    others = [session(BUSY)[0] for _ in range(2)]
    try:
        print(f"two busy processes: {share(seconds, BUSY, BUSY):.2f} CPUs")
        print(f"and one that wakes up each millisecond: {share(seconds, BUSY, BUSY, TICK):.2f} CPUs")
    finally:
        for leader in others:
            os.killpg(leader.pid, signal.SIGKILL)
