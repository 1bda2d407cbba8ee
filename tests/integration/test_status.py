# SPDX-License-Identifier: Apache-2.0
"""/status.json against the scrape: every figure of the status page, worked out anew from what /metrics says."""

from __future__ import annotations

import json
import math
import re

import grpc
import pytest

import wire
from server_process import Server
from session_calls import Sessions, Stream, chunk, operation
from test_admin import _get
from test_service import SECONDS, _case, _load

# They move without calls.
RESTLESS = {"process_resident_memory_bytes", "process_virtual_memory_bytes", "process_open_fds"}
EMPTY = ()


class Scrape:
    """Series of each name: {labels: value}, labels as a tuple of pairs."""

    def __init__(self, text):
        self.kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
        self.series = {}
        for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE):
            pairs = tuple(re.findall(r'(\w+)="([^"]*)"', labels))
            self.series.setdefault(name, {})[pairs] = float(value)

    def by(self, name, label):
        """Sums over what has the same value of one label."""
        sums = {}
        for pairs, value in self.series.get(name, {}).items():
            key = dict(pairs)[label]
            sums[key] = sums.get(key, 0) + value
        return sums

    def quantile_ms(self, name, labels, quantile):
        """As Prometheus' histogram_quantile: evenly within a bucket, at most the last bound."""
        buckets = sorted((float(dict(pairs)["le"]), value) for pairs, value in self.series.get(name + "_bucket", {}).items()
                         if pairs[:-1] == labels)
        if not buckets:
            return 0
        rank, lower, below = quantile * buckets[-1][1], 0.0, 0.0
        if not rank:
            return 0
        for bound, upto in buckets:
            if upto >= rank and upto > below:
                return 1e3 * (lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / (upto - below))
            lower, below = bound, upto

    def quantiles(self, name, labels):
        return {"p50_ms": self.quantile_ms(name, labels, 0.5), "p99_ms": self.quantile_ms(name, labels, 0.99)}

    def mean(self, name, labels):
        count = self.series[name + "_count"][labels]
        return self.series[name + "_sum"][labels] / count if count else 0


def outcomes(scrape, name, label, value):
    """How calls of one kind ended."""
    codes = {dict(pairs)["code"]: calls for pairs, calls in scrape.series[name].items() if dict(pairs)[label] == value}
    ended = {"requests": sum(codes.values()), "cancelled": codes.pop("CANCELLED", 0),
             "failed": sum(codes.pop(code, 0) for code in ("INTERNAL", "UNKNOWN", "DATA_LOSS"))}
    codes.pop("OK")
    return {**ended, "refused": sum(codes.values())}


def expected(scrape):
    """What the status page should say."""
    methods = [{"method": method, **outcomes(scrape, "rnnserve_requests_total", "method", method),
                **scrape.quantiles("rnnserve_request_duration_seconds", (("method", method),))}
               for method in scrape.by("rnnserve_requests_total", "method")]
    models = {}
    for pairs in scrape.series["rnnserve_model_loaded"]:
        labels = dict(pairs)
        models.setdefault(labels["model"], {"model": labels["model"]}).setdefault("versions", []).append(labels["version"])
    for model in scrape.by("rnnserve_model_requests_total", "model"):
        label = (("model", model),)
        models.setdefault(model, {"model": model}).update(
            **outcomes(scrape, "rnnserve_model_requests_total", "model", model),
            **scrape.quantiles("rnnserve_model_request_duration_seconds", label),
            queue_p99_ms=scrape.quantile_ms("rnnserve_queue_duration_seconds", label, 0.99),
            sessions=scrape.series["rnnserve_sessions_active"].get(label, 0),
            session_state_bytes=scrape.series["rnnserve_session_state_bytes"].get(label, 0))
    work = []
    for pairs, slices in scrape.series["rnnserve_slices_total"].items():
        if not slices:
            continue
        labels = dict(pairs)
        compute = scrape.quantiles("rnnserve_compute_duration_seconds", pairs)
        work.append({"model": labels["model"], "engine": labels["engine"], "slices": slices,
                     "mean_sequences": scrape.mean("rnnserve_slice_sequences", pairs),
                     "mean_steps": scrape.mean("rnnserve_slice_steps", pairs),
                     "compute_p50_ms": compute["p50_ms"], "compute_p99_ms": compute["p99_ms"]})
    return {
        "ready": True, "version": dict(*scrape.series["rnnserve_build_info"])["version"], "methods": methods, "work": work,
        "models": list(models.values()),
        "engines": [{"engine": engine, "in_service": works == 1, "packed_weight_bytes": scrape.by(
            "rnnserve_packed_weight_bytes", "engine")[engine]} for engine, works in scrape.by("rnnserve_engine_in_service", "engine").items()],
        "now": {name: scrape.series[name][EMPTY] for name, kind in scrape.kinds.items()
                if kind == "gauge" and EMPTY in scrape.series[name] and name not in RESTLESS},
        "rejected": scrape.by("rnnserve_rejected_total", "reason"),
        "refused_files": {"count": 0, "first": []}}


