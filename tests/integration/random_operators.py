# SPDX-License-Identifier: Apache-2.0
"""Seeded random operators, from the sizes to the spelling of the activation names."""

from __future__ import annotations

import numpy as np

import formulas
from operators import GATES, Case

NAMES = ["Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",
         "Softsign", "Softplus"]
FUNCTION_COUNT = {"LSTM": 3, "GRU": 2, "RNN": 1}
# Ranges that keep a recurrence of a few dozen steps tame.
ALPHA_RANGE = {"Affine": (0.3, 0.9), "LeakyRelu": (0.05, 0.4), "ThresholdedRelu": (0.05, 0.4), "ScaledTanh": (0.4, 1.2),
               "HardSigmoid": (0.1, 0.5), "Elu": (0.3, 1.2)}
BETA_RANGE = {"Affine": (-0.3, 0.3), "ScaledTanh": (0.4, 1.2), "HardSigmoid": (0.2, 0.6)}
SIZES = [1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 24, 31, 33]
WIDE = [40, 48, 63, 64, 65, 96]

# A draw is thrown away where a rounding decides the result, whichever engine computes it: ThresholdedRelu jumps at alpha
# (section 6), and unbounded functions may feed themselves until a unit in the last place of the inputs grows to the
# tolerance of 1e-5. So the tolerance stays what it is for all that remain.
NEAREST_JUMP = 1e-4
LARGEST = 30.0
NUDGE = 2.0**-22
NUDGED_MAY_DIFFER_BY = 5e-6


def version_of(op: str, opset: int) -> int:
    known = {"LSTM": [1, 7, 14, 22], "GRU": [1, 3, 7, 14, 22], "RNN": [1, 7, 14, 22]}[op]
    return max(v for v in known if v <= opset)


def _sizes(rng):
    def pick():
        return int(rng.choice(WIDE if rng.random() < 0.08 else SIZES))
    steps = int(rng.choice([25, 40, 64]) if rng.random() < 0.04 else rng.integers(1, 11))
    return steps, int(rng.choice([1, 2, 3, 4, 5, 7, 9])), pick(), pick()


def _uniform(rng, shape, scale):
    return rng.uniform(-scale, scale, size=shape).astype(np.float32)


def _activations(rng, case, op, directions):
    """Names, and as many values as functions have the parameter: onnxruntime and we read such a list alike."""
    names = [str(rng.choice(NAMES)) for _ in range(FUNCTION_COUNT[op] * directions)]
    case.attributes["activations"] = names
    for key, ranges in (("activation_alpha", ALPHA_RANGE), ("activation_beta", BETA_RANGE)):
        having = [n for n in names if n in ranges]
        if not having:
            continue
        case.attributes[key] = [float(np.float32(rng.uniform(*ranges[n]))) for n in having]


def tensors(rng, op, steps, rows, inputs, hidden, directions, *, bias, peephole, lengths, initial_h, initial_c):
    gates = GATES[op]
    t = {
        "X": _uniform(rng, (steps, rows, inputs), 1.5),
        "W": _uniform(rng, (directions, gates * hidden, inputs), 1.6 / np.sqrt(inputs)),
        "R": _uniform(rng, (directions, gates * hidden, hidden), 1.4 / np.sqrt(hidden)),
    }
    if bias:
        t["B"] = _uniform(rng, (directions, 2 * gates * hidden), 0.5)
    if lengths:
        t["sequence_lens"] = rng.integers(1, steps + 1, size=rows).astype(np.int32)
    if initial_h:
        t["initial_h"] = _uniform(rng, (directions, rows, hidden), 0.9)
    if initial_c and op == "LSTM":
        t["initial_c"] = _uniform(rng, (directions, rows, hidden), 1.2)
    if peephole and op == "LSTM":
        t["P"] = _uniform(rng, (directions, 3 * hidden), 0.6)
    return t


def draw_for_onnxruntime(rng, op: str) -> Case:
    """An operator on which onnxruntime is right: every rule of deviations.py holds."""
    steps, rows, inputs, hidden = _sizes(rng)
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    opset = int(rng.integers(7, 24))
    case = Case(op, tensors(rng, op, steps, rows, inputs, hidden, directions, bias=rng.random() < 0.65,
                            peephole=rng.random() < 0.45, lengths=rng.random() < 0.5, initial_h=rng.random() < 0.5,
                            initial_c=rng.random() < 0.5),
                {"hidden_size": hidden})
    if rng.random() < 0.3 and "sequence_lens" in case.tensors:
        lengths = case.tensors["sequence_lens"]
        lengths[rng.random(lengths.size) < 0.4] = 0
    if rng.random() < 0.5:
        case.opset = opset
    else:
        case.version = version_of(op, opset)
    if direction != "forward" or rng.random() < 0.5:
        case.attributes["direction"] = direction
    if case.version in (14, 22) and rng.random() < 0.5:
        case.attributes["layout"] = 0
    if rng.random() < 0.6:
        _activations(rng, case, op, directions)
    if rng.random() < 0.4:
        case.attributes["clip"] = float(np.float32(rng.uniform(0.1, 1.5)))
        case.clip_cell_input = False
    if op == "LSTM" and rng.random() < 0.25:
        case.attributes["input_forget"] = int(rng.choice([0, 1]))
    if op == "GRU" and rng.random() < 0.7:
        case.attributes["linear_before_reset"] = int(rng.choice([0, 1]))
    return case


