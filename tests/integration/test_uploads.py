# SPDX-License-Identifier: Apache-2.0
"""Models.Load of layers and of a file's bytes: the same models as the repository makes of the same files, the numbers of
the formulas, and refusals that name the layer or what is wrong with the file."""

from __future__ import annotations

import grpc
import numpy as np
import pytest

import rnnserve

import formulas
import repository_files
import stack_graphs
import whole_graphs
import wire
from operators import WEIGHTS, Case
from server_process import Server
from session_calls import Sessions
from test_onnxruntime import excess

pb = wire.models_pb2
FILES = {"one": lambda: repository_files.model(repository_files.case("LSTM", 14)),
         "stack": lambda: stack_graphs.model(stack_graphs.Stack(finals="joined")),
         "whole": lambda: whole_graphs.draw(3).content,
         "stream": lambda: whole_graphs.draw(5).content}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, content in FILES.items():
        repository_files.write(folder / name / "1", content())
    running = Server(f"--models={folder}", "--drain_timeout=100ms")
    yield running
    assert running.alive(), running.log()
    assert running.stop() == 0


def layer(op="LSTM", inputs=3, hidden=4, seed=1, dtype=np.float32, **attributes):
    rng = np.random.default_rng(seed)
    gates, directions = stack_graphs.GATES[op], 2 if attributes.get("direction") == "bidirectional" else 1
    shapes = {"W": (gates * hidden, inputs), "R": (gates * hidden, hidden), "B": (2 * gates * hidden,)}
    tensors = {name: rng.uniform(-0.5, 0.5, (directions, *shape)).astype(dtype) for name, shape in shapes.items()}
    return Case(op, tensors, {"hidden_size": hidden, **attributes}, version=14)


def inline(case):
    request = wire.request(case)
    return pb.InlineModel(operator=request.operator, weights=[t for t in request.inputs if t.name in WEIGHTS])


def stack_request(layers, name="layers", **fields):
    return pb.LoadRequest(name=name, stack=pb.InlineStack(layers=map(inline, layers)), **fields)


def infer(server, name, **tensors):
    request = wire.recurrent_pb2.InferRequest(inputs=[wire.tensor(key, value) for key, value in tensors.items()])
    request.model.name = name
    return wire.results(server.recurrent.Infer(request))


@pytest.mark.parametrize("kind", FILES)
def test_the_bytes_of_a_file_are_the_model_that_the_repository_makes_of_it(server, kind):
    (known,) = [model for model in server.models.List(pb.ListModelsRequest()).models if model.name == kind]
    sent = server.models.Load(pb.LoadRequest(name=f"sent-{kind}", onnx_file=FILES[kind]().SerializeToString())).model
    assert (sent.source, known.source) == ("upload", f"{kind}/1/model.onnx")
    for info in (known, sent):
        for field in ("name", "source", "packed_bytes"):  # what is sent has been warmed up
            info.ClearField(field)
    assert sent == known


@pytest.mark.parametrize("layers", [
    [layer("LSTM", direction="bidirectional"), layer("GRU", inputs=8, hidden=5, seed=2, linear_before_reset=1)],
    [layer("RNN", layout=1), layer("RNN", inputs=4, seed=2, layout=1), layer("LSTM", inputs=4, seed=3, layout=1)],
    [layer("GRU")]], ids=["two", "batch_first", "one"])
def test_layers_give_the_numbers_of_the_formulas_in_turn(server, layers):
    info = server.models.Load(stack_request(layers, name=f"layers-{len(layers)}", engine="cpu")).model
    assert info.source == "upload" and len(info.layers) == (len(layers) if len(layers) > 1 else 0)
    rows_first = "layout" in layers[0].attributes
    X = np.random.default_rng(7).uniform(-1, 1, (2, 6, 3) if rows_first else (6, 2, 3)).astype(np.float32)
    x = X
    for case in layers:
        expected = formulas.run(Case(case.op, {**case.tensors, "X": x}, case.attributes, version=14))["Y"]
        y = np.moveaxis(expected, 2 if rows_first else 1, 2)
        x = y.reshape(*y.shape[:2], -1).astype(np.float32)
    got = infer(server, info.name, X=X)
    assert not excess({"Y": got["Y"]}, {"Y": expected})[1]


