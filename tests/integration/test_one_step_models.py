# SPDX-License-Identifier: Apache-2.0
"""Decoders that take one token of each row and their states, as PyTorch's tutorials and Keras write them, beside onnxruntime:
request by request with the states in and out, and in a session that keeps them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import exported_files
import wire

TOLERANCE = 1e-5
WORDS, WIDTH, HIDDEN, ROWS = 11, 4, 3, 2


def _decoder(token_axes, how):
    """`token_axes`: of the graph input; `how`: "view" (of [1, N, W]), "unsqueeze", "as is" ([1, N] tokens), or "matrices" for
    states [N, H]."""
    rng = np.random.default_rng(2)
    stored = {name: rng.uniform(-0.5, 0.5, shape).astype(np.float32) for name, shape in {
        "table": (WORDS, WIDTH), "W": (1, 4 * HIDDEN, WIDTH), "R": (1, 4 * HIDDEN, HIDDEN), "B": (1, 8 * HIDDEN),
        "W2": (1, 4 * HIDDEN, HIDDEN), "R2": (1, 4 * HIDDEN, HIDDEN), "B2": (1, 8 * HIDDEN), "head": (HIDDEN, WORDS)}.items()}
    stored |= {"zero": np.array([0]), "first": np.array(0), "one": np.array([1]), "ones": np.array([1, 1]),
               "axes": np.array([1, -1, WIDTH])}
    nodes, states = [], ["N", HIDDEN] if how == "matrices" else [2, "N", HIDDEN]
    node = lambda op_type, inputs, outputs, **attributes: nodes.append(  # noqa: E731
        helper.make_node(op_type, inputs, outputs, name=outputs[0], **attributes))
    token = "token"
    if how in ("unsqueeze", "matrices"):
        node("Unsqueeze", ["token", "zero"], ["row"])
        token = "row"
    node("Gather", ["table", token], ["embedded"])
    x = "embedded"
    if how == "view":
        node("Reshape", ["embedded", "axes"], ["viewed"])
        x = "viewed"
    if how == "matrices":
        for name in "hc":
            node("Unsqueeze", [name, "zero"], [name + "1"])
    else:
        for name in "hc":
            node("Split", [name, "ones"], [name + "1", name + "2"], axis=0)
    node("LSTM", [x, "W", "R", "B", "", "h1", "c1"], ["y", "yh", "yc"], hidden_size=HIDDEN)
    node("Squeeze", ["y", "one"], ["steps"])
    if how == "matrices":
        node("Squeeze", ["yh", "zero"], ["hn"])
        node("Squeeze", ["yc", "zero"], ["cn"])
    else:
        node("LSTM", ["steps", "W2", "R2", "B2", "", "h2", "c2"], ["y2", "yh2", "yc2"], hidden_size=HIDDEN)
        node("Squeeze", ["y2", "one"], ["steps2"])
        node("Concat", ["yh", "yh2"], ["hn"], axis=0)
        node("Concat", ["yc", "yc2"], ["cn"], axis=0)
    last = "steps" if how == "matrices" else "steps2"
    if how == "view":
        node("Gather", [last, "first"], ["taken"], axis=0)
    else:
        node("Squeeze", [last, "zero"], ["taken"])
    node("MatMul", ["taken", "head"], ["logits"])
    node("LogSoftmax", ["logits"], ["scores"], axis=1)
    graph = helper.make_graph(
        nodes, "decoder", [helper.make_tensor_value_info("token", TensorProto.INT64, token_axes),
                           *(helper.make_tensor_value_info(name, TensorProto.FLOAT, states) for name in "hc")],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", WORDS]),
         *(helper.make_tensor_value_info(name, TensorProto.FLOAT, states) for name in ("hn", "cn"))],
        [numpy_helper.from_array(value, name) for name, value in stored.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


DECODERS = {"view": _decoder(["N"], "view"), "unsqueeze": _decoder(["N"], "unsqueeze"),
            "one-token": _decoder([1, "N"], "as is"), "matrices": _decoder(["N"], "matrices")}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    yield from exported_files.served(tmp_path_factory.mktemp("decoders"), DECODERS)


@pytest.mark.parametrize("name", DECODERS)
def test_token_by_token(served, name):
    server, root = served
    session = exported_files.session(str(root / name / "1" / "model.onnx"))
    rng = np.random.default_rng(3)
    shape = (ROWS, HIDDEN) if name == "matrices" else (2, ROWS, HIDDEN)
    states = {key: rng.uniform(-1, 1, shape).astype(np.float32) for key in "hc"}
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    opened = wire.sessions_pb2.OpenRequest(rows=ROWS)
    opened.model.name = name
    opened.state.tensors.extend(wire.tensor(key, value) for key, value in states.items())
    key = sessions.Open(opened).session
    for number in range(1, 6):
        token = rng.integers(0, WORDS, (1, ROWS) if name == "one-token" else ROWS)
        expected = dict(zip(("scores", "hn", "cn"), session.run(None, {"token": token, **states})))
        got = exported_files.infer(server, name, {"token": token, **states})
        assert exported_files.excess(got, expected) <= TOLERANCE
        operation = wire.sessions_pb2.Operation(session=key, number=number)
        operation.chunk.inputs.append(wire.tensor("token", token))
        reply = sessions.Apply(wire.sessions_pb2.ApplyRequest(operation=operation)).reply
        assert not reply.status.code, reply.status.message
        kept = wire.results(reply)
        assert exported_files.excess(kept, {key: expected[key] for key in kept}) <= TOLERANCE and "scores" in kept
        states = {"h": expected["hn"], "c": expected["cn"]}


def test_a_whole_request_may_leave_the_session(served):
    """The states of a session come by the file's names and in its shapes."""
    server, _ = served
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    opened = wire.sessions_pb2.OpenRequest(rows=ROWS)
    opened.model.name = "matrices"
    key = sessions.Open(opened).session
    state = sessions.GetState(wire.sessions_pb2.GetStateRequest(session=key)).state
    assert {tensor.name: list(tensor.shape) for tensor in state.tensors} == {"h": [ROWS, HIDDEN], "c": [ROWS, HIDDEN]}
