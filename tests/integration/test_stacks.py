# SPDX-License-Identifier: Apache-2.0
"""Files of layers beside nodes that move axes: the server reads the same file as onnxruntime and gives the same numbers,
by the file's own names and shapes and by the operators' names."""

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


def _excess(got, value, *where):
    assert got.shape == value.shape, where
    excess = float(np.max(np.abs(got - value) / np.maximum(1, np.abs(value)), initial=0))
    assert excess <= TOLERANCE, (*map(str, where), excess)
    return excess


def test_numbers_of_onnxruntime(served):
    """By the file's own names and shapes, and by the operators'."""
    server, root = served
    rng = np.random.default_rng(11)
    worst = 0.0
    for k, stack in enumerate(STACKS):
        session = _session(root / f"stack-{k}" / "1" / "model.onnx")
        theirs, ours = _feeds(stack, rng)
        expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, theirs)))
        reply = _infer(server, f"stack-{k}", theirs)
        assert list(reply) == list(expected), stack
        worst = max(worst, *(_excess(reply[name], value, stack, name) for name, value in expected.items()))
        states = _expected_states(stack, expected)
        reply = _infer(server, f"stack-{k}", ours, ["Y", *states])
        assert sorted(reply) == sorted(["Y", *states]), stack
        assert not _excess(_torch_output(reply.pop("Y"), stack), expected["output"], stack, "Y") > TOLERANCE
        worst = max([worst, *(_excess(value, states[name], stack, name) for name, value in reply.items())])
    print(f"{len(STACKS)} graphs, worst difference {worst:.3g}")


def test_signature(served):
    """What a caller finds out is what the file says."""
    server, root = served
    for k, stack in enumerate(STACKS):
        request = wire.models_pb2.GetModelRequest()
        request.model.name = f"stack-{k}"
        info = server.models.Get(request).model
        graph = onnx.load(root / f"stack-{k}" / "1" / "model.onnx").graph
        added = [] if stack.lengths else ["sequence_lens"]
        assert [i.name for i in info.inputs] == [*(value.name for value in graph.input), *added], stack
        assert [o.name for o in info.outputs] == [value.name for value in graph.output], stack
        assert [i.name for i in info.inputs if not i.optional] == ["input"]
        if stack.layers == 1:
            assert info.operator.op_type == stack.ops[0] and not info.layers
        else:
            assert not info.HasField("operator")
            assert [layer.op_type for layer in info.layers] == list(stack.ops)
        d, x = stack.directions, ["N", "T"] if stack.batch_first else ["T", "N"]
        shapes = {tensor.name: list(tensor.shape) for tensor in (*info.inputs, *info.outputs)}
        assert shapes["input"] == [*x, str(stack.input_size)]
        assert shapes["output"] == [*x, str(d * stack.hidden_sizes[-1])]
        if stack.states == "sliced":
            assert shapes["h0"] == [str(d * stack.layers), "N", str(stack.hidden_sizes[0])]
            assert [s.name for s in info.state] == [name for name in ("h0", "c0") if name in shapes]
        elif stack.states != "apart":
            assert info.state[0].name == ("initial_h" if stack.layers == 1 else "initial_h.0")
        for layer in range(stack.layers):
            own = [str(d), "N", str(stack.hidden_sizes[layer])]
            assert shapes.get(f"h0.{layer}", own) == shapes.get(f"Y_h.{layer}", own) == own
            assert (f"c0.{layer}" in shapes) == (stack.states == "apart" and stack.ops[layer] == "LSTM")


def test_default_outputs(served):
    """In the names that X has: of the operators, all final states."""
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


