# SPDX-License-Identifier: Apache-2.0
"""Would the differential test notice?

One thing is changed on purpose in the request, onnxruntime runs the original, and the comparison of test_onnxruntime.py
has to report a difference: every time, on every engine.
"""

from __future__ import annotations

import numpy as np
import pytest

import onnxruntime_side
import random_operators
import wire
from operators import GATES, Case
from test_onnxruntime import ENGINES, excess

SEEDS = range(8)


def _operator(rng, op, *, direction="forward", lengths=False, **attributes) -> Case:
    hidden, steps, rows, inputs = int(rng.integers(3, 20)), int(rng.integers(3, 8)), 3, int(rng.integers(2, 20))
    directions = 2 if direction == "bidirectional" else 1
    tensors = random_operators.tensors(rng, op, steps, rows, inputs, hidden, directions, bias=True, peephole=True,
                                       lengths=lengths, initial_h=True, initial_c=True)
    return Case(op, tensors, {"hidden_size": hidden, "direction": direction, **attributes}, version=14)


def _any_direction(rng) -> str:
    return str(rng.choice(["forward", "reverse", "bidirectional"]))


def _without(case: Case, name: str) -> Case:
    other = case.changed()
    del other.tensors[name]
    return other


def drop_bias(rng, op):
    case = _operator(rng, op, direction=_any_direction(rng))
    return case, _without(case, "B")


def change_one_bias_block(rng, op):
    case = _operator(rng, op, direction=_any_direction(rng))
    bias, hidden = case.tensors["B"].copy(), case.hidden
    block = int(rng.integers(0, 2 * GATES[op]))
    bias[-1, block * hidden:(block + 1) * hidden] += 0.5
    return case, case.changed(B=bias)


def swap_input_and_recurrent_bias(rng, op):
    """Only a GRU with linear_before_reset tells them apart."""
    del op
    case = _operator(rng, "GRU", direction=_any_direction(rng), linear_before_reset=1)
    half = case.tensors["B"].shape[1] // 2
    return case, case.changed(B=np.roll(case.tensors["B"], half, axis=1))


def drop_clip(rng, op):
    case = _operator(rng, op, direction=_any_direction(rng), clip=0.3)
    case.clip_cell_input = False
    other = case.changed()
    del other.attributes["clip"]
    return case, other


def change_clip(rng, op):
    case = _operator(rng, op, direction=_any_direction(rng), clip=0.3)
    case.clip_cell_input = False
    return case, case.with_attributes(clip=0.35)


def clip_the_cell(rng, op):
    """The option that tells the two readings of clip apart (section 7)."""
    del op
    case = _operator(rng, "LSTM", direction=_any_direction(rng), clip=0.3)
    case.tensors["initial_c"] += np.float32(1.5)
    case.clip_cell_input = False
    other = case.changed()
    other.clip_cell_input = True
    return case, other


def drop_peepholes(rng, op):
    del op
    case = _operator(rng, "LSTM", direction=_any_direction(rng))
    return case, _without(case, "P")


def drop_one_peephole_block(rng, op):
    del op
    case = _operator(rng, "LSTM", direction=_any_direction(rng))
    p, hidden = case.tensors["P"].copy(), case.hidden
    block = int(rng.integers(0, 3))
    p[-1, block * hidden:(block + 1) * hidden] = 0
    return case, case.changed(P=p)


def peepholes_in_order_i_f_o(rng, op):
    del op
    case = _operator(rng, "LSTM", direction=_any_direction(rng))
    i, o, f = np.split(case.tensors["P"], 3, axis=1)
    return case, case.changed(P=np.concatenate([i, f, o], axis=1))


def _with_functions(rng, op):
    direction = _any_direction(rng)
    case = _operator(rng, op, direction=direction, activations=(
        ["Elu"] * {"LSTM": 3, "GRU": 2, "RNN": 1}[op] * (2 if direction == "bidirectional" else 1)))
    for name in ("W", "R", "B"):
        case.tensors[name] *= np.float32(0.6)
    case.attributes["activation_alpha"] = [float(np.float32(v)) for v in
                                           rng.uniform(0.4, 0.9, len(case.attributes["activations"]))]
    return case


def change_alpha(rng, op):
    case = _with_functions(rng, op)
    alpha = list(case.attributes["activation_alpha"])
    alpha[int(rng.integers(0, len(alpha)))] += 0.1
    return case, case.with_attributes(activation_alpha=alpha)


