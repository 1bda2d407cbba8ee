# SPDX-License-Identifier: Apache-2.0
"""One step of each framework's cell as its own documentation prints it, on its own weights (float64, one row).

Nothing here knows ONNX's order: that is what the converters are held against.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Function = Callable[[Array], Array]
Step = Callable[..., tuple[Array, Array]]  # of x, h, c and the cell's weights: the new h and c


def sigmoid(x: Array) -> Array:
    value: Array = 1 / (1 + np.exp(-x))
    return value


def hard_sigmoid_keras2(x: Array) -> Array:
    value: Array = np.clip(0.2 * x + 0.5, 0, 1)
    return value


def hard_sigmoid_keras3(x: Array) -> Array:
    value: Array = np.clip(x / 6 + 0.5, 0, 1)
    return value


def torch_lstm(x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array) -> tuple[Array, Array]:
    """torch.nn.LSTM: rows i, f, g, o."""
    i, f, g, o = np.split(w_ih @ x + b_ih + w_hh @ h + b_hh, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def torch_gru(x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array) -> tuple[Array, Array]:
    """torch.nn.GRU: rows r, z, n; r acts on W_hn h + b_hn."""
    r_x, z_x, n_x = np.split(w_ih @ x + b_ih, 3)
    r_h, z_h, n_h = np.split(w_hh @ h + b_hh, 3)
    r, z = sigmoid(r_x + r_h), sigmoid(z_x + z_h)
    n = np.tanh(n_x + r * n_h)
    return (1 - z) * n + z * h, c


def torch_rnn(nonlinearity: Function) -> Step:
    """torch.nn.RNN with np.tanh or relu."""

    def step(x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array, b_hh: Array) -> tuple[Array, Array]:
        return nonlinearity(w_ih @ x + b_ih + w_hh @ h + b_hh), c

    return step


def keras_lstm(activation: Function, recurrent_activation: Function) -> Step:
    """keras LSTMCell.call: columns i, f, c, o."""

    def step(x: Array, h: Array, c: Array, kernel: Array, recurrent: Array, bias: Array) -> tuple[Array, Array]:
        i, f, g, o = np.split(x @ kernel + h @ recurrent + bias, 4)
        c = recurrent_activation(f) * c + recurrent_activation(i) * activation(g)
        return recurrent_activation(o) * activation(c), c

    return step


def keras_gru(activation: Function, recurrent_activation: Function, reset_after: bool) -> Step:
    """keras GRUCell.call: columns z, r, h."""

    def step(x: Array, h: Array, c: Array, kernel: Array, recurrent: Array, bias: Array) -> tuple[Array, Array]:
        units = h.shape[0]
        if reset_after:
            x_z, x_r, x_h = np.split(x @ kernel + bias[0], 3)
            h_z, h_r, h_h = np.split(h @ recurrent + bias[1], 3)
            z, r = recurrent_activation(x_z + h_z), recurrent_activation(x_r + h_r)
            hh = activation(x_h + r * h_h)
        else:
            x_z, x_r, x_h = np.split(x @ kernel + bias, 3)
            z = recurrent_activation(x_z + h @ recurrent[:, :units])
            r = recurrent_activation(x_r + h @ recurrent[:, units:2 * units])
            hh = activation(x_h + (r * h) @ recurrent[:, 2 * units:])
        return z * h + (1 - z) * hh, c

    return step


def keras_simple_rnn(activation: Function) -> Step:
    """keras SimpleRNNCell.call."""

    def step(x: Array, h: Array, c: Array, kernel: Array, recurrent: Array, bias: Array) -> tuple[Array, Array]:
        return activation(x @ kernel + bias + h @ recurrent), c

    return step


def tf1_basic_lstm(forget_bias: float) -> Step:
    """tf.nn.rnn_cell.BasicLSTMCell.call: columns i, j, f, o of [x, h] * kernel."""

    def step(x: Array, h: Array, c: Array, kernel: Array, bias: Array) -> tuple[Array, Array]:
        i, j, f, o = np.split(np.concatenate([x, h]) @ kernel + bias, 4)
        c = c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j)
        return np.tanh(c) * sigmoid(o), c

    return step


def openvino_lstm(clip: float) -> Step:
    """LSTMSequence: rows f, i, c, o; the gates are clamped, the cell is not."""

    def step(x: Array, h: Array, c: Array, W: Array, R: Array, B: Array) -> tuple[Array, Array]:
        f, i, g, o = np.split(np.clip(W @ x + R @ h + B, -clip, clip), 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    return step


def openvino_gru(linear_before_reset: bool) -> Step:
    """GRUSequence: rows z, r, h; with linear_before_reset the bias has a fourth part, of R h."""

    def step(x: Array, h: Array, c: Array, W: Array, R: Array, B: Array) -> tuple[Array, Array]:
        units = h.shape[0]
        (Wz, Wr, Wh), (Rz, Rr, Rh), parts = np.split(W, 3), np.split(R, 3), np.split(B, B.shape[0] // units)
        z = sigmoid(Wz @ x + Rz @ h + parts[0])
        r = sigmoid(Wr @ x + Rr @ h + parts[1])
        if linear_before_reset:
            n = np.tanh(Wh @ x + r * (Rh @ h + parts[3]) + parts[2])
        else:
            n = np.tanh(Wh @ x + Rh @ (r * h) + parts[2])
        return (1 - z) * n + z * h, c

    return step


def openvino_rnn(x: Array, h: Array, c: Array, W: Array, R: Array, B: Array) -> tuple[Array, Array]:
    """RNNSequence."""
    return np.tanh(W @ x + R @ h + B), c


def unroll(step: Step, X: Array, lens: Array, h: Array, c: Array, weights: Sequence[Array],
           backward: bool = False) -> tuple[Array, Array, Array]:
    """Y [T, N, H], h and c [N, H] of a cell over X [T, N, I]; row n has lens[n] steps, its padding gives zeros."""
    Y, h, c = np.zeros((X.shape[0], X.shape[1], h.shape[1])), h.copy(), c.copy()
    for n in range(X.shape[1]):
        order = range(lens[n])
        for t in reversed(order) if backward else order:
            h[n], c[n] = step(X[t, n], h[n], c[n], *weights)
            Y[t, n] = h[n]
    return Y, h, c
