# SPDX-License-Identifier: Apache-2.0
"""The admin port: metrics and the page that documents them, health for probes, the status page."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import itertools
import json
import re
import signal
import socket
import subprocess
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import service_pb2 as kserve_pb2

import repository_files
import wire
from operators import WEIGHTS
from server_process import Server, run_to_end
from session_calls import Sessions, Stream, operation
from test_service import SECONDS, _case, _load

DOCS = wire.REPOSITORY / "docs/operations.md"
PROMTOOL = "promtool"


def _get(server, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=SECONDS)
    connection.request(method, path)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def _metrics(server) -> dict[str, float]:
    """Samples by name with labels."""
    status, text = _get(server, "/metrics")
    assert status == 200
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in lines}


@pytest.fixture(scope="module")
def used(server):
    """The server once it has done a bit of everything."""
    _load(server, "measured")
    request = wire.request(_case())
    server.recurrent.Infer(request, timeout=SECONDS)
    request.ClearField("operator")
    del request.inputs[:]
    request.model.name = "measured"
    request.inputs.extend(wire.tensor(k, v) for k, v in _case().tensors.items() if k == "X")
    server.recurrent.Infer(request, timeout=SECONDS)
    return server


def _documented():
    """Name, kind and labels of each metric that is there without further flags."""
    rows = [line for line in DOCS.read_text().splitlines() if "only with" not in line]
    found = re.findall(r"^\| `((?:rnnserve|process)_\w+)` \| (\w+) \|([^|]*)\|", "\n".join(rows), re.MULTILINE)
    return [(name, kind, re.findall(r"`(\w+)`", labels)) for name, kind, labels in found]


def test_every_metric_is_documented_and_every_documented_one_is_there(used):
    _, text = _get(used, "/metrics")
    served = {(name, kind) for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)}
    assert served == {(name, kind) for name, kind, _ in _documented()}


def test_without_a_store_there_are_no_metrics_of_one(used):
    assert "rnnserve_store_" not in _get(used, "/metrics")[1]


def test_labels_are_as_documented(used):
    rows = re.findall(r"^\| `(\w+)` \| \w+ \|([^|]*)\|", DOCS.read_text(), re.MULTILINE)
    documented = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    served = {}
    for sample in _metrics(used):
        name, labels = re.fullmatch(r"(\w+)(?:\{(.*)\})?", sample).groups()
        family = name if name in documented else re.sub(r"_(bucket|sum|count)$", "", name)
        served[family] = set(re.findall(r'(\w+)="', labels or "")) - {"le"} | served.get(family, set())
    assert {name: documented[name] for name in served} == served


def _promtool_is_silent(text):
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False,
                          timeout=SECONDS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_code_is_documented(used):
    told = re.findall(r'^rnnserve_requests_total\{.*code="(\w+)"', _get(used, "/metrics")[1], re.MULTILINE)
    table = DOCS.read_text().split("## What an error means")[1].split("## ")[0]
    documented = {code for row in re.findall(r"^\| ([A-Z_, ]+) \|", table, re.MULTILINE) for code in row.split(", ")}
    assert set(told) - {"OK"} == documented


def test_promtool_has_nothing_to_say(used):
    _promtool_is_silent(_get(used, "/metrics")[1])


def test_calls_are_counted(server):
    before = _metrics(server)
    request = wire.request(_case(), engine="cpu")
    for _ in range(3):
        server.recurrent.Infer(request, timeout=SECONDS)
    request.inputs[0].shape[0] += 1
    assert wire.refusal(server.recurrent.Infer, request).code == grpc.StatusCode.INVALID_ARGUMENT
    after = _metrics(server)

    def grown(name):
        return after[name] - before.get(name, 0)

    assert grown('rnnserve_requests_total{method="Recurrent.Infer",code="OK"}') == 3
    assert grown('rnnserve_requests_total{method="Recurrent.Infer",code="INVALID_ARGUMENT"}') == 1
    assert grown('rnnserve_rejected_total{reason="invalid"}') == 1
    assert grown('rnnserve_request_duration_seconds_count{method="Recurrent.Infer"}') == 4
    assert grown('rnnserve_compute_duration_seconds_count{model="(inline)",engine="cpu"}') == 3
    assert grown('rnnserve_slices_total{model="(inline)",engine="cpu"}') >= 3
    assert grown('rnnserve_slice_sequences_sum{model="(inline)",engine="cpu"}') >= 3 * 2
    assert grown('rnnserve_sequence_steps_total{model="(inline)",kind="useful"}') == 3 * 4 * 2, "steps times rows"
    assert grown('rnnserve_sequence_steps_total{model="(inline)",kind="padding"}') == 0


def test_requests_are_counted_by_model(server):
    """With their codes and durations; a session's operations as well, on streams or not."""
    _load(server, "asked")
    sessions = Sessions(server.address)
    before = _metrics(server)

    def counted(model, code):
        name = f'rnnserve_model_requests_total{{model="{model}",code="{code}"}}'
        return _metrics(server)[name] - before.get(name, 0)

    def timed(model):
        name = f'rnnserve_model_request_duration_seconds_count{{model="{model}"}}'
        return _metrics(server).get(name, 0) - before.get(name, 0)

    case = _case()
    x = wire.tensor("X", case.tensors["X"])
    asked = wire.recurrent_pb2.InferRequest(model=wire.tensor_pb2.ModelRef(name="asked"), inputs=[x])
    server.recurrent.Infer(asked, timeout=SECONDS)
    assert (counted("asked", "OK"), timed("asked")) == (1, 1)
    asked.model.version = 7
    wire.refusal(server.recurrent.Infer, asked, timeout=SECONDS)
    asked.model.ClearField("version")
    asked.inputs[0].shape[0] += 1  # does not fit its bytes
    wire.refusal(server.recurrent.Infer, asked, timeout=SECONDS)
    del asked.inputs[:]
    wire.refusal(server.recurrent.Infer, asked, timeout=SECONDS)
    assert [counted("asked", code) for code in ["NOT_FOUND", "INVALID_ARGUMENT", "OK"]] == [1, 2, 1]
    asked.model.name = "none"
    wire.refusal(server.recurrent.Infer, asked, timeout=SECONDS)
    wire.refusal(server.recurrent.Infer, wire.recurrent_pb2.InferRequest(), timeout=SECONDS)
    wire.refusal(sessions.feed, "no such key", 1, [1])
    assert [counted("(unknown)", code) for code in ["NOT_FOUND", "INVALID_ARGUMENT"]] == [2, 1]
    server.recurrent.Infer(wire.request(case), timeout=SECONDS)
    assert counted("(inline)", "OK") == 1

    session = sessions.open(model=wire.tensor_pb2.ModelRef(name="asked"))
    row = {"chunk": wire.sessions_pb2.Chunk(inputs=[wire.tensor("X", case.tensors["X"][:, :1])])}
    sessions.apply(session, 1, **row)
    stream = Stream(sessions)
    stream.send(operation(session, 2, **row), operation(session, 9, **row))
    assert {reply.status.code for reply in stream.receive_many(2)} == {0, grpc.StatusCode.OUT_OF_RANGE.value[0]}
    stream.end()
    sessions.state(session)
    sessions.close()
    assert (counted("asked", "OK"), counted("asked", "OUT_OF_RANGE"), timed("asked")) == (4, 1, 8)


