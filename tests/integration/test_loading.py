# SPDX-License-Identifier: Apache-2.0
"""The life of a version beside its upload: what warms it up, what `models save` gives back, how Unload drains, and the
progress that a terminal shows."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import subprocess
import threading
import time

import grpc
import numpy as np
import pytest

import formulas
import repository_files
import wire
from server_process import Server
from session_calls import Sessions
from test_admin import _metrics
from test_models import _case, _get, _infer_model, _list, _load, _ref, _unload
from test_onnxruntime import excess
from test_stream_command import RNNCTL, rnnctl, well
from test_streamed_uploads import FILES, TOKENS, large_file, upload

pb = wire.models_pb2
UNSAVED = grpc.StatusCode.FAILED_PRECONDITION


def save(server, name, version=None, **keywords):
    first, *rest = server.models.Download(pb.DownloadRequest(model=_ref(name, version)), **keywords)
    assert all(0 < len(message.chunk) <= 1 << 20 for message in rest)
    content = b"".join(message.chunk for message in rest)
    assert first.begin.file_bytes == len(content)
    return first.begin.model, content


def unsaved(server, name, **keywords):
    return wire.refusal(list, server.models.Download(pb.DownloadRequest(model=_ref(name)), **keywords))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved")
    for version in (1, 2):
        repository_files.write(path / "models/kept" / str(version),
                               repository_files.model(repository_files.case("GRU", 14, seed=version)))
    repository_files.write_sound(path / "models")
    (path / "tokens").write_text(f"alice {TOKENS['alice']} models\nbob {TOKENS['bob']} models\n"
                                 f"ops {TOKENS['ops']} operator\nplain {TOKENS['plain']}\n")
    return path


@pytest.fixture(scope="module")
def server(folder):
    running = Server(f"--models={folder}/models", "--drain_timeout=100ms")
    yield running
    assert running.alive(), running.log()
    assert running.stop() == 0


def test_an_uploaded_file_comes_back_byte_for_byte(server):
    content = FILES["whole"]().SerializeToString()
    upload(server, content, "streamed")
    server.models.Load(pb.LoadRequest(name="loaded", onnx_file=content))
    for name in ("streamed", "loaded"):
        info, got = save(server, name)
        assert (info.name, info.version, info.source) == (name, 1, "upload") and got == content
    _unload(server, "streamed")
    assert unsaved(server, "streamed").code == grpc.StatusCode.NOT_FOUND


def test_a_file_of_the_folder_comes_back_while_it_is_the_model_that_is_served(server, folder):
    path = folder / "models/kept/2/model.onnx"
    content = path.read_bytes()
    info, got = save(server, "kept")
    assert info.version == 2 and got == content
    assert save(server, "kept", 1)[1] != content
    for change in (lambda: path.write_bytes((folder / "models/kept/1/model.onnx").read_bytes()), path.unlink):
        change()
        failure = unsaved(server, "kept")
        assert failure.code == UNSAVED and "kept/2/model.onnx: " in failure.text, failure
    path.write_bytes(content)
    assert save(server, "kept")[1] == content


def test_what_is_no_single_file_is_not_saved(server):
    server.models.Load(_load("operators", _case()))
    assert "came as operators" in unsaved(server, "operators").text
    failure = unsaved(server, "external")
    assert failure.code == UNSAVED and "copy the version's folder" in failure.text, failure
    assert unsaved(server, "nobody").code == grpc.StatusCode.NOT_FOUND
    empty = wire.refusal(list, server.models.Download(pb.DownloadRequest()))
    assert empty.fields == ["model.name"], empty


def test_who_may_save_what(folder):
    server = Server(f"--models={folder}/models", f"--tokens_file={folder}/tokens", "--drain_timeout=100ms")
    try:
        keys = {name: {"metadata": [("authorization", f"Bearer {token}")]} for name, token in TOKENS.items()}
        content = FILES["one"]().SerializeToString()
        server.models.Load(pb.LoadRequest(name="own", onnx_file=content), **keys["alice"])
        assert save(server, "own", **keys["alice"])[1] == content
        assert unsaved(server, "own", **keys["bob"]).code == grpc.StatusCode.NOT_FOUND
        assert save(server, "kept", **keys["ops"])[0].tenant == ""
        for name in ("alice", "plain"):
            assert unsaved(server, "kept", **keys[name]).code == grpc.StatusCode.PERMISSION_DENIED
    finally:
        assert server.stop() == 0


def test_a_kept_file_counts_among_the_bytes_of_models():
    content = large_file(4)
    server = Server(f"--model_weight_bytes={len(content) * 3}", "--drain_timeout=100ms")
    try:
        upload(server, content, "first")
        other = large_file(3)
        failure = wire.refusal(upload, server, other, "second")
        assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED and "--model_weight_bytes" in failure.text, failure
        _unload(server, "first")
        upload(server, other, "second")
        failure = wire.refusal(upload, server, bytes(len(content) * 3 + 1), "third")
        assert failure.fields == ["begin.file_bytes"], failure
    finally:
        assert server.stop() == 0


def test_a_version_is_warm_before_its_name_means_it(server):
    info = upload(server, FILES["one"]().SerializeToString(), "warm", engine="cpu")
    assert info.packed_bytes > 0
    assert re.search(r"model loaded model=warm .*warm_up=\"?cpu, [\d.]+[mu]?s\b", server.log()), server.log()


@pytest.mark.parametrize("kind", FILES)
def test_every_kind_of_model_takes_its_step(server, kind):
    upload(server, FILES[kind]().SerializeToString(), f"step-{kind}")
    line = next(line for line in server.log().splitlines() if f"model=step-{kind} " in line)
    assert "warm_up" in line and "no step" not in line and "none" not in line, line


def test_what_cannot_run_is_refused_and_the_version_before_stays(server):
    server.models.Load(_load("runs", _case("LSTM")))
    failure = wire.refusal(server.models.Load, _load("runs", _case("LSTM", seed=2, clip=0.5), engine="onednn"))
    asked = wire.refusal(server.recurrent.Infer, wire.request(_case("LSTM", seed=2, clip=0.5), engine="onednn"))
    assert (failure.code, failure.text) == (asked.code, asked.text)
    assert [model.version for model in _list(server).models if model.name == "runs"] == [1]
    reply = server.recurrent.Infer(_infer_model(_case("LSTM"), "runs"))
    assert not excess(wire.results(reply), formulas.run(_case("LSTM")))[1]


def test_a_version_of_the_folder_that_comes_later_is_warmed_up(tmp_path):
    repository_files.write(tmp_path / "later" / "1", repository_files.model(repository_files.case("GRU", 14, seed=1)))
    server = Server(f"--models={tmp_path}", "--models_poll=50ms", "--drain_timeout=100ms")
    try:
        assert _get(server, model=_ref("later")).packed_bytes == 0
        repository_files.write(tmp_path / "later" / "2", repository_files.model(repository_files.case("GRU", 14, seed=2)))
        for _ in range(400):
            if (info := _get(server, model=_ref("later"))).version == 2:
                break
            time.sleep(0.05)
        assert info.version == 2 and info.packed_bytes > 0
        while not re.search(r"model later version 2 .*warm_up=", server.log()):  # soon after the model is there
            assert server.alive()
    finally:
        assert server.stop() == 0


def test_unload_ends_new_use_and_lets_what_runs_end(server):
    case = _case("LSTM", hidden=128)
    server.models.Load(_load("going", case, engine="cpu"))
    sessions = Sessions(server.address)
    session = sessions.open(model=_ref("going"), engine="cpu", outputs=["Y_h"])
    X = np.random.default_rng(1).uniform(-1, 1, (400_000, 1, 3)).astype(np.float32)
    request = wire.recurrent_pb2.InferRequest(inputs=[wire.tensor("X", X)], outputs=["Y_h"])
    request.model.name = "going"
    request.options.deterministic = True  # both answers' bits are compared
    answers = []
    thread = threading.Thread(target=lambda: answers.append(server.recurrent.Infer(request)))
    thread.start()
    while _metrics(server)["rnnserve_queue_sequences"] < 1:  # it is inside
        assert thread.is_alive()
    _unload(server, "going")
    assert thread.is_alive(), "the call ended before Unload: make it longer"
    assert wire.refusal(server.recurrent.Infer, request).reasons == ["MODEL_UNKNOWN"]
    assert wire.refusal(sessions.stub.Open, wire.sessions_pb2.OpenRequest(model=_ref("going"))).reasons == ["MODEL_UNKNOWN"]
    first = wire.array(sessions.apply(session, 1, chunk=wire.sessions_pb2.Chunk(
        inputs=[wire.tensor("X", X[:7])])).outputs[0])
    thread.join()
    server.models.Load(_load("again", case, engine="cpu"))
    request.model.name = "again"
    assert answers[0].outputs == server.recurrent.Infer(request).outputs
    del request.inputs[:]
    request.inputs.append(wire.tensor("X", X[:7]))
    np.testing.assert_allclose(wire.results(server.recurrent.Infer(request))["Y_h"], first, atol=1e-6)
    sessions.close()


def test_rnnctl_loads_and_saves_a_file(server, tmp_path):
    (tmp_path / "model.onnx").write_bytes(FILES["stack"]().SerializeToString())
    done = rnnctl("models", "load", "by-rnnctl", tmp_path / "model.onnx", f"--server={server.address}")
    assert "by-rnnctl" in well(done) and done.stderr == b""
    done = rnnctl("models", "save", "by-rnnctl:1", tmp_path / "saved.onnx", f"--server={server.address}")
    assert well(done) == f"saved version 1 of by-rnnctl to {tmp_path}/saved.onnx\n" and done.stderr == b""
    assert (tmp_path / "saved.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()
    refused = rnnctl("models", "save", "operators", tmp_path / "none.onnx", f"--server={server.address}")
    assert refused.returncode == 1 and b"came as operators" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "saved.onnx"]


def test_saving_replaces_regular_files_alone(server, tmp_path):
    content = FILES["stack"]().SerializeToString()
    upload(server, content, "replacing")
    (tmp_path / "old.onnx").write_bytes(b"old")
    (tmp_path / "old.onnx").chmod(0o600)
    (tmp_path / "old.onnx.part").write_bytes(b"another's")
    (tmp_path / "link.onnx").symlink_to("old.onnx")
    os.mkfifo(tmp_path / "pipe")
    there = sorted(path.name for path in tmp_path.iterdir())

    well(rnnctl("models", "save", "replacing", tmp_path / "link.onnx", f"--server={server.address}"))
    assert (tmp_path / "old.onnx").read_bytes() == content and (tmp_path / "link.onnx").is_symlink()
    assert (tmp_path / "old.onnx").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "old.onnx.part").read_bytes() == b"another's"
    refused = rnnctl("models", "save", "replacing", tmp_path / "pipe", f"--server={server.address}")
    assert refused.returncode != 0 and b"no regular file" in refused.stderr and (tmp_path / "pipe").is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == there


def test_a_terminal_shows_how_far_a_file_is(server, tmp_path):
    path = tmp_path / "large.onnx"
    path.write_bytes(large_file(12))
    for words in (["load", "shown", path], ["save", "shown", tmp_path / "saved.onnx"]):
        above, below = pty.openpty()
        done = subprocess.run([RNNCTL, "models", *map(str, words), f"--server={server.address}"], stdout=subprocess.PIPE,
                              stderr=below, check=False, timeout=120)
        os.close(below)
        text = b""
        try:
            while piece := os.read(above, 4096):
                text += piece
        except OSError:
            pass  # the end, as Linux says it
        os.close(above)
        assert done.returncode == 0 and re.search(rb"\r\x1b\[K(sent|got) [\d.]+ of 12\.\d MiB, 100 %", text), text
        assert text.endswith(b"\r\x1b[K")
    assert pathlib.Path(tmp_path / "saved.onnx").read_bytes() == path.read_bytes()


def test_a_caller_that_takes_no_file_holds_little(server):
    content = large_file(40)
    upload(server, content, "untaken")
    before = server.resident_kib()
    replies = [server.models.Download(pb.DownloadRequest(model=_ref("untaken"))) for _ in range(8)]
    for reply in replies:
        assert next(reply).begin.file_bytes == len(content)
    time.sleep(0.5)
    assert server.resident_kib() - before < 120 << 10, "4 MiB at most wait for each"
    counted = 'rnnserve_requests_total{method="Models.Download",code="CANCELLED"}'
    for reply in replies:
        reply.cancel()
    for _ in range(200):
        if _metrics(server).get(counted) == 8:
            break
        time.sleep(0.05)
    assert _metrics(server)[counted] == 8
    assert save(server, "untaken")[1] == content


def test_a_download_takes_one_message(server):
    upload(server, FILES["one"]().SerializeToString(), "once")
    call = server.channel.stream_stream("/rnnserve.v1.Models/Download",
                                        request_serializer=pb.DownloadRequest.SerializeToString,
                                        response_deserializer=pb.DownloadResponse.FromString)
    failure = wire.refusal(list, call(iter([pb.DownloadRequest(model=_ref("once"))] * 2)))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT and "a second message" in failure.text, failure
    assert list(call(iter([]))) == []
