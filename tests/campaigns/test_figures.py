# SPDX-License-Identifier: Apache-2.0
"""Figures of docs/operations.md: how long a scrape takes under load and with many models, memory at rest, cold start."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time

import numpy as np

import repository_files
import wire
from server_process import Server
from test_admin import _get
from test_service import SECONDS, _case, _load

MODELS = 1000


def _scrapes(server, count=50):
    """Milliseconds of each, and the bytes of the last."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        status, text = _get(server, "/metrics")
        took.append(1e3 * (time.perf_counter() - began))
        assert status == 200
    return took, len(text)


@contextlib.contextmanager
def _load_on(server, callers=8):
    stop = threading.Event()
    request = wire.request(_case(steps=32, rows=4, hidden=64))
    done = [0] * callers

    def call(k):
        while not stop.is_set():
            server.recurrent.Infer(request, timeout=SECONDS)
            done[k] += 1

    with concurrent.futures.ThreadPoolExecutor(callers) as pool:
        futures = [pool.submit(call, k) for k in range(callers)]
        try:
            yield done
        finally:
            stop.set()
    for future in futures:
        future.result()


def test_scrapes(tell):
    server = Server("--drain_timeout=100ms")
    try:
        for _ in range(100):
            _get(server, "/metrics")
        tell(f"resident at rest: {server.resident_kib() >> 10} MiB")
        idle, size = _scrapes(server)
        with _load_on(server) as done:
            busy, _ = _scrapes(server)
        tell(f"scrape of {size >> 10} KiB: {np.median(idle):.1f} ms at rest; {np.median(busy):.1f} ms (longest "
             f"{max(busy):.1f}) while {sum(done)} calls are served")
        request = wire.request(_case())
        request.ClearField("operator")
        kept = [tensor for tensor in request.inputs if tensor.name == "X"]
        for k in range(MODELS):
            _load(server, f"model-{k}")
            del request.inputs[:]
            request.inputs.extend(kept)
            request.model.name = f"model-{k}"
            server.recurrent.Infer(request, timeout=SECONDS)
        with _load_on(server) as done:
            busy, size = _scrapes(server)
        tell(f"with {MODELS} models that have all been called, {size >> 10} KiB: {np.median(busy):.1f} ms (longest "
             f"{max(busy):.1f}) while {sum(done)} calls are served; resident {server.resident_kib() >> 10} MiB")
    finally:
        assert server.stop() == 0


def test_cold_start(tell, tmp_path):
    """From exec to /readyz, with a model."""
    repository_files.write(tmp_path / "m" / "1", repository_files.model(repository_files.case("LSTM", 14)))
    took = []
    for _ in range(20):
        began = time.perf_counter()
        server = Server(f"--models={tmp_path}")
        assert _get(server, "/readyz")[0] == 200
        took.append(1e3 * (time.perf_counter() - began))
        assert server.stop() == 0
    tell(f"cold start: ready after {np.median(took):.0f} ms (longest {max(took):.0f}; the test looks every 20 ms)")
