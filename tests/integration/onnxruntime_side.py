# SPDX-License-Identifier: Apache-2.0
"""Runs a Case in onnxruntime, as a model of one node."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from operators import INPUTS, OUTPUTS, WEIGHTS, Case


def model(case: Case, weights_as_initializers=False):
    """An ONNX model of one node; `case.version` is a valid opset too."""
    inputs = [name if name in case.tensors else "" for name in INPUTS[case.op]]
    while inputs[-1] == "":
        inputs.pop()
    outputs = list(OUTPUTS[case.op])
    node = helper.make_node(case.op, inputs, outputs, **case.attributes)
    stored = [n for n in case.tensors if n in WEIGHTS] if weights_as_initializers else []
    graph = helper.make_graph(
        [node], "one_node",
        [helper.make_tensor_value_info(n, TensorProto.INT32 if n == "sequence_lens" else TensorProto.FLOAT,
                                       case.tensors[n].shape) for n in case.tensors if n not in stored],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(case.tensors[n], n) for n in stored])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset or case.version)], ir_version=8)


class Session:
    def __init__(self, case: Case):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._outputs = OUTPUTS[case.op]
        self._session = onnxruntime.InferenceSession(model(case).SerializeToString(), options,
                                                     providers=["CPUExecutionProvider"])

    def run(self, case: Case) -> dict[str, np.ndarray]:
        return dict(zip(self._outputs, self._session.run(None, case.tensors)))


def run(case: Case) -> dict[str, np.ndarray]:
    return Session(case).run(case)