def test_callers_cannot_make_labels(server):
    """Whatever callers name, the series stay the same."""
    before = set(_metrics(server))
    for k in range(100):
        request = wire.request(_case(), engine=f"engine-{k}")
        request.request_id = f"id-{k}"
        wire.refusal(server.recurrent.Infer, request)
        request.ClearField("operator")
        request.model.name = f"model-{k}"
        wire.refusal(server.recurrent.Infer, request)
        unknown = server.channel.unary_unary(f"/rnnserve.v1.Recurrent/Method{k}")
        wire.refusal(unknown, b"", timeout=SECONDS)
    assert set(_metrics(server)) - before == set()


def test_every_call_is_counted():
    """Health, reflection and what does not exist, too."""
    fresh = Server()
    try:
        def calls():
            return {name.removeprefix("rnnserve_requests_total"): value for name, value in _metrics(fresh).items()
                    if name.startswith("rnnserve_requests_total") and value}

        health = health_pb2_grpc.HealthStub(fresh.channel)
        health.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        wire.refusal(health.Check, health_pb2.HealthCheckRequest(service="nobody"), timeout=SECONDS)
        watch = health.Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        next(watch)
        watch.cancel()
        told = fresh.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        list(told(iter([]), timeout=SECONDS))
        for path in ["/rnnserve.v1.Recurrent/Nope", "/a/b", "/x"]:
            refused = wire.refusal(fresh.channel.unary_unary(path), 1000 * b"x", timeout=SECONDS)
            assert refused.code == grpc.StatusCode.UNIMPLEMENTED and "no such method" in refused.text
        stream = fresh.channel.stream_stream("/a/c")(iter(3 * [b"x"]), timeout=SECONDS)
        assert wire.refusal(list, stream).code == grpc.StatusCode.UNIMPLEMENTED
        expected = {'{method="Health.Check",code="OK"}': 1, '{method="Health.Check",code="NOT_FOUND"}': 1,
                    '{method="Health.Watch",code="OK"}': 1, '{method="(unknown)",code="UNIMPLEMENTED"}': 4,
                    '{method="ServerReflection.ServerReflectionInfo",code="OK"}': 1}
        while calls() != expected:  # a watch is over when the server has heard so
            assert fresh.alive() and all(value <= expected.get(name, 0) for name, value in calls().items()), calls()
    finally:
        assert fresh.stop() == 0