def test_a_tensor_comes_by_one_of_its_names(served):
    server, _ = served
    k = next(k for k, stack in enumerate(STACKS) if stack.layers == 2 and stack.lengths)
    theirs, ours = _feeds(STACKS[k], np.random.default_rng(3))
    half = ours["initial_h"][:ours["initial_h"].shape[0] // 2]
    for tensors, outputs, text in (({**theirs, "X": ours["X"]}, [], "X is another name of input"),
                                   ({**theirs, "sequence_lens": ours["sequence_lens"]}, [], "another name of lengths"),
                                   ({**theirs, "initial_h": ours["initial_h"]}, [], "another name of h0"),
                                   ({**theirs, "initial_h.1": half}, [], "another name of h0"),
                                   (theirs, ["output", "Y"], "is another name of output"),
                                   (theirs, ["hn", "Y_h.1"], "is part of hn"),
                                   ({**theirs, "input": theirs["input"][:, :, :2]}, [], "as its file has it"),
                                   ({**theirs, "h0": half}, [], "as its file has it"),
                                   ({**theirs, "lengths": theirs["lengths"].astype(np.int64)}, [], "file has int32"),
                                   ({"h0": theirs["h0"]}, [], "input input is missing")):
        with pytest.raises(grpc.RpcError) as refused:
            _infer(server, f"stack-{k}", tensors, outputs)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert text in refused.value.details()
    # Some by one, some by the other.
    mixed = {"input": theirs["input"], "sequence_lens": ours["sequence_lens"], "initial_h": ours["initial_h"]}
    if "c0" in theirs:
        mixed["c0"] = theirs["c0"]
    expected = _infer(server, f"stack-{k}", theirs)
    reply = _infer(server, f"stack-{k}", mixed, ["Y", "hn"])
    np.testing.assert_array_equal(reply["hn"], expected["hn"])
    np.testing.assert_array_equal(_torch_output(reply["Y"], STACKS[k]), expected["output"])


def _state(tensors):
    return wire.sessions_pb2.StateTensors(tensors=[wire.tensor(name, value) for name, value in tensors.items()])


def test_a_session_starts_from_a_whole_state_or_from_parts(served):
    """It tells its state by the names that Open used."""
    server, _ = served
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    seen = 0
    for k, stack in enumerate(STACKS):
        if stack.directions == 2 or stack.states != "sliced":
            continue
        seen += 1
        theirs, ours = _feeds(stack, np.random.default_rng(k))
        of_file = {name: value for name, value in theirs.items() if name[1:] == "0"}
        whole = {name: value for name, value in ours.items() if name.startswith("initial_")}
        parts = {f"{name}.{layer}": value[layer:layer + 1] for name, value in whole.items() for layer in range(stack.layers)}
        if stack.layers == 1:
            parts = whole
        for state, told in ((whole, parts), (parts, parts), (of_file, of_file)):
            request = wire.sessions_pb2.OpenRequest(state=_state(state))
            request.model.name = f"stack-{k}"
            opened = sessions.Open(request)
            assert opened.data_input == ("input" if state is of_file else "X")
            got = sessions.GetState(wire.sessions_pb2.GetStateRequest(session=opened.session))
            assert {tensor.name: tensor.raw for tensor in got.state.tensors} == {
                name: value.tobytes() for name, value in told.items()}, k
            assert got.rows == next(iter(whole.values())).shape[1]
            assert [list(tensor.shape) for tensor in got.state.tensors] == [list(value.shape) for value in told.values()]
    assert seen > 5
    for wrong, text in (({"initial": whole["initial_h"]}, "there is no state tensor"),
                        ({name: value[:, :, :-1] for name, value in of_file.items()}, "expected \\["),
                        (dict([next(iter(of_file.items()))] * 1), "c0 is missing" if "c0" in of_file else None)):
        if text is None:
            continue
        request.state.CopyFrom(_state(wrong))
        with pytest.raises(grpc.RpcError, match=text):
            sessions.Open(request)


def test_streams_in_cuts_by_the_files_names(served):
    """A session of each forward file, cut at random, is onnxruntime's whole run: outputs, and the state at the end."""
    server, root = served
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    rng = np.random.default_rng(12)
    seen, worst = 0, 0.0
    for k, stack in enumerate(STACKS):
        if stack.directions == 2:
            continue
        seen += 1
        theirs, _ = _feeds(stack, rng)
        theirs.pop("lengths", None)
        x, axis = theirs["input"], 1 if stack.batch_first else 0
        t, n = x.shape[axis], x.shape[1 - axis]
        session = _session(root / f"stack-{k}" / "1" / "model.onnx")
        feeds = {**theirs, "lengths": np.full(n, t, np.int32)} if stack.lengths else theirs
        expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
        request = wire.sessions_pb2.OpenRequest(rows=n)
        request.model.name = f"stack-{k}"
        state = {name: value for name, value in theirs.items() if name != "input"}
        if state:
            request.state.CopyFrom(_state(state))
        key = sessions.Open(request).session
        cuts = sorted(rng.integers(0, t + 1, 2))
        pieces = []
        for number, piece in enumerate(np.split(x, cuts, axis), 1):
            operation = wire.sessions_pb2.Operation(session=key, number=number)
            operation.chunk.inputs.append(wire.tensor("input", piece))
            reply = sessions.Apply(wire.sessions_pb2.ApplyRequest(operation=operation)).reply
            assert not reply.status.code, (stack, reply.status.message)
            pieces.append(wire.results(reply))
        assert list(pieces[0]) == list(expected)
        got = np.concatenate([piece["output"] for piece in pieces], axis)
        worst = max(worst, _excess(got, expected["output"], stack))
        for name in expected:
            if name != "output":
                worst = max(worst, _excess(pieces[-1][name], expected[name], stack, name))
        told = sessions.GetState(wire.sessions_pb2.GetStateRequest(session=key)).state.tensors
        assert [tensor.name for tensor in told][:len(state)] == list(state), stack
        for tensor in told:  # h0 goes on where hn ended
            last = {"h0": "hn", "c0": "cn"}.get(tensor.name)
            if last in expected:
                worst = max(worst, _excess(wire.array(tensor), expected[last], stack, last))
    assert seen > 50
    print(f"{seen} sessions, worst difference {worst:.3g}")


# --- A file's own name that is an operator's name of another tensor.

def test_a_name_that_the_file_uses_is_the_files(tmp_path):
    content = stack_graphs.model(Stack(("LSTM", "LSTM"), states="sliced", finals="joined"))
    new = {"input": "initial_h", "h0": "X", "c0": "Y", "output": "Y_c", "cn": "Y"}
    for node in content.graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [{"output": "Y_c", "cn": "last_c"}.get(name, name) for name in node.output]
    for value in content.graph.input:
        value.name = new[value.name]
    for value in content.graph.output:
        value.name = {"output": "Y_c", "cn": "last_c"}.get(value.name, value.name)
    repository_files.write(tmp_path / "swapped" / "1", content)
    server = Server(f"--models={tmp_path}")
    theirs, _ = _feeds(Stack(("LSTM", "LSTM"), states="sliced"), np.random.default_rng(4))
    feeds = {new[name]: value for name, value in theirs.items()}
    session = _session(tmp_path / "swapped" / "1" / "model.onnx")
    expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    reply = _infer(server, "swapped", feeds)
    assert list(reply) == list(expected) == ["Y_c", "hn", "last_c"]
    for name, value in expected.items():
        _excess(reply[name], value, name)
    # The operators' other names go on meaning theirs.
    reply = _infer(server, "swapped", feeds, ["Y", "Y_h"])
    _excess(reply["Y_h"], expected["hn"])
    _excess(reply["Y"][:, 0], expected["Y_c"])
    with pytest.raises(grpc.RpcError, match="there is no input"):
        _infer(server, "swapped", {"X.0": feeds["X"], **feeds})
    assert server.stop() == 0


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
