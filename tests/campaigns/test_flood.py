# SPDX-License-Identifier: Apache-2.0
"""Ten times as many connections as descriptors, of each hostile kind, while others call: how soon it serves newcomers
again, and what the others' p99 does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import numpy as np
import pytest

import wire
from half_messages import PREFACE, frame
from server_process import Server
from test_connections import SETTINGS, _request

DESCRIPTORS = 512
SECONDS = 60
KINDS = {"silent": b"", "greeting": PREFACE + SETTINGS, "slow headers": PREFACE + SETTINGS + frame(1, 0, 1, b"\x82"),
         "never reading": PREFACE + SETTINGS + frame(6, 0, 0, b"12345678") * 2}


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

    def p99_ms(self, since):
        return 1e3 * float(np.quantile(self.seconds[since:], 0.99))


@pytest.mark.parametrize("kind", KINDS)
def test_flood(kind, tell):
    server = Server(descriptors=DESCRIPTORS)
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        others = Others(server)
        others.start()
        stack.callback(others.stop.set)
        while len(others.seconds) < 3000:
            assert others.is_alive()
        calm = others.p99_ms(1000)
        for _ in range(10 * DESCRIPTORS):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS))
            with contextlib.suppress(OSError):
                connection.sendall(KINDS[kind])
        held = len(others.seconds)
        began = time.monotonic()
        with wire.channel(server.address) as channel:
            stub = wire.recurrent_grpc.RecurrentStub(channel)
            stub.Infer(_request(), timeout=SECONDS, wait_for_ready=True)
        again = time.monotonic() - began
        while len(others.seconds) < held + 2000:
            assert others.is_alive()
        tell(f"{kind}: {10 * DESCRIPTORS} connections against {DESCRIPTORS} descriptors: a newcomer is served after "
             f"{again:.2f} s; p99 of the others {calm:.2f} ms before, {others.p99_ms(held):.2f} ms while they are held")
        others.stop.set()
        others.join(SECONDS)
        assert again < 5 and server.alive()