def test_models_are_bounded():
    """The first ones that are called have series of their own; the sums hold."""
    loaded, called = 1003, 5
    fresh = Server("--metrics_models=2")
    try:
        request = wire.request(_case())
        request.ClearField("operator")
        x = next(tensor for tensor in request.inputs if tensor.name == "X")
        del request.inputs[:]
        request.inputs.append(x)
        for k in range(loaded):
            _load(fresh, f"m{k:04}")
        before = {}
        for _ in range(2):
            for k in reversed(range(called)):
                request.model.name = f"m{k:04}"
                fresh.recurrent.Infer(request, timeout=SECONDS)
                now = _metrics(fresh)
                steps = {name: value for name, value in now.items() if name.startswith("rnnserve_sequence_steps_total")}
                assert all(steps.get(name, 0) >= value for name, value in before.items()), "counters never go back"
                before = steps
        for model, calls in [("m0004", 2), ("m0003", 2), ("(other)", 6)]:
            assert now[f'rnnserve_sequence_steps_total{{model="{model}",kind="useful"}}'] == calls * 4 * 2
        listed = {name: value for name, value in now.items() if name.startswith("rnnserve_model_loaded")}
        assert len(listed) == 1001 and sum(listed.values()) == loaded
        assert listed['rnnserve_model_loaded{model="(other)",version="(other)"}'] == 3
        text = _get(fresh, "/metrics")[1]
        assert {"m0003", "m0004", "(other)"} == set(re.findall(r'_bucket\{model="([^"]*)"', text))
        _promtool_is_silent(text)
    finally:
        assert fresh.stop() == 0


ENGINES = ["cpu", "onednn", "reference"]
NO_MODELS = ["(inline)", "(other)"]
UNTIMED = ["Health.Check", "Health.Watch", "ServerReflection.ServerReflectionInfo", "(unknown)"]
EVENTS = ["opened", "closed", "expired", "moved", "taken_over", "refused", "resumed", "lost"]
CODES = [code.name for code in grpc.StatusCode]


def _labels(**values):
    """All combinations: of lists of values, the set of labels as a scrape has them."""
    return {",".join(f'{name}="{value}"' for name, value in zip(values, row)) for row in itertools.product(*values.values())}


def _known_labels(model):
    """Of each documented counter and gauge with labels, those that are there before any call."""
    sessions = [*NO_MODELS, "(unknown)"]
    services = [file.DESCRIPTOR.services_by_name
                for file in (wire.recurrent_pb2, wire.sessions_pb2, wire.models_pb2, kserve_pb2)]
    methods = [f"{service.name}.{method.name}" for names in services for service in names.values()
               for method in service.methods]
    methods += ["Recurrent.Stream.operation", "GRPCInferenceService.ModelStreamInfer.operation"]
    return {
        "rnnserve_requests_total": _labels(method=[*methods, *UNTIMED], code=CODES),
        "rnnserve_model_requests_total": _labels(model=[model], code=["OK"]) | _labels(model=sessions, code=CODES),
        "rnnserve_connections_total": _labels(result=["accepted", "refused", "dismissed"]),
        "rnnserve_rejected_total": _labels(reason=["queue_full", "deadline", "quota", "memory", "draining", "too_large",
                                                   "invalid"]),
        "rnnserve_slices_total": _labels(model=NO_MODELS, engine=ENGINES),
        "rnnserve_sequence_steps_total": _labels(model=NO_MODELS, kind=["useful", "padding"]),
        "rnnserve_sessions_active": _labels(model=sessions),
        "rnnserve_session_state_bytes": _labels(model=sessions),
        "rnnserve_sessions_total": _labels(model=sessions, event=EVENTS),
        "rnnserve_operations_repeated_total": _labels(model=sessions),
        "rnnserve_nonfinite_outputs_total": _labels(model=NO_MODELS),
        "rnnserve_verified_total": _labels(outcome=["agreed", "differed", "failed"]),
        "rnnserve_packed_weight_bytes": _labels(engine=ENGINES),
    }


