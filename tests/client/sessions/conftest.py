# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from server_process import BINARY, Server

import rnnserve

H = 128


def pytest_sessionstart(session):
    if not BINARY.exists():
        pytest.exit(f"no server at {BINARY}: build it (cmake --build --preset release), or set RNNSERVE_BINARY", 2)


def remembering(hidden=H):
    """A cell that remembers everything: its state is the log of the last inputs, the newest first."""
    w = np.zeros((1, hidden, 1), np.float32)
    w[0, 0, 0] = 1
    r = np.zeros((1, hidden, hidden), np.float32)
    r[0, np.arange(1, hidden), np.arange(hidden - 1)] = 1
    return rnnserve.rnn(w, r, activations=["Affine"], activation_alpha=[1.0], activation_beta=[0.0])


def steps(*values):
    """X of one row."""
    return np.array(values, np.float32).reshape(-1, 1, 1)


def log_of(session, row=0):
    """What the session has seen, the oldest first."""
    return tape(session.state()["initial_h"], row)


def tape(h, row=0):
    slots = list(h[0, row])
    while slots and slots[-1] == 0:
        slots.pop()
    return [float(value) for value in reversed(slots)]


@pytest.fixture(scope="module")
def server():
    running = Server("--drain_timeout=1s")  # some tests leave a session behind
    yield running
    assert running.process.poll() is None, f"the server died:\n{running.log()}"
    assert running.stop() == 0


@pytest.fixture
def client(server):
    with rnnserve.Client(server.address, timeout=60) as connected:
        yield connected
