# SPDX-License-Identifier: Apache-2.0
"""The ONNX operators' own equations in numpy, double precision, one row and one step at a time.

Slow and plain on purpose: what to hold a server's or a converter's numbers against. Takes every attribute and optional
input of ONNX LSTM, GRU and RNN, all eleven functions included. It trusts its arguments: shapes are not checked.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rnnserve.operators import Operator

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]

_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_BLOCKS = {"LSTM": 4, "GRU": 3, "RNN": 1}

# By lower-case name: the function of (x, alpha, beta), and the defaults of alpha and beta (None: it has none).
_FUNCTIONS: dict[str, tuple[Callable[[Array, Any, Any], Any], float | None, float | None]] = {
    "relu": (lambda x, a, b: np.where(np.isnan(x), x, np.maximum(x, 0)), None, None),
    "tanh": (lambda x, a, b: np.tanh(x), None, None),
    "sigmoid": (lambda x, a, b: 0.5 * (1 + np.tanh(0.5 * x)), None, None),
    "affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: np.where(x >= 0, x, a * x), 0.01, None),
    "thresholdedrelu": (lambda x, a, b: np.where(np.isnan(x), x, np.where(x >= a, x, 0)), 1.0, None),
    "scaledtanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))), 1.0, None),
    "softsign": (lambda x, a, b: x / (1 + np.abs(x)), None, None),
    "softplus": (lambda x, a, b: np.logaddexp(0, x), None, None),
}


def run(op: Operator, inputs: Mapping[str, npt.ArrayLike | None]) -> dict[str, Array]:
    """The outputs Y, Y_h and, for LSTM, Y_c of an ONNX rnnserve.Operator, as float64 arrays by name.

    inputs: arrays by name, and the weights that are not bound to op. Axes follow op's layout.
    """
    given = {name: np.asarray(value) for name, value in {**op.weights, **inputs}.items() if value is not None}
    lens = given.pop("sequence_lens", None)
    given = {name: value.astype(np.float64) for name, value in given.items()}
    X, W, R = given["X"], given["W"], given["R"]
    attributes: dict[str, Any] = op.attributes
    batch_first = attributes.get("layout", 0) == 1
    if batch_first:
        X = np.swapaxes(X, 0, 1)
    steps, rows, hidden = X.shape[0], X.shape[1], R.shape[-1]
    direction = attributes.get("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    lens = np.full(rows, steps) if lens is None else lens

    def state(name: str) -> Array:
        if name not in given:
            return np.zeros((directions, rows, hidden))
        return np.swapaxes(given[name], 0, 1) if batch_first else given[name]

    B = given.get("B", np.zeros((directions, 2 * _BLOCKS[op.op_type] * hidden)))
    P = given.get("P", np.zeros((directions, 3 * hidden)))
    start_h, start_c = state("initial_h"), state("initial_c")
    Y = np.zeros((steps, directions, rows, hidden))
    final: dict[str, Array] = {name: np.zeros((directions, rows, hidden)) for name in ("Y_h", "Y_c")}
    for d in range(directions):
        functions = _functions(op, d, directions)
        backward = direction == "reverse" or d == 1
        for n in range(rows):
            h, c = start_h[d, n], start_c[d, n]
            order = range(int(lens[n]))
            for t in reversed(order) if backward else order:
                h, c = _step(op, functions, X[t, n], h, c, W[d], R[d], B[d], P[d])
                Y[t, d, n] = h
            if lens[n] > 0 or op.options.get("empty_row_state") == "initial":
                final["Y_h"][d, n], final["Y_c"][d, n] = h, c
    outputs: dict[str, Array] = {"Y": Y.transpose(2, 0, 1, 3) if batch_first else Y}
    for name in ("Y_h", "Y_c") if op.op_type == "LSTM" else ("Y_h",):
        outputs[name] = np.swapaxes(final[name], 0, 1) if batch_first else final[name]
    return outputs


def _step(op: Operator, functions: Sequence[Function], x: Array, h: Array, c: Array, W: Array, R: Array, B: Array,
          P: Array) -> tuple[Array, Array]:
    hidden = h.shape[0]
    attributes: dict[str, Any] = op.attributes
    bound = attributes.get("clip", math.inf)

    def clip(v: Array) -> Array:
        clipped: Array = np.clip(v, -bound, bound)
        return clipped

    def block(array: Array, k: int) -> Array:
        return array[k * hidden:(k + 1) * hidden]

    blocks = _BLOCKS[op.op_type]
    wx = [block(W, k) @ x + block(B, k) for k in range(blocks)]
    rb = [block(B, blocks + k) for k in range(blocks)]
    if op.op_type == "RNN":
        return functions[0](clip(wx[0] + R @ h + rb[0])), c
    if op.op_type == "GRU":
        f, g = functions
        z = f(clip(wx[0] + block(R, 0) @ h + rb[0]))
        r = f(clip(wx[1] + block(R, 1) @ h + rb[1]))
        if attributes.get("linear_before_reset", 0):
            n = g(clip(wx[2] + r * (block(R, 2) @ h + rb[2])))
        else:
            n = g(clip(wx[2] + block(R, 2) @ (r * h) + rb[2]))
        return (1 - z) * n + z * h, c
    f, g, out = functions
    wx = [v + block(R, k) @ h + rb[k] for k, v in enumerate(wx)]  # i, o, f, c
    i = f(clip(wx[0] + block(P, 0) * c))
    forget = 1 - i if attributes.get("input_forget", 0) else f(clip(wx[2] + block(P, 2) * c))
    new = forget * c + i * g(clip(wx[3]))
    o = f(clip(wx[1] + block(P, 1) * new))
    return o * out(clip(new) if op.options.get("clip_cell_input", True) else new), new


def _functions(op: Operator, direction: int, directions: int) -> list[Function]:
    """The functions of one direction. Lists of parameters are read as needed; of full length, by position."""
    count = len(_DEFAULTS[op.op_type])
    attributes: dict[str, Any] = op.attributes
    names = [name.lower() for name in attributes.get("activations") or _DEFAULTS[op.op_type] * directions]
    names = names[:count * directions]
    columns: list[list[float | None]] = []
    for key in ("activation_alpha", "activation_beta"):
        given: list[float | None] = list(attributes.get(key) or [])
        defaults = [_FUNCTIONS[name][1] if key == "activation_alpha" else _FUNCTIONS[name][2] for name in names]
        needed = sum(default is not None for default in defaults)
        if len(given) > needed:
            columns.append(given)
            continue
        queue = iter(given)
        columns.append([None if default is None else next(queue, default) for default in defaults])
    bound: list[Function] = []
    for k in range(direction * count, (direction + 1) * count):
        bound.append(functools.partial(_apply, _FUNCTIONS[names[k]][0], columns[0][k], columns[1][k]))
    return bound


def _apply(function: Callable[[Array, Any, Any], Any], alpha: float | None, beta: float | None, x: Array) -> Array:
    value: Array = function(x, alpha, beta)
    return value