def _version():
    return re.search(r"project\(.* VERSION (\S+)", (wire.REPOSITORY / "CMakeLists.txt").read_text()).group(1)


def _families(text):
    """Of each metric that has a type: its kind, and its samples by labels; of a histogram their counts."""
    families = {name: (kind, {}) for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)}
    for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE):
        family = name if name in families else name.removesuffix("_count")
        if family in families:
            families[family][1][labels] = float(value)
    return families


@pytest.mark.parametrize("loaded", ["from the folder", "by a caller"])
def test_known_labels_start_at_zero(loaded, tmp_path):
    """Every metric of the documented table, before the first call."""
    if loaded == "from the folder":
        repository_files.write(tmp_path / "vad" / "1", repository_files.model(repository_files.case("LSTM", 14)))
    fresh = Server(f"--models={tmp_path}")
    try:
        before = "rnnserve_model_loaded" in _families(_get(fresh, "/metrics")[1])
        assert before, "a metric without a series has a type all the same"
        if loaded == "by a caller":
            _load(fresh, "vad")
        text = _get(fresh, "/metrics")[1]
        served = _families(text)
        documented = {name: (kind, labels) for name, kind, labels in _documented()}
        assert {name: kind for name, (kind, _) in served.items()} == {name: kind for name, (kind, _) in documented.items()}
        known = _known_labels("vad")
        told_apart = {"rnnserve_model_loaded": {'model="vad",version="1"'},
                      "rnnserve_build_info": {f'version="{_version()}"'},
                      "rnnserve_engine_in_service": _labels(engine=ENGINES)}  # and are not 0
        histograms = {name for name, (kind, _) in documented.items() if kind == "histogram"}
        assert set(known) | set(told_apart) | histograms == {name for name, (_, labels) in documented.items() if labels}
        packed = served["rnnserve_packing_duration_seconds"][1]
        assert bool(packed) == (loaded == "by a caller"), "the warm-up has packed them"
        for name in histograms - {"rnnserve_request_duration_seconds", "rnnserve_packing_duration_seconds"}:
            assert not served[name][1], f"{name} begins with its first observation"
        for name, labels in known.items():
            samples = dict(served[name][1])
            if loaded == "by a caller":
                if name == "rnnserve_packed_weight_bytes":  # the warm-up has packed them
                    samples = dict.fromkeys(samples, 0)
                came = {'method="Models.Load",code="OK"', 'result="accepted"'}
                samples = {of: value for of, value in samples.items() if of not in came}
                labels = labels - came
            assert samples == dict.fromkeys(labels, 0), name
        for name, labels in told_apart.items():
            assert served[name][1] == dict.fromkeys(labels, 1), name
        _promtool_is_silent(text)
    finally:
        assert fresh.stop() == 0


def test_models_of_the_folder_keep_their_places(tmp_path):
    """Whoever may load models takes no series from those that the server started with."""
    for name in ["b", "c"]:
        repository_files.write(tmp_path / name / "1", repository_files.model(repository_files.case("LSTM", 14)))
    fresh = Server(f"--models={tmp_path}", "--metrics_models=3")
    try:
        def steps(model):
            return _metrics(fresh).get(f'rnnserve_sequence_steps_total{{model="{model}",kind="useful"}}')

        x = wire.tensor("X", repository_files.case("LSTM", 14).tensors["X"])
        request = wire.recurrent_pb2.InferRequest(inputs=[x])
        for stranger in ["a", "d", "e"]:
            request.model.name = stranger
            load = wire.models_pb2.LoadRequest(name=stranger)
            case = repository_files.case("LSTM", 14, seed=2)
            load.inline.operator.CopyFrom(wire.operator(case))
            load.inline.weights.extend(wire.tensor(k, v) for k, v in case.tensors.items() if k in WEIGHTS)
            fresh.models.Load(load)
            fresh.recurrent.Infer(request, timeout=SECONDS)
        each = steps("a")
        def asked(model):
            return _metrics(fresh).get(f'rnnserve_model_requests_total{{model="{model}",code="OK"}}')

        assert each > 0 and [steps(model) for model in "bcde"] == [None] * 4 and steps("(other)") == 2 * each
        assert [asked(model) for model in [*"abcde", "(other)"]] == [1, 0, 0, None, None, 2]
        request.model.name = "c"
        fresh.recurrent.Infer(request, timeout=SECONDS)
        assert [steps(model) for model in ["a", "b", "c", "(other)"]] == [each, None, each, 2 * each]
        assert [asked(model) for model in [*"abcde", "(other)"]] == [1, 0, 1, None, None, 2]
    finally:
        assert fresh.stop() == 0


