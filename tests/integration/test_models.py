# SPDX-License-Identifier: Apache-2.0
"""Models over the wire: Load, Unload, Get, List, fingerprints, options and engines of models."""

from __future__ import annotations

import json

import grpc
import numpy as np
import pytest

import formulas
import random_operators
import wire
from operators import WEIGHTS, Case
from server_process import Server
from test_onnxruntime import excess


def _case(op="GRU", seed=1, hidden=5, **attributes) -> Case:
    rng = np.random.default_rng(seed)
    tensors = random_operators.tensors(rng, op, 4, 2, 3, hidden, 1, bias=True, peephole=True, lengths=False,
                                       initial_h=True, initial_c=True)
    return Case(op, tensors, {"hidden_size": hidden, **attributes}, version=14)


def _load(name, case, **fields):
    request = wire.models_pb2.LoadRequest(name=name, **fields)
    request.inline.operator.CopyFrom(wire.operator(case))
    request.inline.weights.extend(wire.tensor(k, v) for k, v in case.tensors.items() if k in WEIGHTS)
    return request


def _infer_model(case, name, version=None, **fields):
    request = wire.request(case, **fields)
    request.model.name = name
    if version is not None:
        request.model.version = version
    kept = [t for t in request.inputs if t.name not in WEIGHTS]
    del request.inputs[:]
    request.inputs.extend(kept)
    return request


def _ref(name, version=None):
    return wire.tensor_pb2.ModelRef(name=name, version=version)


def _get(server, **by):
    return server.models.Get(wire.models_pb2.GetModelRequest(**by)).model


def _list(server):
    return server.models.List(wire.models_pb2.ListModelsRequest())


def _unload(server, name, version=None):
    server.models.Unload(wire.models_pb2.UnloadRequest(model=_ref(name, version)))


def test_load_tells_what_a_request_brings_and_gets(server):
    case = _case("LSTM")
    info = server.models.Load(_load("told", case)).model
    assert (info.name, info.version, info.source) == ("told", 1, "upload")
    assert len(info.fingerprint) == 64
    assert info.operator.op_type == "LSTM" and info.operator.version == 14
    assert [(t.name, list(t.shape), t.optional) for t in info.inputs] == [
        ("X", ["T", "N", "3"], False), ("sequence_lens", ["N"], True), ("initial_h", ["1", "N", "5"], True),
        ("initial_c", ["1", "N", "5"], True)]
    assert [(t.name, list(t.shape)) for t in info.outputs] == [
        ("Y", ["T", "1", "N", "5"]), ("Y_h", ["1", "N", "5"]), ("Y_c", ["1", "N", "5"])]
    assert [t.data_type for t in info.inputs] == [1, 6, 1, 1]
    assert info.weight_bytes == sum(case.tensors[k].nbytes for k in WEIGHTS)
    assert _get(server, model=_ref("told")) == info
    assert _get(server, fingerprint=info.fingerprint).fingerprint == info.fingerprint
    assert [m for m in _list(server).models if m.name == "told"] == [info]
    _unload(server, "told")


def test_infer_of_a_model_is_infer_of_its_operator(server):
    case = _case()
    loaded = server.models.Load(_load("same", case)).model
    inline = server.recurrent.Infer(wire.request(case, engine="cpu"))
    named = server.recurrent.Infer(_infer_model(case, "same", engine="cpu"))
    by_print = server.recurrent.Infer(wire.request(case, engine="cpu", fingerprint=loaded.fingerprint))
    assert inline.fingerprint == named.fingerprint == by_print.fingerprint == loaded.fingerprint
    assert inline.outputs == named.outputs == by_print.outputs
    assert not excess(wire.results(named), formulas.run(case))[1]
    assert _get(server, model=_ref("same")).packed_bytes > 0, "an engine has packed the weights by now"
    _unload(server, "same")


def test_equal_content_is_ok_and_other_content_already_exists(server):
    first = server.models.Load(_load("twice", _case())).model
    assert server.models.Load(_load("twice", _case())).model.fingerprint == first.fingerprint
    failure = wire.refusal(server.models.Load, _load("twice", _case(seed=2), version=1))
    assert failure.code == grpc.StatusCode.ALREADY_EXISTS and "twice" in failure.text
    failure = wire.refusal(server.models.Load, _load("twice", _case(linear_before_reset=1), version=1))
    assert failure.code == grpc.StatusCode.ALREADY_EXISTS
    assert not excess(wire.results(server.recurrent.Infer(_infer_model(_case(), "twice"))), formulas.run(_case()))[1]
    server.models.Load(_load("twice", _case(seed=2), version=2))
    _unload(server, "twice")


def test_without_a_version_other_content_is_the_next_one(server):
    def load(seed, version=None):
        return server.models.Load(_load("next", _case(seed=seed), version=version)).model.version

    assert [load(1), load(1), load(2), load(2), load(1)] == [1, 1, 2, 2, 3]
    assert load(4, version=7) == 7 and load(5) == 8
    _unload(server, "next")
    load(1, version=2**63 - 1)
    failure = wire.refusal(server.models.Load, _load("next", _case(seed=2)))
    assert failure.code == grpc.StatusCode.ALREADY_EXISTS and "name one that is free" in failure.text
    _unload(server, "next")