def drop_alpha(rng, op):
    case = _with_functions(rng, op)
    other = case.changed()
    del other.attributes["activation_alpha"]
    return case, other


def change_beta(rng, op):
    direction = _any_direction(rng)
    functions = ["HardSigmoid"] * {"LSTM": 3, "GRU": 2, "RNN": 1}[op] * (2 if direction == "bidirectional" else 1)
    case = _operator(rng, op, direction=direction, activations=functions, activation_alpha=[0.2] * len(functions),
                     activation_beta=[0.5] * len(functions))
    beta = [0.5] * len(functions)
    beta[int(rng.integers(0, len(beta)))] = 0.45
    return case, case.with_attributes(activation_beta=beta)


def change_a_function(rng, op):
    del rng
    rng = np.random.default_rng(3)
    case = _operator(rng, op, direction=_any_direction(rng))
    names = {"LSTM": ["Sigmoid", "Tanh", "Softsign"], "GRU": ["Sigmoid", "Softsign"], "RNN": ["Softsign"]}[op]
    return case, case.with_attributes(activations=names * case.directions)


def change_one_length(rng, op):
    case = _operator(rng, op, direction=_any_direction(rng), lengths=True)
    lengths = case.tensors["sequence_lens"].copy()
    row = int(rng.integers(0, lengths.size))
    lengths[row] += -1 if lengths[row] == case.tensors["X"].shape[0] else 1
    return case, case.changed(sequence_lens=lengths)


def drop_lengths(rng, op):
    case = _operator(rng, op, direction=_any_direction(rng), lengths=True)
    case.tensors["sequence_lens"][0] = 1
    return case, _without(case, "sequence_lens")


def other_reset_form(rng, op):
    del op
    lbr = int(rng.integers(0, 2))
    case = _operator(rng, "GRU", direction=_any_direction(rng), linear_before_reset=lbr)
    return case, case.with_attributes(linear_before_reset=1 - lbr)


def swap_gates(rng, op):
    op = op if op != "RNN" else "LSTM"
    case = _operator(rng, op, direction=_any_direction(rng))
    order = rng.permutation(GATES[op])
    while np.array_equal(order, np.arange(GATES[op])):
        order = rng.permutation(GATES[op])
    blocks = {k: np.split(case.tensors[k], GATES[op], axis=1) for k in ("W", "R")}
    return case, case.changed(**{k: np.concatenate([v[b] for b in order], axis=1) for k, v in blocks.items()})


def couple_the_forget_gate(rng, op):
    del op
    case = _operator(rng, "LSTM", direction=_any_direction(rng))
    return case, case.with_attributes(input_forget=1)


def other_direction(rng, op):
    case = _operator(rng, op)
    return case, case.with_attributes(direction="reverse")


def swap_directions(rng, op):
    case = _operator(rng, op, direction="bidirectional")
    return case, case.changed(**{k: case.tensors[k][::-1].copy() for k in ("W", "R", "B")})


def drop_initial_h(rng, op):
    case = _operator(rng, op, direction=_any_direction(rng))
    return case, _without(case, "initial_h")


def drop_initial_c(rng, op):
    del op
    case = _operator(rng, "LSTM", direction=_any_direction(rng))
    return case, _without(case, "initial_c")


CHANGES = [drop_bias, change_one_bias_block, swap_input_and_recurrent_bias, drop_clip, change_clip, clip_the_cell,
           drop_peepholes, drop_one_peephole_block, peepholes_in_order_i_f_o, change_alpha, drop_alpha, change_beta,
           change_a_function, change_one_length, drop_lengths, other_reset_form, swap_gates, couple_the_forget_gate,
           other_direction, swap_directions, drop_initial_h, drop_initial_c]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_a_change_is_noticed(server, change):
    for seed in SEEDS:
        for op in ("LSTM", "GRU", "RNN"):
            case, changed = change(np.random.default_rng([seed, ord(op[0])]), op)
            expected = onnxruntime_side.run(case)
            for engine in ENGINES:
                same = wire.results(server.recurrent.Infer(wire.request(case, engine=engine)))
                other = wire.results(server.recurrent.Infer(wire.request(changed, engine=engine)))
                assert not excess(same, expected)[1], f"differs unchanged: {case}"
                assert excess(other, expected)[1], f"not noticed on {engine or 'auto'}: {changed}"
