# SPDX-License-Identifier: Apache-2.0
"""The self-test's cases: a framework's weights, its equations, and the converted operator, on random data."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rnnserve import convert
from rnnserve.operators import Operator
from rnnserve.selftest import published
from rnnserve.selftest.published import Array, Function, Step

STEPS, ROWS, WIDTH, HIDDEN = 6, 3, 5, 7
LENS = np.array([6, 1, 4], np.int32)


@dataclasses.dataclass
class Case:
    """What to run and what must come out: layout 0, Y [T, D, N, H], Y_h and Y_c [D, N, H], in float64."""

    name: str
    op: Operator
    inputs: dict[str, Array]
    expected: dict[str, Array]


def all_cases() -> list[Case]:
    """Every case, the same ones in every process."""
    return [*_torch(), *_keras(), *_tf1(), *_openvino()]


def _random(rng: np.random.Generator, *shape: int) -> Array:
    return rng.uniform(-0.8, 0.8, shape).astype(np.float32)


def _case(name: str, op: Operator, directions: Sequence[tuple[Step, Sequence[Array], bool]], seed: int) -> Case:
    """directions: (step, weights, backward), one or two of them."""
    rng = np.random.default_rng(seed)
    X = _random(rng, STEPS, ROWS, WIDTH)
    h, c = (_random(rng, len(directions), ROWS, HIDDEN) for _ in range(2))
    runs = [published.unroll(step, X.astype(np.float64), LENS, h[d].astype(np.float64), c[d].astype(np.float64),
                             [weight.astype(np.float64) for weight in weights], backward)
            for d, (step, weights, backward) in enumerate(directions)]
    expected = {"Y": np.stack([run[0] for run in runs], axis=1), "Y_h": np.stack([run[1] for run in runs])}
    inputs = {"X": X, "sequence_lens": LENS, "initial_h": h}
    if op.op_type == "LSTM":
        inputs["initial_c"] = c
        expected["Y_c"] = np.stack([run[2] for run in runs])
    if op.attributes.get("layout", 0):
        inputs = {key: value if key == "sequence_lens" else np.swapaxes(value, 0, 1) for key, value in inputs.items()}
        expected = {key: value.transpose(2, 0, 1, 3) if key == "Y" else np.swapaxes(value, 0, 1)
                    for key, value in expected.items()}
    return Case(name, op, inputs, expected)


def _torch() -> Iterator[Case]:
    relu = published.torch_rnn(lambda x: np.maximum(x, 0))
    kinds: list[tuple[str, int, Step, Callable[..., list[Operator]], dict[str, str]]] = [
        ("LSTM", 4, published.torch_lstm, convert.torch_lstm, {}),
        ("GRU", 3, published.torch_gru, convert.torch_gru, {}),
        ("RNN tanh", 1, published.torch_rnn(np.tanh), convert.torch_rnn, {}),
        ("RNN relu", 1, relu, convert.torch_rnn, {"nonlinearity": "relu"})]
    for seed, (name, blocks, step, converter, options) in enumerate(kinds):
        for suffixes in (("",), ("", "_reverse")):
            rng = np.random.default_rng(100 + seed)
            shapes = {"weight_ih": (blocks * HIDDEN, WIDTH), "weight_hh": (blocks * HIDDEN, HIDDEN),
                      "bias_ih": (blocks * HIDDEN,), "bias_hh": (blocks * HIDDEN,)}
            state = {f"net.{key}_l0{suffix}": _random(rng, *shape) for suffix in suffixes
                     for key, shape in shapes.items()}
            directions = [(step, [state[f"net.{key}_l0{suffix}"] for key in shapes], suffix != "")
                          for suffix in suffixes]
            op = converter(state, prefix="net.", batch_first=len(suffixes) == 2, **options)[0]
            yield _case(f"torch {name}{' bidirectional' if len(suffixes) == 2 else ''}", op, directions, seed)


def _keras() -> Iterator[Case]:
    tanh: Function = np.tanh
    sigmoid: tuple[str, Function] = ("sigmoid", published.sigmoid)
    hard = {2: published.hard_sigmoid_keras2, 3: published.hard_sigmoid_keras3}
    for seed, (keras, (gate_name, gate)) in enumerate(
            [(3, sigmoid)] + [(keras, ("hard_sigmoid", function)) for keras, function in hard.items()]):
        for both in (False, True):
            suffix = f" {gate_name} (Keras {keras}){' Bidirectional' if both else ''}"
            options: dict[str, Any] = {"recurrent_activation": gate_name, "keras": keras}
            rng = np.random.default_rng(200 + seed)

            def case(name: str, step: Step, converter: Callable[..., Operator], blocks: int, bias_shape: tuple[int, ...],
                     seed: int = seed, both: bool = both, rng: np.random.Generator = rng, **options: Any) -> Case:
                sides = [[_random(rng, WIDTH, blocks * HIDDEN), _random(rng, HIDDEN, blocks * HIDDEN),
                          _random(rng, *bias_shape)] for _ in range(1 + both)]
                op = converter(*sides[0], backward=sides[1] if both else None, layout=int(both), **options)
                return _case(name, op, [(step, side, d == 1) for d, side in enumerate(sides)], 20 + seed)

            yield case("Keras LSTM" + suffix, published.keras_lstm(tanh, gate), convert.keras_lstm, 4,
                       (4 * HIDDEN,), **options)
            yield case("Keras GRU reset_after" + suffix, published.keras_gru(tanh, gate, True), convert.keras_gru,
                       3, (2, 3 * HIDDEN), reset_after=True, **options)
            yield case("Keras GRU reset before" + suffix, published.keras_gru(tanh, gate, False), convert.keras_gru,
                       3, (3 * HIDDEN,), reset_after=False, **options)
            if gate_name == "sigmoid":
                yield case("Keras SimpleRNN" + (" Bidirectional" if both else ""),
                           published.keras_simple_rnn(np.tanh), convert.keras_simple_rnn, 1, (HIDDEN,))
    rng = np.random.default_rng(250)
    weights = [_random(rng, WIDTH, 4 * HIDDEN), _random(rng, HIDDEN, 4 * HIDDEN), _random(rng, 4 * HIDDEN)]
    yield _case("Keras LSTM linear, go_backwards",
                convert.keras_lstm(*weights, activation="linear", go_backwards=True),
                [(published.keras_lstm(lambda x: x, published.sigmoid), weights, True)], 25)


def _tf1() -> Iterator[Case]:
    rng = np.random.default_rng(300)
    weights = [_random(rng, WIDTH + HIDDEN, 4 * HIDDEN), _random(rng, 4 * HIDDEN)]
    for forget_bias in (1.0, 0.0):
        yield _case(f"TF1 BasicLSTM forget_bias {forget_bias}",
                    convert.tf1_basic_lstm(*weights, forget_bias=forget_bias),
                    [(published.tf1_basic_lstm(forget_bias), weights, False)], 30)


def _openvino() -> Iterator[Case]:
    kinds: list[tuple[str, int, int, Step, dict[str, Any]]] = [
        ("LSTMSequence", 4, 4, published.openvino_lstm(np.inf), {}),
        ("LSTMSequence", 4, 4, published.openvino_lstm(0.7), {"clip": 0.7}),
        ("GRUSequence", 3, 3, published.openvino_gru(False), {}),
        ("GRUSequence", 3, 4, published.openvino_gru(True), {"linear_before_reset": True}),
        ("RNNSequence", 1, 1, published.openvino_rnn, {})]
    for seed, (op_type, blocks, bias_blocks, step, options) in enumerate(kinds):
        for direction in ("forward", "reverse", "bidirectional"):
            rng = np.random.default_rng(400 + seed)
            count = 2 if direction == "bidirectional" else 1
            W, R, B = (_random(rng, count, blocks * HIDDEN, WIDTH), _random(rng, count, blocks * HIDDEN, HIDDEN),
                       _random(rng, count, bias_blocks * HIDDEN))
            told = "".join(f" {key} {value}" for key, value in options.items())
            yield _case(f"OpenVINO {op_type} {direction}{told}",
                        convert.openvino_sequence(op_type, W, R, B, direction=direction, **options),
                        [(step, (W[d], R[d], B[d]), direction == "reverse" or d == 1) for d in range(count)], 40 + seed)
