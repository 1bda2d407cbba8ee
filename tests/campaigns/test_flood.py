# SPDX-License-Identifier: Apache-2.0
"""Ten times as many connections as descriptors, of each hostile kind, while others call: how soon it serves newcomers
again, and what the others' p99 does: without them, beside the same flood of a listener that only accepts and holds
(what attacker and kernel take of the machine), and beside theirs, in turn."""

from __future__ import annotations

import contextlib
import os
import ssl
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
from test_security import Authority, _channel, _put, _tls_flags

DESCRIPTORS = 512
ROUNDS = int(os.environ.get("RNNSERVE_ROUNDS", "4"))
CALLS = 2000  # of the others, in each part of a round
SECONDS = 60
KINDS = {"silent": b"", "greeting": PREFACE + SETTINGS, "slow headers": PREFACE + SETTINGS + frame(1, 0, 1, b"\x82"),
         "never reading": PREFACE + SETTINGS + frame(6, 0, 0, b"12345678") * 2, "half a TLS handshake": None}
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
# A listener that has nothing to do with the server.
CONTROL = """
import resource, select, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
print(listener.getsockname()[1], flush=True)
held = []
while True:
    held.append(listener.accept()[0])
"""


class Others(threading.Thread):
    """Somebody who called before and goes on calling."""

    def __init__(self, channel):
        super().__init__(daemon=True)
        self.stub, self.stop, self.seconds = wire.recurrent_grpc.RecurrentStub(channel), threading.Event(), []

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


def _newcomer(connect):
    """How long it takes to be served."""
    began = time.monotonic()
    with connect() as channel:
        stub = wire.recurrent_grpc.RecurrentStub(channel)
        stub.Infer(_request(), timeout=SECONDS, wait_for_ready=True)
    return time.monotonic() - began


def _client_hello():
    """Of a handshake that does not go on."""
    said = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost").do_handshake()
    return said.read()


@contextlib.contextmanager
def _flood(port, greeting):
    attacker = subprocess.Popen([sys.executable, "-c", ATTACK, str(port), str(10 * DESCRIPTORS), greeting.hex()],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert attacker.stdout.readline() == b"held\n"
        yield
    finally:
        attacker.communicate(timeout=SECONDS)


@contextlib.contextmanager
def _control():
    """The port of a listener that only accepts and holds."""
    holder = subprocess.Popen([sys.executable, "-c", CONTROL], stdout=subprocess.PIPE)
    try:
        yield int(holder.stdout.readline())
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.parametrize("kind", KINDS)
def test_flood(kind, tell, tmp_path):
    greeting, flags, connect = KINDS[kind], [], None
    if greeting is None:
        authority = Authority(tmp_path, "authority")
        for name, content in zip(("tls.crt", "tls.key"), authority.sign("server", 1)):
            _put(tmp_path / name, content)
        greeting, flags, connect = _client_hello(), _tls_flags(tmp_path), lambda: _channel(server, authority)
    server = Server(*flags, descriptors=DESCRIPTORS)
    connect = connect or (lambda: wire.channel(server.address))
    phases = {phase: [] for phase in ("without", "control comes", "control held", "flood comes", "flood held")}
    again = []
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        others = Others(stack.enter_context(connect()))
        others.start()
        stack.callback(others.stop.set)
        others.calls(CALLS)
        for _ in range(ROUNDS):
            phases["without"] += others.calls(CALLS)
            with _control() as port:
                since = len(others.seconds)
                with _flood(port, greeting):
                    phases["control comes"] += others.seconds[since:]
                    phases["control held"] += others.calls(CALLS)
            others.calls(CALLS)  # its end is over
            since = len(others.seconds)
            with _flood(server.port, greeting):
                phases["flood comes"] += others.seconds[since:]
                again.append(_newcomer(connect))
                phases["flood held"] += others.calls(CALLS)
            others.calls(CALLS)
        others.stop.set()
        others.join(SECONDS)
        assert max(again) < 5 and server.alive()
    tell(f"{kind}, {ROUNDS} times: {10 * DESCRIPTORS} connections against {DESCRIPTORS} descriptors: a newcomer is served "
         f"after {max(again):.2f} s at most; p99 of the others in ms: "
         + ", ".join(f"{phase} {_p99_ms(seconds):.2f}" for phase, seconds in phases.items()))
