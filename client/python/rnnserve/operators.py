# SPDX-License-Identifier: Apache-2.0
"""Operators: what to run, with or without its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import ml_dtypes
import numpy as np
import numpy.typing as npt

from rnnserve import tensors
from rnnserve.v1 import tensor_pb2

AttributeValue = bool | int | float | str | Sequence[float] | Sequence[str]


class Options(TypedDict, total=False):
    """Choices outside the operator; None as absent."""

    clip_cell_input: bool | None
    empty_row_state: Literal["zeros", "initial"] | None
    deterministic: bool | None
    allow_reduced_precision: bool | None
    weight_type: Literal["as_given", "float16", "bfloat16", "int8"] | None


_OPTIONS = tuple(Options.__annotations__)
# Of the options that are named, by name.
_NAMED: dict[str, dict[str, Any]] = {
    "empty_row_state": {"zeros": tensor_pb2.ZEROS, "initial": tensor_pb2.INITIAL},
    "weight_type": {"as_given": tensor_pb2.Options.AS_GIVEN, "float16": tensor_pb2.Options.FLOAT16,
                    "bfloat16": tensor_pb2.Options.BFLOAT16, "int8": tensor_pb2.Options.INT8}}


class Operator:
    """A recurrent operator as its specification names it, bound to weights or not.

    op_type     "LSTM", "GRU", "RNN" (ONNX), "LSTMSequence", "GRUSequence", "RNNSequence" (domain "openvino")
    version     the operator's own since-version, e.g. 14 for LSTM-14; or
    opset       an opset: the newest version not above it. Exactly one of the two is given.
    attributes  by name: int, float, str, or a list of one of them, as the operator's text spells them
    weights     arrays by name (W, R, B, P), copied. With them, a Client sends them once and their fingerprint after
                that. Without, they are sent among the inputs of every call.
    options     defaults of the calls with this operator: clip_cell_input, empty_row_state ("zeros" or "initial"),
                deterministic, allow_reduced_precision, weight_type ("float16", "bfloat16" or "int8": what the server
                keeps W and R as, with allow_reduced_precision)

    An Operator does not change after it is made, so it may be shared between threads and clients.
    """

    def __init__(self, op_type: str, *, version: int | None = None, opset: int | None = None, domain: str = "",
                 attributes: Mapping[str, AttributeValue] | None = None,
                 weights: Mapping[str, npt.ArrayLike | None] | None = None,
                 options: Options | None = None) -> None:
        if (version is None) == (opset is None):
            raise ValueError(f"{op_type}: give exactly one of version (the operator's own, e.g. 14) and opset")
        self.op_type = op_type
        self.version = version
        self.opset = opset
        self.domain = domain
        self.attributes = dict(attributes or {})
        self.options = Options(**(options or {}))
        options_to_wire(self.options)  # refuses here what is unknown, not at the first call
        self.weights: dict[str, npt.NDArray[Any]] = {}
        for name, value in (weights or {}).items():
            if value is not None:
                self.weights[name] = np.array(tensors.as_array(value))
                self.weights[name].setflags(write=False)

    def __repr__(self) -> str:
        version = f"version={self.version}" if self.version is not None else f"opset={self.opset}"
        shapes = {name: list(value.shape) for name, value in self.weights.items()}
        return f"Operator({self.op_type!r}, {version}, attributes={self.attributes}, weights={shapes})"

    def to_wire(self) -> tensor_pb2.Operator:
        """The rnnserve.v1.Operator, without weights."""
        message = tensor_pb2.Operator(domain=self.domain, op_type=self.op_type)
        if self.version is not None:
            message.version = self.version
        if self.opset is not None:
            message.opset = self.opset
        for name, value in self.attributes.items():
            message.attributes[name].CopyFrom(_attribute(name, value))
        return message

    def weights_to_wire(self) -> list[tensor_pb2.Tensor]:
        """The weights as a list of rnnserve.v1.Tensor."""
        return [tensors.encode(name, value) for name, value in self.weights.items()]


def lstm(W: npt.ArrayLike, R: npt.ArrayLike, B: npt.ArrayLike | None = None, P: npt.ArrayLike | None = None, *,
         version: int | None = None, opset: int | None = None, options: Options | None = None,
         **attributes: AttributeValue) -> Operator:
    """An ONNX LSTM bound to its weights; blocks in the order i, o, f, c (P: i, o, f).

    W [D, 4H, I], R [D, 4H, H], B [D, 8H] (Wb then Rb), P [D, 3H]; D is 2 for direction="bidirectional", else 1.
    Attributes by name: direction, activations, activation_alpha, activation_beta, clip, input_forget, layout,
    hidden_size. Without version and opset: 14, and 22 for bfloat16. Inputs of a call: X [T, N, I], and optionally
    sequence_lens [N], initial_h and initial_c [D, N, H]. Outputs: Y [T, D, N, H], Y_h and Y_c [D, N, H].
    layout=1 puts N first in X, Y and the states.
    """
    return _onnx("LSTM", {"W": W, "R": R, "B": B, "P": P}, version, opset, options, attributes)


def gru(W: npt.ArrayLike, R: npt.ArrayLike, B: npt.ArrayLike | None = None, *, version: int | None = None,
        opset: int | None = None, options: Options | None = None, **attributes: AttributeValue) -> Operator:
    """An ONNX GRU bound to its weights; blocks in the order z, r, h.

    W [D, 3H, I], R [D, 3H, H], B [D, 6H] (Wb then Rb). Attributes as lstm (no input_forget), and linear_before_reset
    (1 for weights of torch and of Keras's reset_after=True). Inputs and outputs as lstm, without initial_c and Y_c.
    """
    return _onnx("GRU", {"W": W, "R": R, "B": B}, version, opset, options, attributes)


def rnn(W: npt.ArrayLike, R: npt.ArrayLike, B: npt.ArrayLike | None = None, *, version: int | None = None,
        opset: int | None = None, options: Options | None = None, **attributes: AttributeValue) -> Operator:
    """An ONNX RNN bound to its weights: W [D, H, I], R [D, H, H], B [D, 2H] (Wb then Rb).

    Attributes, inputs and outputs as gru, without linear_before_reset.
    """
    return _onnx("RNN", {"W": W, "R": R, "B": B}, version, opset, options, attributes)


def openvino(op_type: str, W: npt.ArrayLike, R: npt.ArrayLike, B: npt.ArrayLike, *, version: int | None = None,
             options: Options | None = None, **attributes: AttributeValue) -> Operator:
    """An OpenVINO LSTMSequence (blocks f, i, c, o), GRUSequence (z, r, h) or RNNSequence bound to its weights.

    W [D, G*H, I], R [D, G*H, H], B [D, G*H] ([D, 4H] for a GRU with linear_before_reset). Attributes hidden_size and
    direction are required. version: 5 unless told. Inputs of a call, all required: X [N, T, I],
    initial_hidden_state [N, D, H], initial_cell_state (LSTM), sequence_lengths [N]. Outputs: Y [N, D, T, H], Ho, Co.
    """
    return Operator(op_type, version=5 if version is None else version, domain="openvino", attributes=attributes,
                    weights={"W": W, "R": R, "B": B}, options=options)


def options_to_wire(options: Mapping[str, Any]) -> tensor_pb2.Options:
    """The rnnserve.v1.Options of a mapping; None stands for absent. Raises ValueError for what is unknown."""
    message = tensor_pb2.Options()
    for name, value in options.items():
        if name not in _OPTIONS:
            raise ValueError(f"option {name!r} is unknown; the options are {', '.join(_OPTIONS)}")
        if value is None:
            continue
        if name in _NAMED:
            if value not in _NAMED[name]:
                known = [f'"{key}"' for key in _NAMED[name]]
                raise ValueError(f'{name} is {value!r}; give {", ".join(known[:-1])} or {known[-1]}')
            value = _NAMED[name][value]
        setattr(message, name, value)
    return message


def options_from_wire(message: tensor_pb2.Options) -> Options:
    """The inverse of options_to_wire: what is present, by name."""
    options: Any = {field.name: value for field, value in message.ListFields()}
    for name in _NAMED.keys() & options.keys():
        options[name] = {number: key for key, number in _NAMED[name].items()}.get(options[name], "")
    known: Options = options
    return known


def operator_from_wire(message: tensor_pb2.Operator) -> Operator:
    """The Operator of an rnnserve.v1.Operator, without weights."""
    attributes: dict[str, Any] = {}
    for name, attribute in message.attributes.items():
        kind = attribute.WhichOneof("value")
        value: Any = getattr(attribute, kind) if kind else None
        attributes[name] = list(value.values) if kind in ("floats", "ints", "strings") else value
    version = message.version if message.HasField("version") else None
    opset = message.opset if message.HasField("opset") else None
    return Operator(message.op_type, version=version, opset=opset, domain=message.domain, attributes=attributes)


def _onnx(op_type: str, weights: Mapping[str, npt.ArrayLike | None], version: int | None, opset: int | None,
          options: Options | None, attributes: Mapping[str, AttributeValue]) -> Operator:
    if version is None and opset is None:
        version = 22 if tensors.as_array(weights["W"]).dtype == ml_dtypes.bfloat16 else 14
    return Operator(op_type, version=version, opset=opset, attributes=attributes, weights=weights, options=options)


def _attribute(name: str, value: Any) -> tensor_pb2.Attribute:
    one: Any = value.item() if hasattr(value, "item") and not np.shape(value) else value  # of numpy's scalars
    if isinstance(one, int):
        return tensor_pb2.Attribute(i=int(one))
    if isinstance(one, float):
        return tensor_pb2.Attribute(f=one)
    if isinstance(value, str):
        return tensor_pb2.Attribute(s=value)
    values: list[Any] = [*value] if type(value) in (list, tuple, np.ndarray) else [None]
    if all(isinstance(item, str) for item in values) and values:
        return tensor_pb2.Attribute(strings=tensor_pb2.Attribute.Strings(values=values))
    # The lists of recurrent operators are of text or of floats; ints may stand in a list of floats.
    if all(isinstance(item, (int, float, np.integer, np.floating)) for item in values):
        return tensor_pb2.Attribute(floats=tensor_pb2.Attribute.Floats(values=[float(item) for item in values]))
    raise TypeError(f"attribute {name} is {value!r}; give an int, a float, a str, or a list of floats or of str")
