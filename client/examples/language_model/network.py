# SPDX-License-Identifier: Apache-2.0
"""A language model of one LSTM: its formulas, its training in numpy, and its ONNX file for the server."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
Weights = dict[str, Array]

ROWS, STEPS, RATE = 16, 16, 3e-3  # of a step of training: rows, tokens of each, Adam's step


def start(vocabulary: int, hidden: int, seed: int = 0) -> Weights:
    """table [V, H]; cell [2H, 4H] of x and h to the gates i, o, f, c, in ONNX's order; bias [4H]; out [H, V]; out_bias [V]."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Array:
        value: Array = (rng.normal(size=shape) / np.sqrt(hidden)).astype(np.float32)
        return value

    bias = np.zeros(4 * hidden, np.float32)
    bias[2 * hidden:3 * hidden] = 1  # what the gates forget is learned slowly
    return {"table": draw(vocabulary, hidden), "cell": draw(2 * hidden, 4 * hidden), "bias": bias,
            "out": draw(hidden, vocabulary), "out_bias": np.zeros(vocabulary, np.float32)}


def sigmoid(x: Array) -> Array:
    value: Array = 1 / (1 + np.exp(-x))
    return value


def step(weights: Weights, tokens: Array, h: Array, c: Array) -> tuple[Array, Array, Array, Array]:
    """One token of each row [N]: x and h side by side, the gates, and the states after it."""
    joined = np.concatenate([weights["table"][tokens], h], axis=1)
    i, o, f, g = np.split(joined @ weights["cell"] + weights["bias"], 4, axis=1)
    gates = np.concatenate([sigmoid(i), sigmoid(o), sigmoid(f), np.tanh(g)], axis=1)
    i, o, f, g = np.split(gates, 4, axis=1)
    c = f * c + i * g
    return joined, gates, o * np.tanh(c), c


def log_probabilities(weights: Weights, h: Array) -> Array:
    """Of every next token after states h [N, H]: [N, V]."""
    logits = h @ weights["out"] + weights["out_bias"]
    logits -= logits.max(axis=1, keepdims=True)
    value: Array = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return value


def loss_and_gradients(weights: Weights, tokens: Array, nexts: Array, h: Array, c: Array
                       ) -> tuple[float, Weights, Array, Array]:
    """tokens, nexts: [T, N]. The mean of -log p(next), its gradients, and the states after the last token."""
    steps: list[tuple[Array, Array, Array, Array]] = []
    cells = [c]
    for row in tokens:
        steps.append(step(weights, row, h, cells[-1]))
        h = steps[-1][2]
        cells.append(steps[-1][3])
    H = h.shape[1]
    hs = np.concatenate([one[2] for one in steps])
    scores = log_probabilities(weights, hs)
    places = np.arange(len(hs))
    loss = -float(scores[places, nexts.ravel()].mean())
    d_logits = np.exp(scores)
    d_logits[places, nexts.ravel()] -= 1
    d_logits /= len(hs)
    made = {name: np.zeros_like(value) for name, value in weights.items()}
    made["out"], made["out_bias"] = hs.T @ d_logits, d_logits.sum(axis=0)
    d_hs = (d_logits @ weights["out"].T).reshape(*tokens.shape, H)
    d_h, d_c = np.zeros_like(h), np.zeros_like(h)
    for t in reversed(range(len(tokens))):
        joined, gates, _, _ = steps[t]
        i, o, f, g = np.split(gates, 4, axis=1)
        squashed = np.tanh(cells[t + 1])
        d_h = d_h + d_hs[t]
        d_c = d_c + d_h * o * (1 - squashed ** 2)
        d_gates = np.concatenate([d_c * g * i * (1 - i), d_h * squashed * o * (1 - o), d_c * cells[t] * f * (1 - f),
                                  d_c * i * (1 - g ** 2)], axis=1)
        made["cell"] += joined.T @ d_gates
        made["bias"] += d_gates.sum(axis=0)
        d_joined = d_gates @ weights["cell"].T
        np.add.at(made["table"], tokens[t], d_joined[:, :H])
        d_h, d_c = d_joined[:, H:], d_c * f
    return loss, made, h, cells[-1]


def train(weights: Weights, text: Array, seconds: float, most: int = 1 << 30) -> list[float]:
    """Adam, in place, over rows of the text side by side, for so long or `most` steps; the losses of its steps."""
    length = (len(text) - 1) // ROWS
    tokens, nexts = text[:length * ROWS].reshape(ROWS, -1).T, text[1:length * ROWS + 1].reshape(ROWS, -1).T
    first = {name: np.zeros_like(value) for name, value in weights.items()}
    second = {name: np.zeros_like(value) for name, value in weights.items()}
    losses: list[float] = []
    end = time.monotonic() + seconds
    h = c = np.zeros((ROWS, weights["out"].shape[0]), np.float32)
    at = 0
    while time.monotonic() < end and len(losses) < most:
        if at + STEPS > length:
            at, h, c = 0, np.zeros_like(h), np.zeros_like(c)
        loss, gradients, h, c = loss_and_gradients(weights, tokens[at:at + STEPS], nexts[at:at + STEPS], h, c)
        losses.append(loss)
        at += STEPS
        for name, gradient in gradients.items():
            first[name] += 0.1 * (gradient - first[name])
            second[name] += 0.001 * (gradient ** 2 - second[name])
            mean, square = first[name] / (1 - 0.9 ** len(losses)), second[name] / (1 - 0.999 ** len(losses))
            weights[name] -= RATE * mean / (np.sqrt(square) + 1e-8)
    return losses


def file(weights: Weights, top: int) -> bytes:
    """token int64 [T, N] -> next int64 and log_probabilities [T, N, top], the most probable first, and logits [T, N, V]."""
    hidden = weights["out"].shape[0]
    stored: Mapping[str, Array] = {
        "table": weights["table"], "W": weights["cell"][:hidden].T[None], "R": weights["cell"][hidden:].T[None],
        "B": np.concatenate([weights["bias"], np.zeros_like(weights["bias"])])[None], "direction": np.array([1]),
        "out": weights["out"], "out_bias": weights["out_bias"], "top": np.array([top])}
    nodes = [helper.make_node("Gather", ["table", "token"], ["X"]),
             helper.make_node("LSTM", ["X", "W", "R", "B"], ["Y"], hidden_size=hidden),
             helper.make_node("Squeeze", ["Y", "direction"], ["states"]),
             helper.make_node("MatMul", ["states", "out"], ["product"]),
             helper.make_node("Add", ["product", "out_bias"], ["logits"]),
             helper.make_node("LogSoftmax", ["logits"], ["scores"], axis=-1),
             helper.make_node("TopK", ["scores", "top"], ["log_probabilities", "next"], axis=-1)]
    kinds = {"next": TensorProto.INT64, "log_probabilities": TensorProto.FLOAT, "logits": TensorProto.FLOAT}
    graph = helper.make_graph(
        nodes, "language model", [helper.make_tensor_value_info("token", TensorProto.INT64, ["T", "N"])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in stored.items()])
    model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model.SerializeToString()
