# SPDX-License-Identifier: Apache-2.0
"""Files of several layers: the server reads the same file as onnxruntime and gives the same numbers."""

from __future__ import annotations

import itertools
import random

import grpc
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import repository_files
import stack_graphs
import wire
from server_process import Server
from stack_graphs import Stack

# Of max(1, |expected|). onnxruntime's tanh and sigmoid are a few units of float32 off, which four layers of nine steps
# carry on.
TOLERANCE = 1e-5


def _systematic():
    for op, layers, directions, batch_first in itertools.product(("LSTM", "GRU", "RNN"), (1, 2, 3, 4), (1, 2),
                                                                 (False, True)):
        yield Stack((op,) * layers, directions, 14 + layers, batch_first, states="sliced", finals="joined",
                    lengths=not batch_first, hidden_sizes=(5,) * layers)


def _drawn(count):
    rng = random.Random(5)
    for seed in range(count):
        layers = rng.randint(1, 4)
        mixed = rng.random() < 0.25
        kinds = ("LSTM", "GRU", "RNN")
        ops = tuple(rng.choices(kinds, k=layers)) if mixed else (rng.choice(kinds),) * layers
        sizes = tuple(rng.choices((1, 4, 7), k=layers)) if mixed else (rng.choice((1, 4, 17)),) * layers
        states = rng.choice(("none", "apart") if mixed else ("none", "zeros", "sliced", "apart"))
        yield Stack(ops, rng.choice((1, 2)), rng.choice((8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 21, 22)),
                    rng.random() < 0.4, rng.choice(("torch", "torch", "sizes", "keras")), states,
                    rng.choice(("none", "apart") if mixed else ("none", "joined", "apart")), rng.random() < 0.4,
                    rng.choice((1, 2, 9)), sizes, seed)


STACKS = [*_systematic(), *_drawn(120)]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("stacks")
    for k, stack in enumerate(STACKS):
        repository_files.write(root / f"stack-{k}" / "1", stack_graphs.model(stack))
    running = Server(f"--models={root}")
    yield running, root
    assert running.alive(), running.log()
    assert running.stop() == 0


def _session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _whole_states(stack):
    """Whether the states of all layers are one tensor."""
    return stack.layers == 1 or len(set(stack.hidden_sizes)) == 1


def _feeds(stack, rng):
    """What onnxruntime takes and what the server takes; T, N."""
    t, n = int(rng.integers(1, 10)), int(rng.integers(1, 5))
    x = rng.uniform(-1, 1, (n, t, stack.input_size) if stack.batch_first else (t, n, stack.input_size))
    theirs = {"input": x.astype(np.float32)}
    ours = {"X": theirs["input"]}
    if stack.lengths:
        theirs["lengths"] = ours["sequence_lens"] = rng.integers(0, t + 1, n).astype(np.int32)
    for kind in "hc":
        layers = stack.state_names(kind == "c")
        if stack.states not in ("sliced", "apart") or not layers:
            continue
        parts = [rng.uniform(-1, 1, (stack.directions, n, stack.hidden_sizes[k])).astype(np.float32) for k in layers]
        if stack.states == "sliced":
            theirs[f"{kind}0"] = ours[f"initial_{kind}"] = np.concatenate(parts)
        for k, part in zip(layers, parts) if stack.states == "apart" else ():
            theirs[f"{kind}0.{k}"] = part
            ours[f"initial_{kind}.{k}" if stack.layers > 1 else f"initial_{kind}"] = part
    return theirs, ours


def _infer(server, name, tensors, outputs=()):
    request = wire.recurrent_pb2.InferRequest(outputs=outputs)
    request.model.name = name
    request.inputs.extend(wire.tensor(key, value) for key, value in tensors.items())
    return wire.results(server.recurrent.Infer(request))


def _torch_output(y, stack):
    if not stack.batch_first:
        y = np.moveaxis(y, 1, 2)
    return y.reshape(*y.shape[:2], -1)


def _expected_states(stack, theirs):
    """onnxruntime's final states under the server's names."""
    names = {}
    for kind in "hc":
        layers = stack.state_names(kind == "c")
        if stack.finals == "none" or not layers:
            continue
        if stack.finals == "joined":
            names[f"Y_{kind}"] = theirs[f"{kind}n"]
        elif stack.layers == 1:
            names[f"Y_{kind}"] = theirs[f"Y_{kind}.0"]
        else:
            names.update({f"Y_{kind}.{k}": theirs[f"Y_{kind}.{k}"] for k in layers})
    return names


def test_every_file_is_served(served):
    server, _ = served
    reply = server.models.List(wire.models_pb2.ListModelsRequest())
    assert not reply.failures
    assert len(reply.models) == len(STACKS)


