# SPDX-License-Identifier: Apache-2.0
"""The repository folder: every sound file is served like onnxruntime reads it, every broken one is reported, and the
server starts whatever lies there."""

from __future__ import annotations

import json
import os
import signal

import grpc
import onnxruntime
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import formulas
import repository_files
import wire
from operators import OUTPUTS, WEIGHTS
from server_process import Server, run_to_end
from session_calls import Sessions
from test_admin import _get
from test_onnxruntime import excess
from test_service import SECONDS


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    root = folder / "models"
    root.mkdir()
    sound = repository_files.write_sound(root)
    broken = repository_files.write_broken(root, folder / "outside")
    (root / "README").write_text("a file where folders are expected")
    (root / ".git" / "1").mkdir(parents=True)
    running = Server(f"--models={root}")
    yield running, root, sound, broken
    assert running.alive(), running.log()
    assert running.stop() == 0


def _list(server):
    return server.models.List(wire.models_pb2.ListModelsRequest())


def _infer(server, case, name, version=None, **fields):
    request = wire.request(case, **fields)
    request.model.name = name
    if version:
        request.model.version = version
    kept = [t for t in request.inputs if t.name not in WEIGHTS]
    del request.inputs[:]
    request.inputs.extend(kept)
    return server.recurrent.Infer(request)


def test_sound_files_are_listed(repository):
    server, _, sound, _ = repository
    models = _list(server).models
    assert [(m.name, m.version) for m in models] == sorted(sound)
    for m in models:
        assert m.source == f"{m.name}/{m.version}/model.onnx"
        assert m.operator.op_type == sound[m.name, m.version].op


def test_sound_files_give_onnxruntimes_numbers(repository):
    """From the same file, external data and an exporter's own names included."""
    server, root, sound, _ = repository
    for (name, version), case in sound.items():
        reply = wire.results(_infer(server, case, name, version))
        assert not excess(reply, formulas.run(case))[1], name
        if name == "no-hidden-size":
            continue  # onnxruntime asks for the attribute
        session = onnxruntime.InferenceSession(root / name / str(version) / "model.onnx",
                                               providers=["CPUExecutionProvider"])
        data = [v for k, v in case.tensors.items() if k not in WEIGHTS]
        order = [k for k in case.tensors if k not in WEIGHTS]
        feed = dict(zip([i.name for i in session.get_inputs()], data))
        assert len(feed) == len(order)
        expected = dict(zip(OUTPUTS[case.op], session.run(None, feed)))
        assert not excess(reply, expected)[1], name


def test_the_highest_version_is_taken(repository):
    server, _, sound, _ = repository
    case = sound["versions", 20]
    assert not excess(wire.results(_infer(server, case, "versions")), formulas.run(case))[1]


def test_the_fingerprint_of_a_file_is_that_of_the_same_operator_inline(repository):
    server, _, sound, _ = repository
    for name in ("lstm-14", "renamed", "external"):
        inline = server.recurrent.Infer(wire.request(sound[name, 1])).fingerprint
        assert _infer(server, sound[name, 1], name).fingerprint == inline


def test_broken_files_are_reported_with_path_and_reason(repository):
    server, _, _, broken = repository
    failures = {f.path: f.reason for f in _list(server).failures}
    missing = [n for n in broken if not any(p.startswith(f"{n}/") for p in failures)]
    assert not missing, f"no failure listed for {missing}; listed: {sorted(failures)}"
    for path, reason in failures.items():
        name = path.split("/")[0]
        assert not path.startswith("/"), "paths are told below the repository folder"
        assert len(reason) > 10, f"{path}: {reason!r}"
        if name in broken:
            assert broken[name].lower() in reason.lower(), f"{path}: {reason}"


def test_a_refused_file_says_so_where_its_model_is_asked_for(repository):
    """In NOT_FOUND of Infer, of Open and of Get, and in /status.json."""
    server, _, sound, _ = repository
    reason = {f.path: f.reason for f in _list(server).failures}["garbage/1/model.onnx"]
    case = sound["lstm-14", 1]
    sessions = Sessions(server.address)
    ref = wire.tensor_pb2.ModelRef(name="garbage")
    for failure in (wire.refusal(_infer, server, case, "garbage"),
                    wire.refusal(sessions.stub.Open, wire.sessions_pb2.OpenRequest(model=ref)),
                    wire.refusal(server.models.Get, wire.models_pb2.GetModelRequest(model=ref))):
        assert failure.code == grpc.StatusCode.NOT_FOUND and failure.reasons == ["MODEL_UNKNOWN"], str(failure)
        assert "garbage/1/model.onnx" in failure.text and reason in failure.text, failure.text
    sessions.close()
    shown = json.loads(_get(server, "/status.json")[1])["refused_files"]
    assert shown["count"] == len(_list(server).failures)
    assert {"path": "garbage/1/model.onnx", "reason": reason} in shown["first"]


