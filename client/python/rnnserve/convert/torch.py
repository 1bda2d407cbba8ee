# SPDX-License-Identifier: Apache-2.0
"""torch.nn.LSTM, GRU and RNN.

torch keeps weight_ih [G*H, I], weight_hh [G*H, H], bias_ih and bias_hh [G*H] per layer and direction, with rows
LSTM i, f, g, o and GRU r, z, n; ONNX wants i, o, f, c and z, r, h. torch's GRU lets r act on the product (and on
bias_hh), which is linear_before_reset = 1.
"""

from __future__ import annotations

import collections.abc
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from rnnserve.convert.blocks import Array, check_shape, reorder_blocks
from rnnserve.operators import Operator
from rnnserve.tensors import as_array


StateDict = Mapping[str, Any]  # arrays, or tensors of torch


class Module(Protocol):
    """A torch.nn.Module, as far as it is looked at."""

    def state_dict(self) -> StateDict: ...


def torch_lstm(weights: Module | StateDict, *, prefix: str = "", batch_first: bool | None = None,
               version: int | None = None) -> list[Operator]:
    """The operators of a torch.nn.LSTM, one a layer.

    weights: the module itself, or a state_dict: arrays (or tensors) by torch's names, of which those that start with
    `prefix` count. Backward directions are found by their names (..._reverse), biases may be missing. batch_first:
    layout 1; None: as the module says, and False for a state_dict. version: the ONNX operator's; None: 14, and 22 for
    bfloat16. A layer's Y becomes the next one's X through torch_output. Raises ValueError for weight_hr (proj_size),
    which no ONNX operator expresses, and for shapes that do not fit.
    """
    return _layers("LSTM", weights, prefix, (0, 3, 1, 2), {}, batch_first, version)


def torch_gru(weights: Module | StateDict, *, prefix: str = "", batch_first: bool | None = None,
              version: int | None = None) -> list[Operator]:
    """The operators of a torch.nn.GRU, one a layer; as torch_lstm."""
    return _layers("GRU", weights, prefix, (1, 0, 2), {"linear_before_reset": 1}, batch_first, version)


def torch_rnn(weights: Module | StateDict, *, nonlinearity: str | None = None, prefix: str = "",
              batch_first: bool | None = None, version: int | None = None) -> list[Operator]:
    """The operators of a torch.nn.RNN, one a layer; as torch_lstm. nonlinearity: "tanh" or "relu"; None: as the module
    says, and "tanh" for a state_dict."""
    names = {"tanh": "Tanh", "relu": "Relu"}
    if nonlinearity is None:
        nonlinearity = str(getattr(_inner(weights, prefix), "nonlinearity", "tanh"))
    if nonlinearity not in names:
        raise ValueError(f'nonlinearity is {nonlinearity!r}; torch knows "tanh" and "relu"')
    return _layers("RNN", weights, prefix, (0,), {"activations": [names[nonlinearity]]}, batch_first, version)


def torch_output(Y: npt.ArrayLike, *, batch_first: bool = False) -> Array:
    """torch's output of an operator's Y: [T, D, N, H] to [T, N, D*H], with batch_first [N, T, D, H] to [N, T, D*H].

    The shapes do not tell which of the two Y is: batch_first is that of the module or file."""
    Y = np.asarray(Y)
    if not batch_first:
        Y = np.moveaxis(Y, 1, 2)
    return Y.reshape(Y.shape[0], Y.shape[1], -1)


def _layers(op_type: str, weights: Any, prefix: str, order: Sequence[int], attributes: dict[str, Any],
            batch_first: bool | None, version: int | None) -> list[Operator]:
    if batch_first is None:
        batch_first = bool(getattr(_inner(weights, prefix), "batch_first", False))
    state_dict: Any = weights.state_dict() if hasattr(weights, "state_dict") else weights
    if not isinstance(state_dict, collections.abc.Mapping):
        raise TypeError(f"weights are of type {type(weights).__name__}; give a torch module, or arrays by name, such as "
                        "module.state_dict()")
    state_dict = cast("StateDict", state_dict)
    arrays = {name[len(prefix):]: as_array(value) for name, value in state_dict.items() if name.startswith(prefix)}
    if any(re.fullmatch(r"weight_hr_l\d+(_reverse)?", name) for name in arrays):
        raise ValueError("weight_hr (proj_size) is a projection after the cell, which no ONNX operator expresses; "
                         "train without proj_size")
    count = 0
    while f"weight_ih_l{count}" in arrays:
        count += 1
    if count == 0:
        ends = [str(name) for name in state_dict if str(name).endswith("weight_ih_l0")]
        hint = f"; is the prefix {ends[0].removesuffix('weight_ih_l0')!r}?" if ends else ""
        raise ValueError(f"no {prefix}weight_ih_l0 among {', '.join(sorted(map(str, state_dict))) or 'no names'}{hint}")
    return [_layer(op_type, arrays, layer, order, attributes, batch_first, version) for layer in range(count)]


def _inner(weights: Any, prefix: str) -> Any:
    """The module that the prefix names, where a module was given."""
    try:
        return weights.get_submodule(prefix.removesuffix("."))
    except AttributeError:  # no module, or none of that name: the names of the weights tell what is wrong
        return weights


def _layer(op_type: str, arrays: dict[str, Array], layer: int, order: Sequence[int], attributes: dict[str, Any],
           batch_first: bool, version: int | None) -> Operator:
    suffixes = [f"_l{layer}"]
    if f"weight_ih_l{layer}_reverse" in arrays:
        suffixes.append(f"_l{layer}_reverse")
    W, R, B = list[Array](), list[Array](), list[Array]()
    hidden = 0
    for suffix in suffixes:
        w, r = _take(arrays, "weight_ih" + suffix), _take(arrays, "weight_hh" + suffix)
        rows, hidden = w.shape[0], w.shape[0] // len(order)
        check_shape("weight_hh" + suffix, r, (rows, hidden), f"weight_ih{suffix} {list(w.shape)} of {op_type}")
        W.append(reorder_blocks(w, order))
        R.append(reorder_blocks(r, order))
        if "bias_ih" + suffix in arrays:
            halves = [check_shape(name, _take(arrays, name), (rows,), f"weight_ih{suffix} {list(w.shape)}")
                      for name in ("bias_ih" + suffix, "bias_hh" + suffix)]
            B.append(np.concatenate([reorder_blocks(half, order) for half in halves]))
    attributes = dict(attributes, direction="bidirectional" if len(suffixes) == 2 else "forward", hidden_size=hidden)
    if "activations" in attributes:
        attributes["activations"] = attributes["activations"] * len(suffixes)
    if batch_first:
        attributes["layout"] = 1
    if version is None:
        version = 22 if W[0].dtype == ml_dtypes.bfloat16 else 14  # the first that has it
    return Operator(op_type, version=version, attributes=attributes,
                    weights={"W": np.stack(W), "R": np.stack(R), "B": np.stack(B) if B else None})


def _take(arrays: dict[str, Array], name: str) -> Array:
    if name not in arrays:
        raise ValueError(f"{name} is missing among {', '.join(sorted(arrays))}")
    return arrays[name]