def test_numbers_of_onnxruntime(served):
    server, root = served
    rng = np.random.default_rng(11)
    worst = 0.0
    for k, stack in enumerate(STACKS):
        session = _session(root / f"stack-{k}" / "1" / "model.onnx")
        for _ in range(2):
            theirs, ours = _feeds(stack, rng)
            expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, theirs)))
            states = _expected_states(stack, expected)
            reply = _infer(server, f"stack-{k}", ours, ["Y", *states])
            assert list(reply) == ["Y", *sorted(states, key=_order)], stack
            for name, value in {"Y": expected["output"], **states}.items():
                got = _torch_output(reply[name], stack) if name == "Y" else reply[name]
                assert got.shape == value.shape, (stack, name)
                excess = float(np.max(np.abs(got - value) / np.maximum(1, np.abs(value)), initial=0))
                worst = max(worst, excess)
                assert excess <= TOLERANCE, (str(stack), name, excess)
    print(f"{len(STACKS)} graphs, worst difference {worst:.3g}")


def _order(name):
    """Whole states before parts, parts by layer, h before c."""
    base, _, layer = name.partition(".")
    return (layer != "", int(layer or 0), base != "Y_h")


def test_signature(served):
    """What a caller finds out of a stack, whole states and parts."""
    server, _ = served
    for k, stack in enumerate(STACKS):
        request = wire.models_pb2.GetModelRequest()
        request.model.name = f"stack-{k}"
        info = server.models.Get(request).model
        d = stack.directions
        inputs = {i.name: list(i.shape) for i in info.inputs}
        assert inputs["X"] == (["N", "T"] if stack.batch_first else ["T", "N"]) + [str(stack.input_size)]
        assert list(inputs)[:2] == ["X", "sequence_lens"]
        outputs = {o.name: list(o.shape) for o in info.outputs}
        h = str(stack.hidden_sizes[-1])
        assert outputs["Y"] == (["N", "T", str(d), h] if stack.batch_first else ["T", str(d), "N", h])
        assert ("initial_h" in inputs) == ("Y_h" in outputs) == _whole_states(stack)
        if stack.layers == 1:
            assert info.operator.op_type == stack.ops[0] and not info.layers
            continue
        assert not info.HasField("operator")
        assert [layer.op_type for layer in info.layers] == list(stack.ops)
        for layer in range(stack.layers):
            own = [str(d), "N", str(stack.hidden_sizes[layer])]
            assert inputs[f"initial_h.{layer}"] == outputs[f"Y_h.{layer}"] == own
            assert (f"initial_c.{layer}" in inputs) == (stack.ops[layer] == "LSTM")
        assert [s.name for s in info.state][0] == "initial_h.0"


def test_default_outputs(served):
    server, _ = served
    for k, stack in enumerate(STACKS[:48]):
        _, ours = _feeds(stack, np.random.default_rng(k))
        assert list(_infer(server, f"stack-{k}", ours)) == ["Y", "Y_h", *(["Y_c"] if stack.ops[0] == "LSTM" else [])]


def test_every_engine_gives_the_same(served):
    server, _ = served
    k = next(k for k, stack in enumerate(STACKS) if stack.layers == 4 and stack.directions == 2)
    _, ours = _feeds(STACKS[k], np.random.default_rng(3))
    replies = {}
    for engine in ("reference", "cpu", "auto"):
        request = wire.recurrent_pb2.InferRequest(engine=engine)
        request.model.name = f"stack-{k}"
        request.inputs.extend(wire.tensor(key, value) for key, value in ours.items())
        reply = server.recurrent.Infer(request)
        assert engine in (reply.engine, "auto")
        replies[engine] = wire.results(reply)
    for name, value in replies["reference"].items():
        for engine in ("cpu", "auto"):
            np.testing.assert_allclose(replies[engine][name], value, rtol=0, atol=TOLERANCE)


def test_whole_and_part_are_refused(served):
    server, _ = served
    k = next(k for k, stack in enumerate(STACKS) if stack.layers == 2)
    _, ours = _feeds(STACKS[k], np.random.default_rng(3))
    half = ours["initial_h"].shape[0] // 2
    for tensors, outputs, text in (({**ours, "initial_h.1": ours["initial_h"][half:]}, [], "is part of initial_h"),
                                   (ours, ["Y_h", "Y_h.0"], "is part of Y_h"),
                                   ({**ours, "initial_h.2": ours["initial_h"][half:]}, [], "initial_h.2")):
        with pytest.raises(grpc.RpcError) as refused:
            _infer(server, f"stack-{k}", tensors, outputs)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert text in refused.value.details()


