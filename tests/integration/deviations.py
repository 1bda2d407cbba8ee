# SPDX-License-Identifier: Apache-2.0
"""Where onnxruntime is known to differ from the specification: the rules by which the differential test leaves such
operators out.

Each rule names its section of the operators' specification and how random_operators.py obeys it, and brings an operator
that shows the difference: test_onnxruntime.py checks that the server follows the formulas there and that onnxruntime
does not, so that a rule nobody needs any more is noticed.

Three of the documented deviations are gone in the onnxruntime that tests/requirements.txt pins, and are tested like
everything else: RNN reads activation lists as needed, like LSTM and GRU (section 6: by direction index), RNN's
LeakyRelu, Elu and HardSigmoid have ONNX's defaults (section 6: 0), and RNN ends rows of length 0 in zeros (section 9).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

import random_operators
from operators import Case


@dataclasses.dataclass(frozen=True)
class Rule:
    name: str
    section: str
    left_out: str
    show: Callable[[], Case]
    # What onnxruntime does with the operator of `show`: "differs" or "refuses".
    onnxruntime: str = "differs"


def _case(op, version=14, *, steps=3, rows=2, inputs=3, hidden=4, seed=5, bias=False, peephole=False, initial_h=False,
          **attributes) -> Case:
    rng = np.random.default_rng(seed)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    tensors = random_operators.tensors(rng, op, steps, rows, inputs, hidden, directions, bias=bias, peephole=peephole,
                                       lengths=False, initial_h=initial_h, initial_c=False)
    return Case(op, tensors, {"hidden_size": hidden, **attributes}, version=version)


def _scalar(function, x, **attributes) -> Case:
    """An RNN of one unit whose pre-activation is x itself, exactly."""
    tensors = {"X": np.array([[[x]]], np.float32), "W": np.ones((1, 1, 1), np.float32),
               "R": np.zeros((1, 1, 1), np.float32)}
    return Case("RNN", tensors, {"hidden_size": 1, "activations": [function], **attributes}, version=14)


def _scalar_gru(function, x, **attributes) -> Case:
    """A GRU of one unit with z = 0 (HardSigmoid far below its ramp), so that s = g(x)."""
    tensors = {"X": np.array([[[x]]], np.float32), "W": np.array([[[-100], [0], [1]]], np.float32),
               "R": np.zeros((1, 3, 1), np.float32)}
    return Case("GRU", tensors, {"hidden_size": 1, "activations": ["HardSigmoid", function], **attributes}, version=14)


def _small_clip_large_cell() -> Case:
    case = _case("LSTM", steps=6, clip=0.5)
    case.tensors["initial_c"] = np.full((1, 2, 4), 2.0, np.float32)
    return case


def _layout_1() -> Case:
    return _case("LSTM", layout=1)


def _float64() -> Case:
    case = _case("LSTM")
    return case.changed(**{k: v.astype(np.float64) for k, v in case.tensors.items()})


def _no_hidden_size() -> Case:
    case = _case("GRU")
    del case.attributes["hidden_size"]
    return case


RULES = [
    Rule("alpha of Affine defaults to 0 in LSTM and GRU", "6", "Affine always brings alpha and beta",
         lambda: _case("GRU", activations=["Sigmoid", "Affine"])),
    Rule("alpha of ThresholdedRelu defaults to 0 in LSTM and GRU", "6", "ThresholdedRelu always brings alpha",
         lambda: _case("GRU", activations=["Sigmoid", "ThresholdedRelu"])),
    Rule("alpha and beta of ScaledTanh default to 0 in LSTM and GRU", "6", "ScaledTanh always brings alpha and beta",
         lambda: _case("LSTM", activations=["Sigmoid", "ScaledTanh", "Tanh"])),
    Rule("alpha of Affine defaults to 0 in RNN", "6", "Affine always brings alpha and beta",
         lambda: _case("RNN", activations=["Affine"])),
    Rule("alpha of ThresholdedRelu defaults to 0 in RNN", "6", "ThresholdedRelu always brings alpha",
         lambda: _case("RNN", activations=["ThresholdedRelu"])),
    Rule("beta of ScaledTanh defaults to 0 in RNN", "6", "ScaledTanh always brings alpha and beta",
         lambda: _case("RNN", activations=["ScaledTanh"], activation_alpha=[0.7])),
    Rule("a list with a value for every function is read as needed", "6",
         "a list holds as many values as functions have the parameter",
         lambda: _case("GRU", activations=["Sigmoid", "Elu"], activation_alpha=[0.3, 0.9])),
    Rule("the same in RNN", "6", "a list holds as many values as functions have the parameter",
         lambda: _case("RNN", direction="bidirectional", activations=["Tanh", "Elu"], activation_alpha=[0.3, 0.9])),
    Rule("Softplus overflows", "6", "draws with values of 30 and more are thrown away",
         lambda: _scalar("Softplus", 200.0)),
    Rule("ThresholdedRelu is 0 at alpha itself", "6", "draws within 1e-4 of the jump are thrown away",
         lambda: _scalar("ThresholdedRelu", 0.5, activation_alpha=[0.5])),
    Rule("the same in GRU", "6", "draws within 1e-4 of the jump are thrown away",
         lambda: _scalar_gru("ThresholdedRelu", 0.5, activation_alpha=[0.2, 0.5], activation_beta=[0.5])),
    Rule("Relu turns NaN into 0", "6, 11", "X is finite", lambda: _scalar("Relu", np.nan)),
    Rule("the same in GRU", "6, 11", "X is finite", lambda: _scalar_gru("Relu", np.nan)),
    Rule("RNN tells names apart by case", "6", "onnxruntime is given the names as ONNX spells them",
         lambda: _case("RNN", activations=["tanh"]), "refuses"),
    Rule("C is not clipped before h()", "7", "requests with a clip say clip_cell_input = false",
         _small_clip_large_cell),
    Rule("layout 1 is not implemented", "10", "layout is 0 or absent", _layout_1, "refuses"),
    Rule("float64 is not implemented", "11", "float32 only", _float64, "refuses"),
    Rule("hidden_size is required in LSTM and GRU", "3", "onnxruntime is always given hidden_size",
         _no_hidden_size, "refuses"),
    Rule("versions 1 and 3 are not registered", "4", "opsets 7 and up", lambda: _case("LSTM", version=1,
                                                                                      output_sequence=1), "refuses"),
]