def test_nothing_from_outside_is_read(repository):
    server, _, _, broken = repository
    loaded = {m.name for m in _list(server).models}
    assert not loaded & set(broken)


def test_load_from_the_repository(repository):
    server, root, sound, _ = repository
    case = repository_files.case("GRU", 14, seed=30)
    repository_files.write(root / "late" / "4", repository_files.model(case))
    load = wire.models_pb2.LoadRequest(name="late", version=4, repository=True)
    assert server.models.Load(load).model.source == "late/4/model.onnx"
    assert not excess(wire.results(_infer(server, case, "late")), formulas.run(case))[1]
    assert server.models.Load(load).model.version == 4  # equal content
    repository_files.write(root / "late" / "4", repository_files.model(repository_files.case("GRU", 14, seed=31)))
    assert wire.refusal(server.models.Load, load).code == grpc.StatusCode.ALREADY_EXISTS
    assert not excess(wire.results(_infer(server, case, "late")), formulas.run(case))[1]
    server.models.Unload(wire.models_pb2.UnloadRequest(model=wire.tensor_pb2.ModelRef(name="late")))
    assert sound


def test_the_folder_is_looked_at_again(tmp_path):
    """A new version goes before the older one, a new model is told by health, a broken one is listed; the rest stays."""
    cases = [repository_files.case("GRU", 14, seed=seed) for seed in (40, 41)]
    repository_files.write(tmp_path / "m" / "1", repository_files.model(cases[0]))
    server = Server(f"--models={tmp_path}", "--models_poll=20ms")
    health = health_pb2_grpc.HealthStub(server.channel)
    try:
        watch = health.Watch(health_pb2.HealthCheckRequest(service="late"), timeout=SECONDS)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        assert not excess(wire.results(_infer(server, cases[0], "m")), formulas.run(cases[0]))[1]
        repository_files.write(tmp_path / "m" / "2", repository_files.model(cases[1]))
        (tmp_path / "broken" / "1").mkdir(parents=True)
        (tmp_path / "broken" / "1" / "model.onnx").write_bytes(b"no model at all")
        repository_files.write(tmp_path / "late" / "1", repository_files.model(cases[0]))
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        while {(m.name, m.version) for m in _list(server).models} != {("m", 1), ("m", 2), ("late", 1)}:
            pass
        while [f.path for f in _list(server).failures] != ["broken/1/model.onnx"]:
            pass
        assert not excess(wire.results(_infer(server, cases[1], "m")), formulas.run(cases[1]))[1]
        watch.cancel()
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize("name, version", [("nowhere", 1), ("lstm-14", 2), ("garbage", 1), ("external-up", 1)])
def test_load_of_what_is_not_there_or_broken(repository, name, version):
    server, _, _, _ = repository
    failure = wire.refusal(server.models.Load, wire.models_pb2.LoadRequest(name=name, version=version, repository=True))
    expected = grpc.StatusCode.NOT_FOUND if name in ("nowhere", "lstm-14") else grpc.StatusCode.FAILED_PRECONDITION
    assert failure.code == expected, str(failure)
    assert name in failure.text, str(failure)


@pytest.mark.parametrize("name", ["../models/lstm-14", "lstm-14/1/..", "/etc", "..", "."])
def test_a_name_is_no_path(repository, name):
    server, _, _, _ = repository
    failure = wire.refusal(server.models.Load, wire.models_pb2.LoadRequest(name=name, repository=True))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT and failure.fields == ["name"], str(failure)


def test_special_files_do_not_hang_the_start(tmp_path):
    """A FIFO where the model or its data should be would block a reader for ever."""
    for name in ("fifo-model", "fifo-data"):
        (tmp_path / name / "1").mkdir(parents=True)
    os.mkfifo(tmp_path / "fifo-model" / "1" / "model.onnx")
    os.mkfifo(tmp_path / "fifo-data" / "1" / "w.bin")
    repository_files.write(tmp_path / "fifo-data" / "1", repository_files.external(
        repository_files.model(repository_files.case("LSTM", 14)), "w.bin"))
    server = Server(f"--models={tmp_path}")
    try:
        assert {f.path.split("/")[0] for f in _list(server).failures} == {"fifo-model", "fifo-data"}
    finally:
        assert server.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize("what, text", [("nowhere", "does not exist"), ("file", "is not a folder")])
def test_a_repository_that_is_none_ends_the_start(tmp_path, what, text):
    (tmp_path / "file").write_text("")
    done = run_to_end("--listen=127.0.0.1:0", "--admin_listen=", f"--models={tmp_path / what}")
    assert done.returncode == 1 and "listening" not in done.stderr
    assert f"--models={tmp_path / what}: {text}" in done.stderr, done.stderr


def test_an_empty_repository(tmp_path):
    server = Server(f"--models={tmp_path}")
    try:
        assert not _list(server).models and not _list(server).failures
    finally:
        assert server.stop() == 0
