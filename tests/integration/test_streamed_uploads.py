# SPDX-License-Identifier: Apache-2.0
"""Models.Upload: the model that Models.Load makes of the same bytes, however they are cut; permissions; what is refused, at
once; and a large file, whose way in is measured."""

from __future__ import annotations

import itertools
import pathlib
import random
import re
import threading
import time

import grpc
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import formulas
import repository_files
import stack_graphs
import whole_graphs
import wire
from server_process import Server
from test_onnxruntime import excess

pb = wire.models_pb2
FILES = {"one": lambda: repository_files.model(repository_files.case("LSTM", 14)),
         "stack": lambda: stack_graphs.model(stack_graphs.Stack(finals="joined")),
         "whole": lambda: whole_graphs.draw(3).content}
MOST = 1 << 20
TOKENS = {name: f"token-of-{name}-0123456789" for name in ("alice", "bob", "ops", "plain")}


@pytest.fixture(scope="module")
def tenants(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uploads")
    (folder / "tokens").write_text(f"alice {TOKENS['alice']} models\nbob {TOKENS['bob']} models\n"
                                   f"ops {TOKENS['ops']} operator\nplain {TOKENS['plain']}\n")
    running = Server(f"--tokens_file={folder}/tokens", "--drain_timeout=100ms")
    yield running
    assert running.stop() == 0


def messages(content, name="m", cut=lambda: MOST, size=None, **fields):
    yield pb.UploadRequest(begin=pb.UploadRequest.Begin(name=name, file_bytes=len(content) if size is None else size,
                                                        **fields))
    at = 0
    while at < len(content):
        step = cut()
        yield pb.UploadRequest(chunk=content[at:at + step])
        at += step


def upload(server, content, name="m", **fields):
    return server.models.Upload(messages(content, name, **fields)).model


def names(server, **keywords):
    return [model.name for model in server.models.List(pb.ListModelsRequest(), **keywords).models]


@pytest.mark.parametrize("kind", FILES)
def test_an_upload_is_the_model_that_load_makes_of_the_same_bytes(server, kind):
    content = FILES[kind]().SerializeToString()
    known = server.models.Load(pb.LoadRequest(name=f"load-{kind}", onnx_file=content)).model
    pieces = random.Random(1)
    sent = upload(server, content, f"upload-{kind}", cut=lambda: pieces.randint(1, 100))
    assert sent.fingerprint == known.fingerprint
    for info in (known, sent):
        info.ClearField("name")
        info.ClearField("packed_bytes")
    assert sent == known


def test_it_runs_and_versions_count_on(server):
    for version, seed in ((1, 1), (1, 1), (2, 2), (7, 3)):
        case = repository_files.case("GRU", 14, seed=seed)
        fields = {"version": 7} if version == 7 else {}
        info = upload(server, repository_files.model(case).SerializeToString(), "counted", engine="cpu", **fields)
        assert (info.name, info.version, info.engine, info.source) == ("counted", version, "cpu", "upload")
        request = wire.request(case)
        request.model.name = "counted"
        del request.inputs[:]
        request.inputs.extend(wire.tensor(name, value) for name, value in case.tensors.items() if name not in ("W", "R", "B"))
        assert not excess(wire.results(server.recurrent.Infer(request)), formulas.run(case))[1]


REFUSED = {
    "no begin": ([pb.UploadRequest(chunk=b"x")], "chunk", "send begin"),
    "nothing in it": ([pb.UploadRequest()], "part", "brings nothing"),
    "twice begun": (lambda: [*messages(b"xy"), *messages(b"xy")], "", "a second begin"),
    "2^63 bytes": (lambda: messages(b"x", size=2**63 - 1), "begin.file_bytes", "9223372036854775807"),
    "negative": (lambda: messages(b"x", size=-2**63), "begin.file_bytes", ""),
    "too few": (lambda: messages(b"x" * 10, size=11), "begin.file_bytes", "10 of 11"),
    "too many": (lambda: messages(b"x" * 11, size=10), "chunk", "11 bytes have come"),
    "a chunk above the bound": (lambda: messages(bytes(MOST + 1), cut=lambda: MOST + 1), "chunk", "1048576"),
    "empty chunk": (lambda: [*itertools.islice(messages(b"x"), 1), pb.UploadRequest(chunk=b"")], "chunk", "has 0"),
    "no model": (lambda: messages(b"no model"), "chunk", "the file: is no ONNX model"),
    "name": (lambda: messages(b"x", "../etc"), "begin.name", "a model's name is"),
    "engine": (lambda: messages(b"x", engine="abacus"), "begin.engine", "abacus"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_told_by_field_and_leaves_nothing(server, what):
    sent, field, words = REFUSED[what]
    before = names(server)
    failure = wire.refusal(server.models.Upload, iter(sent() if callable(sent) else sent))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT and words in failure.text, failure
    assert failure.fields == ([field] if field else []), failure
    assert names(server) == before


def test_a_refusal_comes_before_the_rest_of_the_file(server):
    taken = 0

    def counted():
        nonlocal taken
        for message in messages(bytes(200 << 20), engine="abacus"):
            taken += 1
            yield message

    assert wire.refusal(server.models.Upload, counted()).fields == ["begin.engine"]
    assert taken < 100


def test_without_the_permission_nothing_is_read(tenants):
    denied = wire.refusal(tenants.models.Upload, messages(b"x" * 100),
                          metadata=[("authorization", f"Bearer {TOKENS['plain']}")])
    assert denied.code == grpc.StatusCode.PERMISSION_DENIED, denied
    assert wire.refusal(tenants.models.Upload, messages(b"x")).code == grpc.StatusCode.UNAUTHENTICATED


def test_a_tenants_upload_is_its_own_and_an_operators_everybodys(tenants):
    content = FILES["one"]().SerializeToString()
    keys = {name: [("authorization", f"Bearer {token}")] for name, token in TOKENS.items()}
    for name in ("alice", "ops"):
        info = tenants.models.Upload(messages(content, f"of-{name}"), metadata=keys[name]).model
        assert info.tenant == ("alice" if name == "alice" else "")
    assert names(tenants, metadata=keys["alice"]) == ["of-alice", "of-ops"]
    assert names(tenants, metadata=keys["bob"]) == ["of-ops"]


def test_uploads_at_a_time_and_one_that_breaks_off(server):
    content = FILES["whole"]().SerializeToString()
    stopped = threading.Event()

    def endless():
        yield from itertools.islice(messages(content, "broken", cut=lambda: 10), 5)
        stopped.wait(30)

    broken = server.models.Upload.future(endless())
    threads = [threading.Thread(target=upload, args=(server, content, f"parallel-{k}"), kwargs={"cut": lambda: 50})
               for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    broken.cancel()
    stopped.set()
    assert {f"parallel-{k}" for k in range(4)} <= set(names(server))
    assert "broken" not in names(server)


def large_file(megabytes):
    hidden = int((megabytes * 2**20 / 4 / 8) ** 0.5)
    rng = np.random.default_rng(1)
    w = {name: rng.uniform(-0.02, 0.02, (1, 4 * hidden, hidden)).astype(np.float32) for name in "WR"}
    content = helper.make_model(
        helper.make_graph([helper.make_node("LSTM", ["X", "W", "R"], ["Y", "Y_h"], hidden_size=hidden)], "g",
                          [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["T", "N", hidden])],
                          [helper.make_tensor_value_info("Y_h", TensorProto.FLOAT, [1, "N", hidden])],
                          [numpy_helper.from_array(value, name) for name, value in w.items()]),
        opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    return content.SerializeToString()


def peak_mib(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status).group(1)) / 1024


def test_a_file_above_the_message_limit_comes_in_while_calls_go_on():
    content = large_file(80)
    size = len(content) / 2**20
    server = Server("--drain_timeout=100ms")
    try:
        before, began, ended, took = server.resident_kib() / 1024, time.monotonic(), threading.Event(), []

        def calls():
            while not ended.is_set():
                start = time.monotonic()
                server.models.List(pb.ListModelsRequest())
                took.append(time.monotonic() - start)

        beside = threading.Thread(target=calls)
        beside.start()
        try:
            info = upload(server, content, "large", engine="cpu")
        finally:
            ended.set()
            beside.join()
        print(f"{size:.0f} MiB in {time.monotonic() - began:.2f} s; peak {peak_mib(server) - before:.0f} MiB more, then "
              f"{server.resident_kib() / 1024 - before:.0f}; beside it {len(took)} calls, slowest {max(took) * 1000:.0f} ms")
        assert info.weight_bytes > 75 << 20 and len(took) > 10
        # The bytes, protobuf's and the weights; and what the engine packs.
        assert peak_mib(server) - before < 4 * size + info.packed_bytes / 2**20
        failure = wire.refusal(server.models.Load, pb.LoadRequest(name="large", onnx_file=content))
        assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    finally:
        assert server.stop() == 0