def same(shown, told):
    """Figures to a millionth; of lists, in any order of what they name."""
    if isinstance(told, dict):
        return set(shown) == set(told) and all(same(shown[key], told[key]) for key in told)
    if isinstance(told, list):
        def order(entry):
            return [value for _, value in sorted(entry.items()) if isinstance(value, str)] if isinstance(entry, dict) else entry
        return len(shown) == len(told) and all(map(same, sorted(shown, key=order), sorted(told, key=order)))
    return shown == pytest.approx(told, rel=1e-6) if isinstance(told, float) else shown == told


@pytest.fixture
def busy():
    """A server that has answered, refused and kept some of everything."""
    server = Server("--max_sessions=2", "--drain_timeout=1s")
    sessions = Sessions(server.address)
    _load(server, "named")
    for steps, rows in [(3, 1), (7, 4), (20, 2), (20, 8)]:
        request = wire.request(_case(steps=steps, rows=rows), engine="cpu")
        server.recurrent.Infer(request, timeout=SECONDS)
        request.ClearField("operator")
        request.model.name = "named"
        x, = [tensor for tensor in request.inputs if tensor.name == "X"]
        del request.inputs[:]
        request.inputs.append(x)
        server.recurrent.Infer(request, timeout=SECONDS)
    server.recurrent.Infer(wire.request(_case(), engine="reference"), timeout=SECONDS)
    for refused in [lambda: server.recurrent.Infer(wire.request(_case(steps=70000, rows=1, inputs=1, hidden=256))), lambda: sessions.feed("x", 1, [1]),
                    lambda: sessions.feed("y", 1, [1])]:
        wire.refusal(refused)
    keys = [sessions.open() for _ in range(2)]
    assert wire.refusal(sessions.open).code == grpc.StatusCode.RESOURCE_EXHAUSTED
    sessions.feed(keys[0], 1, [1, 2, 3])
    stream = Stream(sessions)
    stream.send(*(operation(keys[1], number, **chunk([number])) for number in range(1, 6)))
    stream.receive_many(5)
    stream.end()
    yield server
    sessions.close()
    assert server.stop() == 0


def test_the_status_page_says_what_the_scrape_says(busy):
    while True:  # answers leave before their calls are over, and a stream is counted then
        scrape = Scrape(_get(busy, "/metrics")[1])
        over = scrape.by("rnnserve_requests_total", "method")["Recurrent.Stream"] == 1
        if over and scrape.series["rnnserve_requests_in_flight"][EMPTY] == 0:
            break
        assert busy.alive()
    shown = json.loads(_get(busy, "/status.json")[1])
    assert shown.pop("uptime_seconds") > 0
    assert {problem["text"].split(":")[0] for problem in shown.pop("errors")} == {"Recurrent.Infer refused",
                                                                                 "Sessions.Apply refused"}
    assert {name for name in RESTLESS if shown["now"].pop(name) > 0} == RESTLESS
    history = shown.pop("history")
    assert history.pop("step_seconds") == 5 and len({len(series) for series in history.values()}) == 1
    told = expected(scrape)
    for part in told:
        assert same(shown[part], told[part]), f"{part}: {shown[part]}, expected {told[part]}"
    assert set(shown) == set(told)

    methods = {entry["method"]: (entry["requests"], entry["refused"]) for entry in shown["methods"]}
    assert methods["Recurrent.Infer"] == (10, 1) and methods["Sessions.Open"] == (3, 1)
    assert methods["Sessions.Apply"] == (3, 2) and methods["Recurrent.Stream.operation"] == (5, 0)
    assert methods["Recurrent.Stream"] == (1, 0)
    assert {name: count for name, count in shown["rejected"].items() if count} == {"too_large": 1, "invalid": 2, "quota": 1}
    assert {(entry["model"], entry["engine"]) for entry in shown["work"]} >= {
        ("(inline)", "cpu"), ("(inline)", "reference"), ("named", "cpu")}
    models = {entry["model"]: entry for entry in shown["models"]}
    assert models["named"]["versions"] == ["1"] and models["named"]["requests"] == 4 and models["(inline)"]["sessions"] == 2
    assert shown["now"]["rnnserve_session_bytes"] > 0
