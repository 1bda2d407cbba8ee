# SPDX-License-Identifier: Apache-2.0
"""The good requests that malformed_requests.py starts from, and the changes that make them bad.

A change takes the request and edits it in place, or returns the bytes to send instead.
"""

from __future__ import annotations

import functools

import numpy as np

import random_operators
import wire
from operators import WEIGHTS, Case

T, N, I, H = 3, 2, 3, 4


def _case(op, direction="forward", **attributes) -> Case:
    rng = np.random.default_rng(11)
    tensors = random_operators.tensors(rng, op, T, N, I, H, 2 if direction == "bidirectional" else 1, bias=True,
                                       peephole=True, lengths=True, initial_h=True, initial_c=True)
    return Case(op, tensors, {"hidden_size": H, "direction": direction, **attributes}, version=14)


def _openvino(kind) -> Case:
    rng = np.random.default_rng(12)
    case = _case(kind)
    case.op += "Sequence"
    random_operators._to_openvino(rng, case, kind, T, N, 1, H)
    case.version = 5
    case.attributes = {"hidden_size": H, "direction": "forward"}
    blocks = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    case.tensors["B"] = np.zeros((1, blocks * H), np.float32)
    case.tensors["sequence_lengths"] = np.array([3, 2], np.int64)
    return case


CASES = {
    "LSTM": _case("LSTM"), "GRU": _case("GRU"), "RNN": _case("RNN"), "biLSTM": _case("LSTM", "bidirectional"),
    "LSTMSequence": _openvino("LSTM"), "GRUSequence": _openvino("GRU"), "RNNSequence": _openvino("RNN"),
}


@functools.cache
def infer_bytes(base: str) -> bytes:
    return wire.request(CASES[base]).SerializeToString()


def base_request(base: str):
    """A good request, to be changed: Infer of an operator, or of the model "lstm", which the test has loaded, or a call
    of Models."""
    if base in CASES:
        return wire.recurrent_pb2.InferRequest.FromString(infer_bytes(base))
    if base == "model":
        request = wire.recurrent_pb2.InferRequest.FromString(infer_bytes("LSTM"))
        request.model.name = "lstm"
        for k in reversed(range(len(request.inputs))):
            if request.inputs[k].name in WEIGHTS:
                del request.inputs[k]
        return request
    if base == "Load":
        request = wire.models_pb2.LoadRequest(name="malformed")
        request.inline.operator.CopyFrom(wire.operator(CASES["LSTM"]))
        request.inline.weights.extend(wire.tensor(k, CASES["LSTM"].tensors[k]) for k in WEIGHTS)
        return request
    if base == "Unload":
        return wire.models_pb2.UnloadRequest(model=wire.tensor_pb2.ModelRef(name="lstm"))
    if base == "Get":
        return wire.models_pb2.GetModelRequest(model=wire.tensor_pb2.ModelRef(name="lstm"))
    raise ValueError(base)


METHODS = {"Load": "/rnnserve.v1.Models/Load", "Unload": "/rnnserve.v1.Models/Unload", "Get": "/rnnserve.v1.Models/Get"}


def method(base: str) -> str:
    return METHODS.get(base, "/rnnserve.v1.Recurrent/Infer")


def _tensor(request, name):
    tensors = request.inline.weights if hasattr(request, "inline") else request.inputs
    return next(t for t in tensors if t.name == name)


def set_(**fields):
    """Scalar fields of the request."""
    def change(request):
        for name, value in fields.items():
            setattr(request, name, value)
    return change


def op(**fields):
    """Scalar fields of the operator; None clears."""
    def change(request):
        operator = request.inline.operator if hasattr(request, "inline") else request.operator
        for name, value in fields.items():
            if value is None:
                operator.ClearField(name)
            else:
                setattr(operator, name, value)
    return change


def attr(**values):
    """Attributes; None removes, ... leaves an attribute without a value."""
    def change(request):
        operator = request.inline.operator if hasattr(request, "inline") else request.operator
        for name, value in values.items():
            if value is None:
                del operator.attributes[name]
            elif value is ...:
                operator.attributes[name].Clear()
            else:
                operator.attributes[name].CopyFrom(wire.attribute(value))
    return change


def both(*changes):
    def change(request):
        for one in changes:
            one(request)
    return change


def tensor(which, /, **fields):
    """Scalar and repeated fields of a tensor."""
    def change(request):
        message = _tensor(request, which)
        for field, value in fields.items():
            message.ClearField(field)
            if isinstance(value, (list, tuple)):
                getattr(message, field).extend(value)
            else:
                setattr(message, field, value)
    return change


def value(name, array):
    """Another value, sound in itself; also adds a tensor that is not there."""
    def change(request):
        tensors = request.inline.weights if hasattr(request, "inline") else request.inputs
        new = wire.tensor(name, np.asarray(array))
        for old in tensors:
            if old.name == name:
                old.CopyFrom(new)
                return
        tensors.append(new)
    return change


def zeros(name, *shape, dtype=np.float32):
    return value(name, np.zeros(shape, dtype))


def drop(name):
    def change(request):
        tensors = request.inline.weights if hasattr(request, "inline") else request.inputs
        tensors.remove(_tensor(request, name))
    return change


def again(name):
    def change(request):
        tensors = request.inline.weights if hasattr(request, "inline") else request.inputs
        tensors.add().CopyFrom(_tensor(request, name))
    return change


def raw(edit):
    """Other bytes than the tensor's own."""
    def of(name):
        def change(request):
            message = _tensor(request, name)
            message.raw = edit(message.raw)
        return change
    return of


def lengths(*values, name="sequence_lens", dtype=np.int32):
    return value(name, np.array(values, dtype))


def outputs(*names):
    def change(request):
        request.outputs.extend(names)
    return change


def sends(data: bytes):
    return lambda request: data


def cut(request):
    return request.SerializeToString()[:-1]


def shaped(edit):
    """The tensor's shape edited, with as many zeros as it says."""
    def of(name):
        def change(request):
            message = _tensor(request, name)
            shape = edit(list(message.shape))
            del message.shape[:]
            message.shape.extend(shape)
            message.raw = b"\0" * (int(np.prod(shape)) * 4)
        return change
    return of
