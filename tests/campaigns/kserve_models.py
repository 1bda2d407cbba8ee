# SPDX-License-Identifier: Apache-2.0
"""The models of kserve_beside.py. unary128: X [N, T, 128] -> LSTM -> Linear -> Y [N, T, 32], the same file for both
servers. step128: the same numbers step by step; Triton's has the states as inputs and outputs, and this server's is
unary128's file."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONFIG = """backend: "onnxruntime"
max_batch_size: 64
input [ { name: "X" data_type: TYPE_FP32 dims: %s } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: %s } ]
instance_group [ { count: 1 kind: KIND_CPU } ]
"""
STATE = """    { input_name: "%s_IN" output_name: "%s_OUT" data_type: TYPE_FP32 dims: [ 128 ]
      initial_state: { name: "zero" data_type: TYPE_FP32 dims: [ 128 ] zero_data: true } }"""
STEP = """sequence_batching {
  max_sequence_idle_microseconds: 60000000
  state [
%s
  ]
  oldest { max_candidate_sequences: 256 }
}
""" % ",\n".join(STATE % (name, name) for name in "HC")


def _weights():
    rng = np.random.default_rng(128)
    shapes = {"W": (1, 512, 128), "R": (1, 512, 128), "B": (1, 1024), "A": (128, 32)}
    weights = {name: rng.uniform(-0.09, 0.09, shape).astype(np.float32) for name, shape in shapes.items()}
    axes = {"first": [0], "second": [1]}
    return [numpy_helper.from_array(v, k) for k, v in weights.items()] + [
        numpy_helper.from_array(np.array(v, np.int64), k) for k, v in axes.items()]


def _file(nodes, inputs, outputs):
    def info(name, axes):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, axes)
    graph = helper.make_graph(nodes, "lstm", [info(*i) for i in inputs], [info(*o) for o in outputs], _weights())
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def unary():
    node = helper.make_node
    return _file([node("Transpose", ["X"], ["x"], perm=[1, 0, 2]),
                  node("LSTM", ["x", "W", "R", "B"], ["y4"], hidden_size=128),
                  node("Squeeze", ["y4", "second"], ["y3"]),
                  node("Transpose", ["y3"], ["y"], perm=[1, 0, 2]),
                  node("MatMul", ["y", "A"], ["Y"])],
                 [("X", ["N", "T", 128])], [("Y", ["N", "T", 32])])


def _step():
    node = helper.make_node
    return _file([*(node("Unsqueeze", [name, "first"], [name.lower()]) for name in ("X", "H_IN", "C_IN")),
                  node("LSTM", ["x", "W", "R", "B", "", "h_in", "c_in"], ["y4", "h", "c"], hidden_size=128),
                  node("Squeeze", ["h", "first"], ["H_OUT"]),
                  node("Squeeze", ["c", "first"], ["C_OUT"]),
                  node("MatMul", ["H_OUT", "A"], ["Y"])],
                 [(name, ["N", 128]) for name in ("X", "H_IN", "C_IN")],
                 [("Y", ["N", 32]), ("H_OUT", ["N", 128]), ("C_OUT", ["N", 128])])


def write(folder):
    """Repositories `folder`/triton and `folder`/ours."""
    files = {"triton/unary128": (unary(), CONFIG % ("[-1, 128]", "[-1, 32]") + "dynamic_batching { }\n"),
             "triton/step128": (_step(), CONFIG % ("[128]", "[32]") + STEP),
             "ours/unary128": (unary(), None), "ours/step128": (unary(), None)}
    for place, (model, config) in files.items():
        path = folder / place / "1"
        path.mkdir(parents=True, exist_ok=True)
        (path / "model.onnx").write_bytes(model)
        if config:
            (path.parent / "config.pbtxt").write_text(config)
