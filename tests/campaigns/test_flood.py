# SPDX-License-Identifier: Apache-2.0
"""Ten times as many connections as descriptors, of each hostile kind, while others call: how soon it serves newcomers
again, and what the others' p99 does.

A round has parts, each as long as the connections take to come in:
  apart    a flood whose attacker takes only what CPU is left over (SCHED_IDLE), as one on a machine of its own
  held     the connections of `apart`, once all have come
  flood    the same with an attacker that takes its share of this machine's CPUs: some of what it does to the others is
           its own use of them
  control  that attacker, but against a listener that only accepts and holds: what of it is not the server's doing
  without  the others alone
The parts come in an order by chance: what comes and goes on the machine by itself must not always meet the same one.
What is told of each: the p99 of every thousand calls in turn, as their median, with the quartiles, over all rounds (one
hiccup of the machine moves it little, a flood's steady work does); and the p99 of all calls together (where it counts
in full). Newcomers come in rounds of their own, since they take CPU from the others too."""

from __future__ import annotations

import contextlib
import os
import random
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
ROUNDS = int(os.environ.get("RNNSERVE_ROUNDS", "4"))  # the more, the less is by chance
SETTLE = 1000  # calls of the others between two parts
WINDOW = 1000  # calls
SECONDS = 60
KINDS = {"silent": b"", "greeting": PREFACE + SETTINGS, "slow headers": PREFACE + SETTINGS + frame(1, 0, 1, b"\x82"),
         "never reading": PREFACE + SETTINGS + frame(6, 0, 0, b"12345678") * 2, "half a TLS handshake": None}
# A process of its own: it must not take the others' time in this one.
ATTACK = """
import contextlib, os, resource, socket, sys
port, count, greeting, is_apart = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3]), sys.argv[4] == "apart"
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
if is_apart:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
print("ready", flush=True)
sys.stdin.readline()
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
    """Callers that called before and go on calling."""

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
        """Until they have made so many more."""
        since = len(self.seconds)
        while len(self.seconds) < since + count:
            assert self.is_alive()
            self.stop.wait(0.01)


def _windows_p99_ms(parts):
    """Of every WINDOW calls in turn, of the part in all rounds."""
    return [1e3 * np.quantile(part[k:k + WINDOW], 0.99) for part in parts for k in range(0, len(part) - WINDOW + 1, WINDOW)]


def _p99_ms(parts):
    return 1e3 * np.quantile(np.concatenate(parts), 0.99)


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


class Attacker:
    """Ready to come when told to; leaves with its connections."""

    def __init__(self, port, greeting, place="beside"):
        self.process = subprocess.Popen(
            [sys.executable, "-c", ATTACK, str(port), str(10 * DESCRIPTORS), greeting.hex(), place],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"

    def come(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def has_come(self):
        assert self.process.stdout.readline() == b"held\n"

    def leave(self):
        self.process.communicate(timeout=SECONDS)


@contextlib.contextmanager
def _control():
    """The port of a listener that only accepts and holds."""
    holder = subprocess.Popen([sys.executable, "-c", CONTROL], stdout=subprocess.PIPE)
    try:
        yield int(holder.stdout.readline())
    finally:
        holder.kill()
        holder.communicate()


def _first_flood(others, connect, port, greeting, place):
    """How long it takes until a client that comes behind them all is served, from their begin and from its own."""
    attacker = Attacker(port, greeting, place)
    others.calls(SETTLE)
    began = time.monotonic()
    attacker.come()
    attacker.has_come()
    waited = _newcomer(connect)
    lasted = time.monotonic() - began
    attacker.leave()
    others.calls(SETTLE)
    return lasted, waited


def _part(others, seconds, attacker=None):
    """How long the others' calls take, in so long from the moment the attacker comes."""
    since = len(others.seconds)
    if attacker is not None:
        attacker.come()
    others.stop.wait(seconds)
    assert others.is_alive()
    calls = others.seconds[since:]
    if attacker is not None:
        attacker.has_come()
    return calls


def _round(others, port, greeting, seconds):
    calls = {}

    def beside(name, where):
        attacker = Attacker(where, greeting)
        others.calls(SETTLE)
        calls[name] = _part(others, seconds["beside"], attacker)
        attacker.leave()

    def apart():
        attacker = Attacker(port, greeting, "apart")
        others.calls(SETTLE)
        calls["apart"] = _part(others, seconds["apart"], attacker)
        others.calls(SETTLE)
        calls["held"] = _part(others, seconds["apart"])
        attacker.leave()

    def without():
        calls["without"] = _part(others, seconds["beside"])

    with _control() as elsewhere:
        parts = [apart, lambda: beside("flood", port), lambda: beside("control", elsewhere), without]
        random.shuffle(parts)
        for part in parts:
            others.calls(SETTLE)
            part()
    return calls


def _told(parts):
    windows = {part: _windows_p99_ms(rounds) for part, rounds in parts.items()}
    quartiles = {part: np.quantile(p99, (0.25, 0.5, 0.75)) for part, p99 in windows.items()}
    medians = {part: at[1] for part, at in quartiles.items()}
    pooled = {part: _p99_ms(rounds) for part, rounds in parts.items()}
    ratios = (("apart", "without"), ("held", "without"), ("flood", "control"))
    return (", ".join(f"{part} {at[1]:.2f} ({at[0]:.2f} to {at[2]:.2f}), of all {pooled[part]:.2f}"
                      for part, at in quartiles.items())
            + "; ratios, of medians and of all: "
            + ", ".join(f"{a} / {b} {medians[a] / medians[b]:.2f} {pooled[a] / pooled[b]:.2f}" for a, b in ratios))


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
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        others = Others(stack.enter_context(connect()))
        others.start()
        stack.callback(others.stop.set)
        others.calls(SETTLE)
        lasted, again = {}, []
        for place in ("apart", "beside") * 2:
            lasted[place], waited = _first_flood(others, connect, server.port, greeting, place)
            again.append(waited)
        rounds = [_round(others, server.port, greeting, lasted) for _ in range(ROUNDS)]
        others.stop.set()
        others.join(SECONDS)
        assert max(again) < 5 and server.alive()
    parts = {part: [calls[part] for calls in rounds] for part in rounds[0]}
    tell(f"{kind}, {ROUNDS} rounds of {10 * DESCRIPTORS} connections against {DESCRIPTORS} descriptors: a newcomer is "
         f"served after {max(again):.2f} s at most; all have come after {max(lasted.values()):.2f} s; p99 of the others "
         f"in ms, median of each {WINDOW} calls' (quartiles): {_told(parts)}")
