# SPDX-License-Identifier: Apache-2.0
"""Keras LSTM, GRU and SimpleRNN.

Keras keeps kernel [I, G*H], recurrent_kernel [H, G*H] and bias, with columns LSTM i, f, c, o and GRU z, r, h; a
layer's get_weights() gives them in that order, a Bidirectional's those of the forward layer and then the backward.

Masks: only one whose holes are all at the end maps to sequence_lens. go_backwards: Keras leaves the output in
processing order, so flip Y's time axis to compare (Keras's Bidirectional flips it itself, as ONNX does).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rnnserve.convert.blocks import Array, check_shape, reorder_blocks
from rnnserve.operators import Operator

# ONNX name, alpha, beta (None: the function has none).
Weights = Sequence[npt.ArrayLike | None]
Function = tuple[str, float | None, float | None]

_ACTIVATIONS: dict[str, Function] = {
    "tanh": ("Tanh", None, None), "sigmoid": ("Sigmoid", None, None), "relu": ("Relu", None, None),
    "linear": ("Affine", 1.0, 0.0), "elu": ("Elu", 1.0, None), "softsign": ("Softsign", None, None),
    "softplus": ("Softplus", None, None),
}
_HARD_SIGMOID: dict[int, Function] = {2: ("HardSigmoid", 0.2, 0.5), 3: ("HardSigmoid", 1.0 / 6.0, 0.5)}


def keras_lstm(kernel: npt.ArrayLike, recurrent_kernel: npt.ArrayLike, bias: npt.ArrayLike | None = None, *,
               backward: Weights | None = None, go_backwards: bool = False, activation: str = "tanh",
               recurrent_activation: str = "sigmoid", keras: int = 3, layout: int = 0, version: int = 14) -> Operator:
    """The operator of a Keras LSTM.

    kernel [I, 4H], recurrent_kernel [H, 4H], bias [4H] or None (use_bias=False). backward: the same three (or two) of
    the backward layer of a Bidirectional. keras: 2 or 3, which differ in hard_sigmoid. layout 1: Keras's own axes,
    X [N, T, I]. Raises ValueError for shapes and activations that do not fit.
    """
    names = [recurrent_activation, activation, activation]
    return _operator("LSTM", (0, 3, 1, 2), (kernel, recurrent_kernel, bias), backward, go_backwards, names, keras,
                     layout, version, {}, two_biases=False)


def keras_gru(kernel: npt.ArrayLike, recurrent_kernel: npt.ArrayLike, bias: npt.ArrayLike | None = None, *,
              reset_after: bool = True, backward: Weights | None = None, go_backwards: bool = False,
              activation: str = "tanh", recurrent_activation: str = "sigmoid", keras: int = 3, layout: int = 0,
              version: int = 14) -> Operator:
    """The operator of a Keras GRU: kernel [I, 3H], recurrent_kernel [H, 3H].

    bias: [2, 3H] with reset_after=True (Keras's default since 2), [3H] with reset_after=False. Otherwise as keras_lstm.
    """
    return _operator("GRU", (0, 1, 2), (kernel, recurrent_kernel, bias), backward, go_backwards,
                     [recurrent_activation, activation], keras, layout, version,
                     {"linear_before_reset": int(reset_after)}, two_biases=reset_after)


def keras_simple_rnn(kernel: npt.ArrayLike, recurrent_kernel: npt.ArrayLike, bias: npt.ArrayLike | None = None, *,
                     backward: Weights | None = None, go_backwards: bool = False, activation: str = "tanh",
                     keras: int = 3, layout: int = 0, version: int = 14) -> Operator:
    """The operator of a Keras SimpleRNN: kernel [I, H], recurrent_kernel [H, H], bias [H]. Otherwise as keras_lstm."""
    return _operator("RNN", (0,), (kernel, recurrent_kernel, bias), backward, go_backwards, [activation], keras,
                     layout, version, {}, two_biases=False)


def _operator(op_type: str, order: Sequence[int], forward: Weights, backward: Weights | None, go_backwards: bool,
              names: Sequence[str], keras: int, layout: int, version: int, attributes: dict[str, Any],
              two_biases: bool) -> Operator:
    if backward is not None and go_backwards:
        raise ValueError("go_backwards and backward exclude each other: Bidirectional runs both ways already")
    sides = [_weights(op_type, order, forward, two_biases)]
    direction = "reverse" if go_backwards else "forward"
    if backward is not None:
        sides.append(_weights(op_type, order, tuple(backward) + (None,) * (3 - len(tuple(backward))), two_biases))
        direction = "bidirectional"
    if len({side[2] is None for side in sides}) == 2:
        raise ValueError("one direction has a bias and the other has none")
    functions = [_activation(name, keras) for name in names] * len(sides)
    attributes = dict(attributes, direction=direction, hidden_size=int(sides[0][1].shape[1]),
                      activations=[function[0] for function in functions])
    for key, place in (("activation_alpha", 1), ("activation_beta", 2)):
        values = [function[place] for function in functions if function[place] is not None]
        if values:
            attributes[key] = values
    if layout:
        attributes["layout"] = layout
    biases = [side[2] for side in sides if side[2] is not None]
    weights = {"W": np.stack([side[0] for side in sides]), "R": np.stack([side[1] for side in sides]),
               "B": np.stack(biases) if biases else None}
    return Operator(op_type, version=version, attributes=attributes, weights=weights)


def _weights(op_type: str, order: Sequence[int], arrays: Weights, two_biases: bool) -> tuple[Array, Array, Array | None]:
    kernel, recurrent, bias = (None if array is None else np.asarray(array) for array in arrays)
    if kernel is None or recurrent is None:
        raise ValueError("kernel and recurrent_kernel are required")
    hidden, columns = recurrent.shape[0], recurrent.shape[0] * len(order)
    check_shape("recurrent_kernel", recurrent, (hidden, columns), f"{op_type} of {hidden} units")
    check_shape("kernel", kernel, (kernel.shape[0], columns), f"{op_type} of {hidden} units")
    W, R = reorder_blocks(kernel, order, axis=1).T, reorder_blocks(recurrent, order, axis=1).T
    if bias is None:
        return W, R, None
    halves: Sequence[Array]
    if two_biases:
        halves = list(check_shape("bias", bias, (2, columns), f"GRU of {hidden} units with reset_after"))
    else:
        bias = check_shape("bias", bias, (columns,), f"{op_type} of {hidden} units")
        halves = (bias, np.zeros_like(bias))
    return W, R, np.concatenate([reorder_blocks(half, order) for half in halves])


def _activation(name: str, keras: int) -> Function:
    if name == "hard_sigmoid":
        if keras not in _HARD_SIGMOID:
            raise ValueError(f"keras is {keras!r}; give 2 or 3: their hard_sigmoid differs")
        return _HARD_SIGMOID[keras]
    if name not in _ACTIVATIONS:
        raise ValueError(f"activation {name!r} is not one of {', '.join([*_ACTIVATIONS, 'hard_sigmoid'])}")
    return _ACTIVATIONS[name]