def test_versions(server):
    old, new = _case(seed=3), _case(seed=4)
    server.models.Load(_load("versions", new, version=10))
    server.models.Load(_load("versions", old, version=9))
    assert _get(server, model=_ref("versions")).version == 10
    for version, weights in ((None, new), (10, new), (9, old)):
        sent = weights.changed(X=old.tensors["X"])
        reply = server.recurrent.Infer(_infer_model(sent, "versions", version))
        assert not excess(wire.results(reply), formulas.run(sent))[1]
    _unload(server, "versions", 10)
    assert _get(server, model=_ref("versions")).version == 9
    failure = wire.refusal(server.recurrent.Infer, _infer_model(old, "versions", 10))
    assert failure.code == grpc.StatusCode.NOT_FOUND and failure.reasons == ["MODEL_UNKNOWN"]
    _unload(server, "versions")
    failure = wire.refusal(_unload, server, "versions")
    assert failure.code == grpc.StatusCode.NOT_FOUND and failure.reasons == ["MODEL_UNKNOWN"]


def test_an_unloaded_name_is_free(server):
    server.models.Load(_load("free", _case(seed=5)))
    _unload(server, "free")
    server.models.Load(_load("free", _case(seed=6)))
    _unload(server, "free")
    assert "free" not in [m.name for m in _list(server).models]


def test_who_changes_models_is_logged():
    server = Server("--log_format=json")
    try:
        for _ in range(2):
            loaded = server.models.Load(_load("told", _case("LSTM", hidden=4), version=3)).model
        _unload(server, "told")
        events = [json.loads(line) for line in server.log().splitlines()]
    finally:
        assert server.stop() == 0
    told = [event for event in events if event["message"] in ("model loaded", "model unloaded")]
    assert [event["message"] for event in told] == ["model loaded", "model loaded", "model unloaded"]
    for event in told:
        assert (event["model"], event["version"], event["source"]) == ("told", "3", "upload") and loaded.name == "told"
        assert event["peer"].startswith("ipv4:127.0.0.1:") and int(event["bytes"]) > 0


def test_list_is_in_order(server):
    for name, version in (("order-b", 2), ("order-a", 10), ("order-b", 1), ("order-a", 9)):
        server.models.Load(_load(name, _case(), version=version))
    assert [(m.name, m.version) for m in _list(server).models if m.name.startswith("order")] == [
        ("order-a", 9), ("order-a", 10), ("order-b", 1), ("order-b", 2)]
    for name in ("order-a", "order-b"):
        _unload(server, name)


def test_a_fingerprint_tells_contents_apart(server):
    base = _case("LSTM")
    weight = base.tensors["W"].copy()
    weight[0, 0, 0] = np.nextafter(weight[0, 0, 0], np.float32(9))
    others = [base, base.changed(W=weight), base.with_attributes(input_forget=1), base.with_attributes(clip=2.0),
              base.with_attributes(direction="reverse"), base.with_attributes(activations=["Sigmoid", "Tanh", "Relu"])]
    prints = [server.recurrent.Infer(wire.request(c)).fingerprint for c in others]
    assert len(set(prints)) == len(prints)
    # The same operator in other words.
    spelled = base.with_attributes(direction="forward", activations=["SIGMOID", "tanh", "Tanh"], input_forget=0)
    del spelled.attributes["hidden_size"]
    assert server.recurrent.Infer(wire.request(spelled)).fingerprint == prints[0]


def test_a_fingerprint_is_the_same_in_another_process(server):
    from server_process import Server
    request = wire.request(_case("LSTM", seed=12))
    mine = server.recurrent.Infer(request).fingerprint
    other = Server()
    try:
        assert other.recurrent.Infer(request).fingerprint == mine
        failure = wire.refusal(other.recurrent.Infer, wire.request(_case("LSTM", seed=13), fingerprint="0" * 64))
        assert failure.reasons == ["FINGERPRINT_EVICTED"]
    finally:
        assert other.stop() == 0


def test_options_of_model_and_request(server):
    """What the request says goes before the model, the model before the specification's default (true)."""
    case = _case("LSTM", clip=0.3)
    case.tensors["initial_c"] += np.float32(1.5)
    without = case.changed()
    without.clip_cell_input = False
    assert excess(formulas.run(case), formulas.run(without))[1], "the option has to matter here"
    server.models.Load(_load("options", case, options=wire.tensor_pb2.Options(clip_cell_input=False)))
    assert _get(server, model=_ref("options")).options.clip_cell_input is False
    reply = server.recurrent.Infer(_infer_model(case, "options"))
    assert not excess(wire.results(reply), formulas.run(without))[1]
    request = _infer_model(case, "options")
    request.options.clip_cell_input = True
    assert not excess(wire.results(server.recurrent.Infer(request)), formulas.run(case))[1]
    reply = server.recurrent.Infer(wire.request(case, fingerprint=reply.fingerprint))
    assert not excess(wire.results(reply), formulas.run(case))[1], "a fingerprint names content, not a model's options"
    _unload(server, "options")


def test_empty_row_state_of_model(server):
    case = _case("GRU").changed(sequence_lens=np.array([0, 3], np.int32))
    kept = case.changed()
    kept.empty_row_state = "initial"
    server.models.Load(_load("empty", case, options=wire.tensor_pb2.Options(empty_row_state=wire.tensor_pb2.INITIAL)))
    assert not excess(wire.results(server.recurrent.Infer(_infer_model(case, "empty"))), formulas.run(kept))[1]
    request = _infer_model(case, "empty")
    request.options.empty_row_state = wire.tensor_pb2.ZEROS
    assert not excess(wire.results(server.recurrent.Infer(request)), formulas.run(case))[1]
    _unload(server, "empty")


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_engine_of_a_model(server, engine):
    case = _case()
    assert server.models.Load(_load("engine", case, engine=engine)).model.engine == engine
    assert server.recurrent.Infer(_infer_model(case, "engine")).engine == engine
    other = {"cpu": "reference", "reference": "cpu"}[engine]
    assert server.recurrent.Infer(_infer_model(case, "engine", engine=other)).engine == other
    _unload(server, "engine")
