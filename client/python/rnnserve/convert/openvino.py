# SPDX-License-Identifier: Apache-2.0
"""OpenVINO's LSTMSequence, GRUSequence and RNNSequence as ONNX operators (layout 1).

The server takes the OpenVINO operators as they are (rnnserve.openvino); this is for callers that want ONNX's.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rnnserve.convert.blocks import Array, check_shape, reorder_blocks
from rnnserve.operators import Operator, Options

# ONNX operator, where its blocks come from, and the default functions.
_KINDS = {
    "LSTMSequence": ("LSTM", (1, 3, 0, 2), ("sigmoid", "tanh", "tanh")),
    "GRUSequence": ("GRU", (0, 1, 2), ("sigmoid", "tanh")),
    "RNNSequence": ("RNN", (0,), ("tanh",)),
}
_FUNCTIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "hardsigmoid": "HardSigmoid"}
_HARD_SIGMOID = {"activation_alpha": 0.2, "activation_beta": 0.5}


def openvino_sequence(op_type: str, W: npt.ArrayLike, R: npt.ArrayLike, B: npt.ArrayLike, *, direction: str = "forward",
                      activations: Sequence[str] = (), activations_alpha: Sequence[float] = (),
                      activations_beta: Sequence[float] = (), clip: float = math.inf, linear_before_reset: bool = False,
                      version: int = 14) -> Operator:
    """The ONNX operator, layout 1, of an OpenVINO sequence operator.

    W [D, G*H, I], R [D, G*H, H], B [D, G*H] (GRUSequence with linear_before_reset: [D, 4H]); rows f, i, c, o or
    z, r, h. Lists of functions and of their parameters are by position and serve both directions. clip 0 is none. Inputs of a
    call: X as it was, initial_h and initial_c for the initial states, sequence_lens for sequence_lengths. Outputs:
    openvino_output(Y), Y_h for Ho, Y_c for Co. Raises ValueError for what does not fit.
    """
    if op_type not in _KINDS:
        raise ValueError(f"op_type is {op_type!r}; give one of {', '.join(_KINDS)}")
    onnx_type, order, defaults = _KINDS[op_type]
    W, R = np.asarray(W), np.asarray(R)
    directions, hidden = (2 if direction.lower() == "bidirectional" else 1), R.shape[-1]
    rows = len(order) * hidden
    check_shape("R", R, (directions, rows, hidden), f"{op_type} of direction {direction}")
    check_shape("W", W, (directions, rows, W.shape[-1]), f"{op_type} of direction {direction}")
    attributes: dict[str, Any] = {"direction": direction.lower(), "hidden_size": hidden, "layout": 1}
    attributes.update(_functions(activations or defaults, len(defaults), activations_alpha, activations_beta,
                                 directions))
    if clip < 0 or math.isnan(clip):
        raise ValueError(f"clip is {clip}; 0 is none and a positive one clamps")
    if 0 < clip < math.inf:
        attributes["clip"] = float(clip)
    if onnx_type == "GRU":
        attributes["linear_before_reset"] = int(linear_before_reset)
    biases = _biases(np.asarray(B), directions, hidden, order, onnx_type == "GRU" and linear_before_reset, op_type)
    # OpenVINO clamps the gates only; ONNX's text clamps the cell too.
    options: Options | None = {"clip_cell_input": False} if onnx_type == "LSTM" and "clip" in attributes else None
    return Operator(onnx_type, version=version, attributes=attributes, options=options,
                    weights={"W": reorder_blocks(W, order, axis=1), "R": reorder_blocks(R, order, axis=1), "B": biases})


def openvino_output(Y: npt.ArrayLike) -> Array:
    """OpenVINO's Y [N, D, T, H] of an ONNX layout-1 Y [N, T, D, H]."""
    return np.swapaxes(np.asarray(Y), 1, 2)


def _biases(B: Array, directions: int, hidden: int, order: Sequence[int], apart: bool, op_type: str) -> Array:
    if apart:
        check_shape("B", B, (directions, 4 * hidden), f"{op_type} with linear_before_reset")
        zeros = np.zeros((directions, 2 * hidden), B.dtype)
        return np.concatenate([B[:, :3 * hidden], zeros, B[:, 3 * hidden:]], axis=1)
    check_shape("B", B, (directions, len(order) * hidden), f"{op_type} of {hidden} units")
    return np.concatenate([reorder_blocks(B, order, axis=1), np.zeros_like(B)], axis=1)


def _functions(names: Sequence[str], count: int, alphas: Sequence[float], betas: Sequence[float],
               directions: int) -> dict[str, Any]:
    if len(names) != count:
        raise ValueError(f"activations has {len(names)} names, but {count} are needed (they serve both directions)")
    functions: list[str] = []
    parameters: dict[str, list[float]] = {"activation_alpha": [], "activation_beta": []}
    for place, name in enumerate(names):
        if name.lower() not in _FUNCTIONS:
            raise ValueError(f"activation {name!r} is not one of {', '.join(_FUNCTIONS)}")
        functions.append(_FUNCTIONS[name.lower()])
        if name.lower() == "hardsigmoid":
            for key, given in (("activation_alpha", alphas), ("activation_beta", betas)):
                parameters[key].append(float(given[place]) if place < len(given) else _HARD_SIGMOID[key])
    attributes: dict[str, Any] = {"activations": functions * directions}
    attributes.update({key: values * directions for key, values in parameters.items() if values})
    return attributes
