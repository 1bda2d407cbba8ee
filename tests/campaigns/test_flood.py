# SPDX-License-Identifier: Apache-2.0
"""Ten times as many connections as descriptors, of each hostile kind, while others call: how soon it serves newcomers
again, and what the others' p99 does, with and without them in turn."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import wire
from half_messages import PREFACE, frame
from server_process import Server
from test_connections import SETTINGS, _request

DESCRIPTORS = 512
ROUNDS = int(os.environ.get("RNNSERVE_ROUNDS", "4"))
CALLS = 2000  # of the others, in each part of a round
SECONDS = 60
KINDS = {"silent": b"", "greeting": PREFACE + SETTINGS, "slow headers": PREFACE + SETTINGS + frame(1, 0, 1, b"\x82"),
         "never reading": PREFACE + SETTINGS + frame(6, 0, 0, b"12345678") * 2}
# A process of its own: it must not take the others' time in this one.
ATTACK = """
import contextlib, resource, socket, sys
port, count, greeting = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for _ in range(count):
    held.append(socket.create_connection(("127.0.0.1", port), timeout=60))
    with contextlib.suppress(OSError):
        held[-1].sendall(greeting)
print("held", flush=True)
sys.stdin.read()
"""


class Others(threading.Thread):
    """Somebody who called before and goes on calling."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.stub, self.stop, self.seconds = server.recurrent, threading.Event(), []

    def run(self):
        request = _request()
        while not self.stop.is_set():
            began = time.perf_counter()
            self.stub.Infer(request, timeout=SECONDS)
            self.seconds.append(time.perf_counter() - began)

    def calls(self, count):
        """How long the next ones take."""
        since = len(self.seconds)
        while len(self.seconds) < since + count:
            assert self.is_alive()
            self.stop.wait(0.01)
        return self.seconds[since:]


def _p99_ms(seconds):
    return 1e3 * float(np.quantile(seconds, 0.99))


def _newcomer(server):
    """How long it takes to be served."""
    began = time.monotonic()
    with wire.channel(server.address) as channel:
        stub = wire.recurrent_grpc.RecurrentStub(channel)
        stub.Infer(_request(), timeout=SECONDS, wait_for_ready=True)
    return time.monotonic() - began


@pytest.mark.parametrize("kind", KINDS)
def test_flood(kind, tell):
    server = Server(descriptors=DESCRIPTORS)
    calm, coming, held, again = [], [], [], []
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        others = Others(server)
        others.start()
        stack.callback(others.stop.set)
        others.calls(CALLS)
        for _ in range(ROUNDS):
            calm += others.calls(CALLS)
            since = len(others.seconds)
            attacker = subprocess.Popen(
                [sys.executable, "-c", ATTACK, str(server.port), str(10 * DESCRIPTORS), KINDS[kind].hex()],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            try:
                assert attacker.stdout.readline() == b"held\n"
                coming += others.seconds[since:]
                again.append(_newcomer(server))
                held += others.calls(CALLS)
            finally:
                attacker.communicate(timeout=SECONDS)
        others.stop.set()
        others.join(SECONDS)
        assert max(again) < 5 and server.alive()
    tell(f"{kind}, {ROUNDS} times: {10 * DESCRIPTORS} connections against {DESCRIPTORS} descriptors: a newcomer is served "
         f"after {max(again):.2f} s at most; p99 of the others {_p99_ms(calm):.2f} ms without them, {_p99_ms(coming):.2f} "
         f"ms while they come, {_p99_ms(held):.2f} ms while they are held")