def test_a_session_starts_from_a_whole_state_or_from_parts(served):
    server, _ = served
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    seen = 0
    for k, stack in enumerate(STACKS):
        if stack.layers == 1 or stack.directions == 2 or stack.states != "sliced":
            continue
        seen += 1
        _, ours = _feeds(stack, np.random.default_rng(k))
        whole = {name: value for name, value in ours.items() if name.startswith("initial_")}
        parts = {f"{name}.{layer}": value[layer:layer + 1] for name, value in whole.items() for layer in range(stack.layers)}
        replies = []
        for state in (whole, parts):
            request = wire.sessions_pb2.OpenRequest()
            request.model.name = f"stack-{k}"
            request.state.tensors.extend(wire.tensor(name, value) for name, value in state.items())
            opened = sessions.Open(request)
            got = sessions.GetState(wire.sessions_pb2.GetStateRequest(session=opened.session))
            replies.append({tensor.name: tensor.raw for tensor in got.state.tensors})
        assert replies[0] == replies[1] == {name: value.tobytes() for name, value in parts.items()}, k
    assert seen > 5
    request.state.tensors[0].name = "initial_h"  # of one layer
    with pytest.raises(grpc.RpcError, match="there is no state tensor"):
        sessions.Open(request)


# --- Graphs that are no model. What computes beside the layers: test_whole_models.py.

def _node(graph, name):
    return next(node for node in graph.node if name in (node.name, *node.output))


def _insert(graph, node):
    """Before the second layer."""
    at = next(k for k, other in enumerate(graph.node) if other.name == "/rnn/LSTM_1")
    graph.node.insert(at, node)


def _two_chains(graph):
    _node(graph, "/rnn/LSTM_1").input[0] = "input"
    return "/rnn/LSTM_1"


def _encoder_and_decoder(graph):
    second = _node(graph, "/rnn/LSTM_1")
    second.input[5] = "Y_h.0"
    return "/rnn/LSTM_1"


def _final_state_as_x(graph):
    _node(graph, "/rnn/LSTM_1").input[0] = "Y_h.0"
    return "final state"


def _turned_between(graph):
    second = _node(graph, "/rnn/LSTM_1")
    _insert(graph, helper.make_node("Transpose", [second.input[0]], ["turned"], perm=[1, 0, 2]))
    second.input[0] = "turned"
    return "[N, T, 5]"


def _computed_shape(graph):
    second = _node(graph, "/rnn/LSTM_1")
    _insert(graph, helper.make_node("Shape", ["input"], ["sizes"]))
    _insert(graph, helper.make_node("Reshape", [second.input[0], "sizes"], ["shaped"], name="/Reshape"))
    second.input[0] = "shaped"
    return "/Reshape"


def _states_in_another_order(graph):
    first, second = _node(graph, "/rnn/LSTM_0"), _node(graph, "/rnn/LSTM_1")
    first.input[5], second.input[5] = second.input[5], first.input[5]
    # Both slices before both layers.
    graph.node.sort(key=lambda node: node.name.startswith("/rnn"))
    return "/rnn/LSTM_0"


def _state_of_one_layer_only(graph):
    _node(graph, "/rnn/LSTM_1").input[5] = ""
    return "/rnn/LSTM_0"


def _lengths_of_one_layer_only(graph):
    graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ["n"]))
    _node(graph, "/rnn/LSTM_0").input[4] = "lengths"
    return "sequence_lens"


def _another_width(graph):
    second = _node(graph, "/rnn/LSTM_1")
    graph.initializer.append(numpy_helper.from_array(np.ones((1, 20, 9), np.float32), "wide"))
    second.input[1] = "wide"
    return "takes 9 columns"


BROKEN = [_two_chains, _encoder_and_decoder, _final_state_as_x,
          _turned_between, _computed_shape, _states_in_another_order, _state_of_one_layer_only,
          _lengths_of_one_layer_only, _another_width]


def test_more_than_a_chain_is_refused_with_the_node(tmp_path):
    texts = {}
    for change in BROKEN:
        content = stack_graphs.model(Stack(states="sliced", finals="joined"))
        texts[change.__name__.strip("_")] = change(content.graph)
        repository_files.write(tmp_path / change.__name__.strip("_") / "1", content)
    deep = Stack(("RNN",) * 65, hidden_sizes=(1,) * 65)
    repository_files.write(tmp_path / "deep" / "1", stack_graphs.model(deep))
    texts["deep"] = "/rnn/RNN_64"
    running = Server(f"--models={tmp_path}")
    reply = running.models.List(wire.models_pb2.ListModelsRequest())
    reasons = {failure.path.split("/")[0]: failure.reason for failure in reply.failures}
    assert running.stop() == 0
    assert sorted(reasons) == sorted(texts), sorted(m.name for m in reply.models)
    for name, text in texts.items():
        assert text in reasons[name], (name, reasons[name])