def test_status(used):
    status, text = _get(used, "/status.json")
    assert status == 200
    state = json.loads(text)
    measured = next(model for model in state["models"] if model["model"] == "measured")
    assert state["ready"] is True and measured["versions"] == ["1"] and measured["requests"] >= 1
    infer = next(m for m in state["methods"] if m["method"] == "Recurrent.Infer")
    assert infer["requests"] >= 2 and 0 < infer["p50_ms"] <= infer["p99_ms"]
    status, page = _get(used, "/")
    assert status == 200 and "status.json" in page


def test_the_log_as_json(tmp_path):
    (tmp_path / "no\tsuch \"name\"").mkdir()
    fresh = Server("--log_format=json", f"--models={tmp_path}")
    events = [json.loads(line) for line in fresh.log().splitlines()]
    assert all({"time", "level", "message"} <= set(event) for event in events)
    assert any("listening on" in event["message"] and event["level"] == "info" for event in events)
    warned = [event["message"] for event in events if event["level"] == "warning"]
    assert len(warned) == 1 and "left out" in warned[0]
    errors = json.loads(_get(fresh, "/status.json")[1])["errors"]
    assert [error["text"] for error in errors] == warned
    assert fresh.stop() == 0


def _raw(server, request: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers of what is answered to just these bytes."""
    with socket.create_connection(("127.0.0.1", server.admin_port), timeout=SECONDS) as connection:
        connection.sendall(request)
        head = connection.makefile("rb").read().split(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    return int(head[0].split()[1]), dict(line.split(": ", 1) for line in head[1:])


@pytest.mark.parametrize("path", ["/nothing", "/metrics%00", "/metrics%00.html", "/%00", "//metrics", "/metrics/", "/metrics/..",
                                  "/metrics/%2e%2e", "/x/../metrics", "/./metrics", "/metrics%20", "/metrics%", "/metrics%0",
                                  "/metrics%zz", "/metrics;x=1", "/METRICS", "/%2525", "/..%2f..%2fetc/passwd", "/\xff",
                                  "/../../etc/passwd", "/" + 8000 * "a"])
def test_pages_that_are_not(server, path):
    status, _ = _raw(server, b"GET " + path.encode("latin-1") + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status in ((400, 404) if path == "/\xff" else (404,)), "civetweb takes no such bytes"


@pytest.mark.parametrize("path", ["/metrics", "/metrics?name[]=x", "/%6detrics", "/healthz"])
def test_pages_that_are(server, path):
    assert _raw(server, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())[0] == 200


@pytest.mark.parametrize("asked", ["gzip", "deflate, GZIP;q=0.5", "*", "br, *;q=0.1"])
def test_pages_are_compressed_for_those_that_ask(server, asked):
    for path in ["/metrics", "/", "/status.json"]:
        for method in ["GET", "HEAD"]:
            connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=SECONDS)
            connection.request(method, path, headers={"Accept-Encoding": asked})
            response = connection.getresponse()
            body = response.read()
            connection.close()
            assert response.headers["Content-Encoding"] == "gzip" and response.headers["Vary"] == "Accept-Encoding"
            assert body == b"" if method == "HEAD" else len(body) == int(response.headers["Content-Length"])
        plain = _get(server, path)[1]
        assert len(body) == 0 and int(response.headers["Content-Length"]) < len(plain) / 2
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=SECONDS)
    connection.request("GET", "/metrics", headers={"Accept-Encoding": asked})
    text = gzip.decompress(connection.getresponse().read()).decode()
    assert [line.rsplit(" ")[0] for line in text.splitlines()] == [
        line.rsplit(" ")[0] for line in _get(server, "/metrics")[1].splitlines()]


@pytest.mark.parametrize("asked", [None, "", "identity", "gzip;q=0", "deflate", "*;q=0", "gzip; q=0.000"])
def test_pages_are_plain_for_others(server, asked):
    headers = f"Accept-Encoding: {asked}\r\n" if asked is not None else ""
    status, told = _raw(server, f"GET /metrics HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
    assert status == 200 and "Content-Encoding" not in told and told["Vary"] == "Accept-Encoding"


def test_small_pages_are_plain(server):
    assert "Content-Encoding" not in _raw(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "name.of.a.balancer"])
def test_targets_with_their_host(server, host):
    """As RFC 9112, section 3.2.2, wants them taken."""
    for path in ["/metrics", "/%6detrics?x", "/"]:
        assert _raw(server, f"GET http://{host}:{server.admin_port}{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())[0] == 200
    assert _raw(server, f"GET http://{host}:{server.admin_port}/x HTTP/1.1\r\nHost: x\r\n\r\n".encode())[0] == 404


def test_requests_that_are_none(server):
    for request in [b"GET /met\0rics HTTP/1.1\r\n\r\n", b"GET /" + 20000 * b"a" + b" HTTP/1.1\r\n\r\n", b"nothing\r\n\r\n"]:
        assert 400 <= _raw(server, request)[0] < 500
    assert _get(server, "/healthz") == (200, "ok\n")


def test_methods(server):
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"]:
        status, headers = _raw(server, f"{method} /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        assert (status, headers.get("Allow")) == (405, "GET, HEAD"), method
        assert _raw(server, f"{method} /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())[0] == 404
    assert _get(server, "/healthz", "HEAD") == (200, "")


def test_probes():
    fresh = Server()
    assert _get(fresh, "/healthz") == (200, "ok\n")
    assert _get(fresh, "/readyz") == (200, "ready\n")
    long = fresh.recurrent.Infer.future(wire.request(_case(steps=1500, rows=16, hidden=64), engine="reference"))
    fresh.recurrent.Infer(wire.request(_case()))
    fresh.process.send_signal(signal.SIGTERM)
    codes = []
    while fresh.alive():
        try:
            codes.append((_get(fresh, "/readyz")[0], _get(fresh, "/healthz")[0]))
        except OSError:
            break
    assert (503, 200) in codes, "draining: alive, not ready"
    long.cancel()
    assert fresh.stop() == 0


def test_silent_callers_do_not_stop_it(server):
    """Half a request on more connections than the port has threads: their time runs out while they stay."""
    held = [socket.create_connection(("127.0.0.1", server.admin_port)) for _ in range(40)]
    for connection in held:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost")
    assert _get(server, "/healthz") == (200, "ok\n")
    for connection in held:
        connection.close()


def test_a_port_in_use_is_told_if_it_was_asked_for():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_to_end("--listen=127.0.0.1:0", f"--admin_listen=127.0.0.1:{port}")
    assert done.returncode == 1 and f"127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize("named", ["by a flag", "in a file"])
def test_the_default_port_is_an_error_too_if_it_was_asked_for(named, tmp_path):
    (tmp_path / "config").write_text('admin_listen: "127.0.0.1:9464"\n')
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections to a server before may linger
        until = time.monotonic() + 20
        while time.monotonic() < until:  # a server of another test goes; some other process may have it for good
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.1", 9464))
                taken.listen()
                break
            time.sleep(0.1)
        flag = "--admin_listen=127.0.0.1:9464" if named == "by a flag" else f"--config={tmp_path}/config"
        done = run_to_end("--listen=127.0.0.1:0", flag)
    assert done.returncode == 1 and "127.0.0.1:9464" in done.stderr


def test_no_admin_port():
    fresh = Server(admin_listen="")
    try:
        assert fresh.admin_port == 0
    finally:
        assert fresh.stop() == 0


def test_refused_model_files_are_counted(tmp_path):
    for number in (1, 2):
        (tmp_path / "broken" / str(number)).mkdir(parents=True)
        (tmp_path / "broken" / str(number) / "model.onnx").write_bytes(b"cut")
    fresh = Server(f"--models={tmp_path}")
    try:
        assert _metrics(fresh)["rnnserve_model_files_refused"] == 2
    finally:
        assert fresh.stop() == 0
