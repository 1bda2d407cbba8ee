# SPDX-License-Identifier: Apache-2.0
"""How long a scrape takes, and whether it holds up calls that are served: with nothing called, and with 1,000 models
that have all been called by two engines and have sessions."""

from __future__ import annotations

import contextlib
import csv
import re
import subprocess
import threading
import time

import numpy as np

import wire
from server_process import BINARY, Server
from session_calls import Sessions
from test_admin import _get
from test_service import SECONDS, _case, _load

MODELS = 1000
RNNCTL = BINARY.parents[1] / "client/rnnctl/rnnctl"
CALLERS = 8


def _times(server, path, count=50):
    """Milliseconds of each answer, in order of size, and the bytes of the last."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        status, text = _get(server, path)
        took.append(1e3 * (time.perf_counter() - began))
        assert status == 200
    return sorted(took), len(text)


@contextlib.contextmanager
def _load_on(server, seconds):
    """Callers in a process of their own, which end by themselves. Their table comes in the list."""
    command = [RNNCTL, "bench", "--server", server.address, "--hidden", "64", "--steps", "32", "--rows", "4",
               "--concurrency", str(CALLERS), "--duration", f"{seconds}s", "--csv"]
    said = []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield said
        said.append(process.communicate(timeout=SECONDS)[0])
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said


def _use(server, calls, model, engines):
    request = wire.request(_case())
    request.ClearField("operator")
    kept = [tensor for tensor in request.inputs if tensor.name == "X"]
    del request.inputs[:]
    request.inputs.extend(kept)
    request.model.name = model
    for engine in engines:
        request.engine = engine
        assert server.recurrent.Infer(request, timeout=SECONDS).outputs
    calls.open(model=wire.tensor_pb2.ModelRef(name=model))


def _tell(tell, what, took, size):
    tell(f"{what}: {size >> 10} KiB, {np.median(took):.1f} ms (of 50 the second longest {took[-2]:.1f}, the longest "
         f"{took[-1]:.1f})")


def test_scrapes(tell):
    with contextlib.ExitStack() as stack:
        server = Server("--drain_timeout=100ms")
        stack.callback(server.stop)
        for _ in range(100):
            _get(server, "/metrics")
        tell(f"resident at rest: {server.resident_kib() >> 10} MiB")
        _tell(tell, "a scrape at rest", *_times(server, "/metrics"))
        with _load_on(server, 5):
            _tell(tell, f"beside {CALLERS} callers", *_times(server, "/metrics"))
        calls = Sessions(server.address)
        stack.callback(calls.close)
        for k in range(MODELS):
            _load(server, f"model-{k}")
            _use(server, calls, f"model-{k}", ("cpu", "onednn"))
        text = _get(server, "/metrics")[1]
        tell(f"{MODELS} models loaded and called, {len(set(re.findall(chr(34) + 'model-[0-9]+', text)))} listed, "
             f"{len(set(re.findall('slices_total.model=.(model-[0-9]+)', text)))} with series of their own, "
             f"{len(text.splitlines())} lines; resident {server.resident_kib() >> 10} MiB")
        _tell(tell, "with them, at rest", *_times(server, "/metrics"))
        with _load_on(server, 8):
            _tell(tell, f"with them, beside {CALLERS} callers", *_times(server, "/metrics"))
            _tell(tell, "  /healthz meanwhile", *_times(server, "/healthz"))
            _tell(tell, "  /status.json meanwhile", *_times(server, "/status.json"))


def test_scrapes_hold_nobody_up(tell):
    """Callers without scrapes, with one a second, and with one after the other."""
    with contextlib.ExitStack() as stack:
        server = Server("--drain_timeout=100ms")
        stack.callback(server.stop)
        calls = Sessions(server.address)
        stack.callback(calls.close)
        for k in range(100):
            _load(server, f"model-{k}")
            _use(server, calls, f"model-{k}", ("cpu", "onednn"))
        for pause in (None, 1.0, 0.0):
            stop = threading.Event()

            def scrape():
                while pause is not None and not stop.wait(pause):
                    _get(server, "/metrics")

            scraper = threading.Thread(target=scrape)
            with _load_on(server, 5) as said:
                scraper.start()
            stop.set()
            scraper.join()
            how = {None: "no scrapes", 1.0: "a scrape a second", 0.0: "one scrape after the other"}[pause]
            row = next(csv.DictReader(said[0].splitlines()))
            tell(f"{CALLERS} callers, {how}: {float(row['calls_per_second']):.0f} calls/s, p50 "
                 f"{float(row['latency_p50_ms']):.2f} ms, p99 {float(row['latency_p99_ms']):.2f} ms")
