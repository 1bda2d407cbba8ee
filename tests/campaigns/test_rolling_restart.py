# SPDX-License-Identifier: Apache-2.0
"""Servers restarted one after the other while users of our client, which repeat nothing themselves, feed sessions and send
unary calls: no user sees an error, no state is wrong, every server leaves with 0."""

from __future__ import annotations

import os
import threading
import time

import grpc
import numpy as np
import pytest
import rnnserve

from server_process import Server
from session_calls import remembering_weights
import wire

RESTARTS = int(os.environ.get("RNNSERVE_RESTARTS", "20"))
SESSIONS = 24
H = 64  # of the remembering cell
FLAGS = ("--drain_delay=300ms", "--drain_timeout=30s")


def remembering():
    w, r = (wire.array(tensor) for tensor in remembering_weights())
    return rnnserve.rnn(w, r, activations=["Affine"], activation_alpha=[1.0], activation_beta=[0.0])


class Feeder(threading.Thread):
    """A user of one session: feeds 1, 2, 3, ... and looks at the last H of them in every answer."""

    def __init__(self, client, cell, stop):
        super().__init__(daemon=True)
        self.client, self.cell, self.stop = client, cell, stop
        self.fed = 0
        self.slowest = 0.0
        self.trouble = None

    def run(self):
        try:
            with self.client.session(self.cell, outputs=["Y_h"]) as session:
                while not self.stop.is_set():
                    began = time.monotonic()
                    seen = session.feed(np.array([[[self.fed + 1]]], np.float32))["Y_h"][0, 0]
                    self.slowest = max(self.slowest, time.monotonic() - began)
                    self.fed += 1
                    want = [max(self.fed - k, 0) for k in range(H)]
                    assert list(seen) == want, f"after {self.fed}: {seen[:4]}, expected {want[:4]}"
        except BaseException as error:  # told by the test, whatever it is
            self.trouble = error


class Caller(threading.Thread):
    """A user of unary calls, which leaves it to the library where they go and whether they are sent again."""

    def __init__(self, client, cell, stop):
        super().__init__(daemon=True)
        self.client, self.cell, self.stop = client, cell, stop
        self.calls = 0
        self.slowest = 0.0
        self.trouble = None

    def run(self):
        x = np.array([[[1]], [[2]]], np.float32)
        try:
            while not self.stop.is_set():
                began = time.monotonic()
                y = self.client.infer(self.cell, {"X": x}, outputs=["Y_h"]).outputs["Y_h"]
                self.slowest = max(self.slowest, time.monotonic() - began)
                assert list(y[0, 0, :3]) == [2, 1, 0]
                self.calls += 1
        except BaseException as error:
            self.trouble = error


def test_rolling_restart(tell):
    servers = [Server(*FLAGS) for _ in range(3)]
    addresses = [server.address for server in servers]
    cell, stop = remembering(), threading.Event()
    clients = [rnnserve.Client(addresses[k % 3], others=addresses[k % 3 + 1:] + addresses[: k % 3]) for k in range(6)]
    users = [Feeder(clients[k % len(clients)], cell, stop) for k in range(SESSIONS)]
    callers = [Caller(clients[k], cell, stop) for k in range(2)]
    for user in users + callers:
        user.start()
    codes, stops, starts = [], [], []
    try:
        for k in range(RESTARTS):
            before = [user.fed for user in users]
            old = servers[k % 3]
            began = time.monotonic()
            codes.append(old.stop())
            stops.append(time.monotonic() - began)
            began = time.monotonic()
            servers[k % 3] = Server(*FLAGS, listen=old.address)
            starts.append(time.monotonic() - began)
            while any(user.fed < before[n] + 3 and user.trouble is None for n, user in enumerate(users)):
                stop.wait(0.01)
            assert not [user.trouble for user in users + callers if user.trouble], "see below"
    finally:
        stop.set()
        for user in users + callers:
            user.join(60)
        trouble = [repr(user.trouble) for user in users + callers if user.trouble]
        for client in clients:
            client.close()
        last = [server.stop() for server in servers]
    tell(f"{RESTARTS} restarts, {SESSIONS} sessions: {sum(user.fed for user in users)} chunks and "
         f"{sum(caller.calls for caller in callers)} unary calls, {len(trouble)} errors seen; exit codes {set(codes)}; "
         f"leaving takes {np.median(stops):.2f} s (longest {max(stops):.2f}), cold start {np.median(starts):.3f} s "
         f"(longest {max(starts):.3f}); slowest chunk {max(user.slowest for user in users):.2f} s, "
         f"slowest unary call {max(caller.slowest for caller in callers):.2f} s")
    assert not trouble, trouble
    assert set(codes) == {0} and set(last) == {0}
    assert min(user.fed for user in users) >= 3 * RESTARTS


@pytest.mark.parametrize("every", [0, 8])
def test_killed_servers(tell, every):
    """kill -9: with checkpoints no user notices; without, DATA_LOSS, and never a state of zeros."""
    servers = [Server("--drain_timeout=1s") for _ in range(3)]
    with rnnserve.Client(servers[0].address, others=[server.address for server in servers[1:]], patience=5,
                         load_balancing="pick_first") as client:
        session = client.session(remembering(), outputs=["Y_h"], checkpoint_every=every)
        told = None
        for value in range(1, 61):
            if value in (20, 40):
                next(server for server in servers if session.link.address == server.address).process.kill()
            try:
                seen = session.feed(np.array([[[value]]], np.float32))["Y_h"][0, 0]
            except rnnserve.RnnServeError as error:
                told = error
                break
            assert list(seen) == [max(value - k, 0) for k in range(H)]
    for server in servers:
        server.stop()
    if every:
        assert told is None
    else:
        assert told is not None and told.code == grpc.StatusCode.DATA_LOSS
    tell(f"kill -9 with checkpoint_every={every}: {'nobody notices' if told is None else told.code.name}")