def tame(case: Case):
    """The formulas' outputs, or None where the draw is to be thrown away."""
    trace = formulas.Trace()
    rng = np.random.default_rng(40)
    nudged = case.changed(**{k: v.astype(np.float64) * (1 + NUDGE * rng.choice([-1, 1], v.shape))
                             for k, v in case.tensors.items() if k in ("X", "W", "R")})
    with np.errstate(over="ignore", invalid="ignore"):
        outputs = formulas.run(case, trace)
        if not trace.largest < LARGEST or trace.nearest_jump < NEAREST_JUMP:
            return None
        others = formulas.run(nudged)
    for name, value in outputs.items():
        if not np.allclose(others[name], value, rtol=NUDGED_MAY_DIFFER_BY, atol=NUDGED_MAY_DIFFER_BY):
            return None
    return outputs


def draw_of_type(rng, dtype) -> Case:
    """Any operator of any dialect in `dtype`: also what onnxruntime can't do or does otherwise."""
    op = str(rng.choice(["LSTM", "GRU", "RNN", "LSTMSequence", "GRUSequence", "RNNSequence"]))
    kind = op.removesuffix("Sequence")
    steps, rows, inputs, hidden = int(rng.integers(1, 8)), int(rng.choice([1, 2, 3, 5])), *(
        int(v) for v in rng.choice([1, 2, 3, 5, 8, 13, 17], size=2))
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    t = tensors(rng, kind, steps, rows, inputs, hidden, directions, bias=rng.random() < 0.6,
                peephole=rng.random() < 0.5, lengths=rng.random() < 0.6, initial_h=rng.random() < 0.5,
                initial_c=rng.random() < 0.5)
    if "sequence_lens" in t and rng.random() < 0.4:
        t["sequence_lens"][rng.integers(0, rows)] = 0
    case = Case(op, t, {"hidden_size": hidden, "direction": direction})
    case.empty_row_state = str(rng.choice(["zeros", "initial"]))
    if op == kind:
        if rng.random() < 0.5:
            _activations(rng, case, op, directions)
        if rng.random() < 0.4:
            case.attributes["clip"] = float(np.float32(rng.uniform(0.1, 1.5)))
            case.clip_cell_input = bool(rng.integers(0, 2))
        if kind == "LSTM" and rng.random() < 0.3:
            case.attributes["input_forget"] = 1
        if kind == "GRU" and rng.random() < 0.5:
            case.attributes["linear_before_reset"] = 1
        case.version = 22 if dtype.name == "bfloat16" else 14
        if rng.random() < 0.6:
            case.attributes["layout"] = 1
            for name in ("X", "initial_h", "initial_c"):
                if name in t:
                    t[name] = np.ascontiguousarray(t[name].swapaxes(0, 1))
    else:
        _to_openvino(rng, case, kind, steps, rows, directions, hidden)
    for name, value in t.items():
        if value.dtype == np.float32:
            t[name] = value.astype(dtype)
    return case


def _to_openvino(rng, case, kind, steps, rows, directions, hidden):
    t = case.tensors
    case.version = int(rng.choice([1, 5])) if kind == "LSTM" else 5
    t["X"] = np.ascontiguousarray(t["X"].swapaxes(0, 1))
    t.pop("P", None)
    states = [("initial_h", "initial_hidden_state")] + ([("initial_c", "initial_cell_state")] if kind == "LSTM" else [])
    for old, new in states:
        value = t.pop(old, None)
        t[new] = (np.zeros((rows, directions, hidden), np.float32) if value is None
                  else np.ascontiguousarray(value.swapaxes(0, 1)))
    lengths = t.pop("sequence_lens", np.full(rows, steps))
    t["sequence_lengths"] = lengths.astype(rng.choice([np.int32, np.int64]))
    blocks = GATES[kind]
    if kind == "GRU" and rng.random() < 0.5:
        case.attributes["linear_before_reset"] = 1
        blocks = 4
    t["B"] = _uniform(rng, (directions, blocks * hidden), 0.6)
    if rng.random() < 0.4:
        case.attributes["activations"] = [str(v) for v in rng.choice(["sigmoid", "tanh", "relu", "Sigmoid"],
                                                                     size=FUNCTION_COUNT[kind])]
    if rng.random() < 0.5:
        case.attributes["clip"] = float(np.float32(rng.choice([0.0, 0.4, 0.9])))