def test_layers_of_a_file_sent_one_by_one_are_its_model(server):
    content = stack_graphs.model(stack_graphs.Stack(finals="joined"))
    known = server.models.Get(pb.GetModelRequest(model=wire.tensor_pb2.ModelRef(name="stack"))).model
    from onnx import numpy_helper
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in content.graph.initializer}
    nodes = [node for node in content.graph.node if node.op_type == "LSTM"]
    layers = [Case("LSTM", {name: values[given] for name, given in zip(("W", "R", "B"), node.input[1:4])},
                   {"hidden_size": 5}, opset=14) for node in nodes]
    apart = server.models.Load(stack_request(layers, name="apart")).model
    assert apart.fingerprint != known.fingerprint  # a file's names are part of its model
    assert [t.name for t in (*known.inputs, *known.outputs)] == ["input", "sequence_lens", "output", "hn", "cn"]
    assert [t.name for t in apart.outputs] == ["Y", "Y_h", "Y_c", "Y_h.0", "Y_c.0", "Y_h.1", "Y_c.1"]
    x = np.random.default_rng(3).uniform(-1, 1, (4, 2, 3)).astype(np.float32)
    for name, value in infer(server, "apart", X=x).items():
        np.testing.assert_array_equal(infer(server, "stack", X=x)[name], value)


def test_a_session_of_a_stack_that_was_sent(server):
    sessions = Sessions(server.address)
    info = server.models.Load(stack_request([layer(), layer(inputs=4, seed=2)], name="session")).model
    session = sessions.open(model=wire.tensor_pb2.ModelRef(name=info.name))
    x = np.random.default_rng(8).uniform(-1, 1, (6, 1, 3)).astype(np.float32)
    pieces = [wire.array(sessions.apply(session, number, chunk=wire.sessions_pb2.Chunk(
        inputs=[wire.tensor("X", x[start:start + 2])])).outputs[0]) for number, start in enumerate((0, 2, 4), 1)]
    assert not excess({"Y": np.concatenate(pieces)}, {"Y": infer(server, info.name, X=x)["Y"]})[1]
    sessions.close()


def test_open_tells_what_brings_the_steps_of_a_chunk(server):
    sessions = Sessions(server.address)
    told = {name: sessions.stub.Open(wire.sessions_pb2.OpenRequest(model=wire.tensor_pb2.ModelRef(name=name))).data_input
            for name in ("one", "stack", "stream")}
    assert told == {"one": "X", "stack": "input", "stream": "features"}
    sessions.close()
    with rnnserve.Client(server.address) as client, client.session("stream", rows=2) as session:
        session.feed(np.zeros((2, 4, 3), np.float32))  # [N, T, 3], as the file has it
        assert session.position == 4
        assert session.fork().feed(np.zeros((2, 1, 3), np.float32))


REFUSED = {
    "stack.layers": (pb.LoadRequest(name="n", stack=pb.InlineStack()), "1 to 64 layers"),
    "stack.layers[1].operator.op_type": (stack_request([layer(), Case("CONV", {}, version=1)]), ""),
    "stack.layers[0].weights[W]": (stack_request([Case("LSTM", {}, {"hidden_size": 4}, version=14)]), "W"),
    "stack.layers[1].weights[R]": (stack_request([layer(), Case("LSTM", {"W": layer().tensors["W"]}, {"hidden_size": 4},
                                                                version=14)]), "layer 1: "),
    "stack.layers[1]": (stack_request([layer(), layer(inputs=5)]), "takes 5 columns"),
    "onnx_file": (pb.LoadRequest(name="n", onnx_file=b"no model"), "the file: is no ONNX model"),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_is_wrong_is_told_by_field(server, field):
    request, words = REFUSED[field]
    failure = wire.refusal(server.models.Load, request)
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT and failure.fields == [field] and words in failure.text, failure


def test_data_beside_a_file_cannot_be_sent(server, tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(1 << 16))
    for location in ("w.bin", f"{tmp_path}/w.bin", "/etc/hostname"):
        content = repository_files.external(repository_files.model(repository_files.case("LSTM", 14)), location)
        failure = wire.refusal(server.models.Load, pb.LoadRequest(name="n", onnx_file=content.SerializeToString()))
        assert failure.fields == ["onnx_file"] and "external_data=False" in failure.text, failure


def test_too_many_layers(server):
    failure = wire.refusal(server.models.Load, stack_request([layer("RNN", inputs=4)] * 65))
    assert failure.fields == ["stack.layers"] and "65 came" in failure.text
    assert len(server.models.Load(stack_request([layer("RNN", inputs=4)] * 64, name="most")).model.layers) == 64
