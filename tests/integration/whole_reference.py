# SPDX-License-Identifier: Apache-2.0
"""A whole model in double: onnx's reference evaluator, with the layers by formulas.py. The judge where onnxruntime has no
float64 LSTM, GRU and RNN, and where its float16 is rounded elsewhere."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import formulas
import operators


class _Layer(OpRun):
    op_domain = ""

    def _run(self, *inputs, **attributes):
        op = type(self).__name__
        tensors = {name: value for name, value in zip(operators.INPUTS[op], inputs) if value is not None}
        given = {a.name: helper.get_attribute_value(a) for a in self.onnx_node.attribute}
        given = {name: value.decode() if isinstance(value, bytes) else value for name, value in given.items()}
        results = formulas.run(operators.Case(op, tensors, given, opset=14))
        return tuple(results[name] for name in operators.OUTPUTS[op])[:len(self.onnx_node.output)]


class LSTM(_Layer):
    pass


class GRU(_Layer):
    pass


class RNN(_Layer):
    pass


class Erf(OpRun):
    """The evaluator's own rounds to float32 (onnx 1.23.2)."""

    op_domain = ""

    def _run(self, x):
        return (np.vectorize(math.erf, otypes=[x.dtype])(x),)


class BatchNormalization(OpRun):
    """The evaluator's own mixes the statistics of the batch in, for opsets below 14 (onnx 1.23.2)."""

    op_domain = ""

    def _run(self, x, scale, bias, mean, variance, **attributes):
        epsilon = next((a.f for a in self.onnx_node.attribute if a.name == "epsilon"), 1e-5)
        wide = [np.reshape(value, (-1, *(1,) * (x.ndim - 2))) for value in (scale, bias, mean, variance)]
        return ((x - wide[2]) / np.sqrt(wide[3] + epsilon) * wide[0] + wide[1],)


def _in_double(model: onnx.ModelProto, narrow: int) -> onnx.ModelProto:
    """The same graph with its `narrow` numbers as doubles; their values are kept."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in wide.graph.initializer:
        if tensor.data_type == narrow:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for value in (*wide.graph.input, *wide.graph.output):
        if value.type.tensor_type.elem_type == narrow:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in wide.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == narrow:
                attribute.i = TensorProto.DOUBLE
    return wide


class Reference:
    def __init__(self, model: onnx.ModelProto, data_type: int):
        """`data_type`: of the model's numbers."""
        self._evaluator = ReferenceEvaluator(_in_double(model, data_type), new_ops=[LSTM, GRU, RNN, Erf, BatchNormalization])
        self._names = [o.name for o in model.graph.output]

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        wide = {name: value.astype(np.float64) if value.dtype.kind == "f" else value for name, value in feeds.items()}
        return dict(zip(self._names, self._evaluator.run(None, wide)))
