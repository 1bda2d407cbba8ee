# SPDX-License-Identifier: Apache-2.0
"""Tensors of every type by an unmodified tritonclient, and a stream that is cut at every byte."""

from __future__ import annotations

import socket
import struct

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import tritonclient.grpc as triton
from onnx import TensorProto, helper, numpy_helper
from tritonclient.grpc import service_pb2

import formulas
import repository_files
from half_messages import DATA, HEADERS, PREFACE, SETTINGS, call_headers, frame
from operators import WEIGHTS

TYPES = {"FP64": (np.float64, 1e-12), "FP32": (np.float32, 1e-5), "FP16": (np.float16, 2e-3),
         "BF16": (ml_dtypes.bfloat16, 2e-2)}


@pytest.fixture(scope="module")
def client(server):
    with triton.InferenceServerClient(server.address) as running:
        yield running


def _input(name, value, datatype):
    made = triton.InferInput(name, list(value.shape), datatype)
    try:
        made.set_data_from_numpy(value)
    except triton.InferenceServerException:
        assert datatype == "BF16"  # of tritonclient 2.51: float32, of which it sends one half
        made.set_data_from_numpy(value.astype(np.float32))
    return made


@pytest.mark.parametrize("datatype", TYPES)
def test_floats_of_every_width(client, datatype):
    """Types come and go as the file has them."""
    dtype, tolerance = TYPES[datatype]
    case = repository_files.case("GRU", 22)
    case.tensors = {n: v if n == "sequence_lens" else v.astype(dtype) for n, v in case.tensors.items()}
    name = f"gru-{datatype}"
    client.load_model(name, files={"file:1/model.onnx": repository_files.model(case).SerializeToString()})
    assert client.get_model_metadata(name).inputs[0].datatype == datatype
    assert client.get_model_config(name).config.input[0].data_type == service_pb2.model__config__pb2.DataType.Value(
        f"TYPE_{datatype}")
    data = {n: v for n, v in case.tensors.items() if n not in WEIGHTS}
    inputs = [_input(n, v, "INT32" if n == "sequence_lens" else datatype) for n, v in data.items()]
    result = client.infer(name, inputs)
    assert {output.datatype for output in result.get_response().outputs} == {datatype}
    for output, expected in formulas.run(case).items():
        np.testing.assert_allclose(result.as_numpy(output).astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("datatype", ["INT32", "INT64"])
def test_tokens(client, datatype):
    """A whole model, whose input is integers, in one call and step by step."""
    rng = np.random.default_rng(22)
    dtype = np.int32 if datatype == "INT32" else np.int64
    weights = {"E": (9, 4), "W": (1, 20, 4), "R": (1, 20, 5), "A": (5, 3)}
    stored = [numpy_helper.from_array(rng.uniform(-0.5, 0.5, s).astype(np.float32), n) for n, s in weights.items()]
    nodes = [helper.make_node("Gather", ["E", "tokens"], ["x"]),
             helper.make_node("LSTM", ["x", "W", "R"], ["y4"], hidden_size=5),
             helper.make_node("Squeeze", ["y4", "axis"], ["y"]),
             helper.make_node("MatMul", ["y", "A"], ["scores"])]
    stored.append(numpy_helper.from_array(np.array([1], np.int64), "axis"))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("tokens", kind, ["t", "n"])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["t", "n", 3])], stored)
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(file)
    name = f"tokens-{datatype}"
    client.load_model(name, files={"file:1/model.onnx": file.SerializeToString()})
    metadata = client.get_model_metadata(name)
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [("tokens", datatype, [-1, -1])]
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.outputs] == [("scores", "FP32", [-1, -1, 3])]
    tokens = rng.integers(0, 9, (6, 2)).astype(dtype)
    expected = onnxruntime.InferenceSession(file.SerializeToString()).run(None, {"tokens": tokens})[0]
    whole = client.infer(name, [_input("tokens", tokens, datatype)]).as_numpy("scores")
    np.testing.assert_allclose(whole, expected, rtol=1e-5, atol=1e-6)
    steps = [client.infer(name, [_input("tokens", tokens[k:k + 1], datatype)], sequence_id=5, sequence_start=k == 0,
                          sequence_end=k == 5).as_numpy("scores") for k in range(6)]
    np.testing.assert_allclose(np.concatenate(steps), expected, rtol=1e-5, atol=1e-6)


def _conversation(name, x):
    """What a client sends on one connection: a stream of three requests of a sequence."""
    out = PREFACE + frame(SETTINGS, 0, 0, b"")
    out += frame(HEADERS, 4, 1, call_headers("/inference.GRPCInferenceService/ModelStreamInfer"))
    for k in range(3):
        request = service_pb2.ModelInferRequest(model_name=name, id=str(k), raw_input_contents=[x[k:k + 1].tobytes()])
        request.inputs.add(name="X", datatype="FP32", shape=x[k:k + 1].shape)
        request.parameters["sequence_id"].int64_param = 77
        request.parameters["sequence_start"].bool_param = k == 0
        request.parameters["sequence_end"].bool_param = k == 2
        body = request.SerializeToString()
        out += frame(DATA, k == 2, 1, struct.pack(">BI", 0, len(body)) + body)
    return out


def test_a_stream_cut_at_every_byte_disturbs_no_other_sequence(client, server):
    case = repository_files.case("LSTM", 14)
    name = "cut"
    client.load_model(name, files={"file:1/model.onnx": repository_files.model(case).SerializeToString()})
    x = np.random.default_rng(4).standard_normal((3, 1, case.tensors["X"].shape[2]), dtype=np.float32)

    def step(k, sequence_id):
        return client.infer(name, [_input("X", x[k:k + 1], "FP32")], sequence_id=sequence_id, sequence_start=k == 0,
                            sequence_end=k == 2).as_numpy("Y")

    undisturbed = [step(k, 1) for k in range(3)]
    sent = _conversation(name, x)
    beside = [step(0, 2)]
    for cut in range(len(sent) + 1):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(sent[:cut])
            if cut % 2:  # a reset; else a close
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if cut == len(sent) // 2:
            beside.append(step(1, 2))
    beside.append(step(2, 2))
    np.testing.assert_array_equal(np.concatenate(beside), np.concatenate(undisturbed))
    np.testing.assert_array_equal(np.concatenate([step(k, 77) for k in range(3)]), np.concatenate(undisturbed))
