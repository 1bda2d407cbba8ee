# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 1's BasicLSTMCell (and LSTMCell without peepholes and projection)."""

import numpy as np
import numpy.typing as npt

from rnnserve.convert.blocks import check_shape, reorder_blocks
from rnnserve.operators import Operator


def tf1_basic_lstm(kernel: npt.ArrayLike, bias: npt.ArrayLike, *, forget_bias: float = 1.0, layout: int = 0,
                   version: int = 14) -> Operator:
    """The operator of a BasicLSTMCell.

    kernel [I+H, 4H] with columns i, j, f, o (j: the new input), bias [4H]. forget_bias is what the cell adds to f when
    it runs; it is not in the file, and 1.0 unless the cell was made with another. layout 1: X [N, T, I].
    """
    kernel = np.asarray(kernel)
    if kernel.ndim != 2 or kernel.shape[1] % 4 or kernel.shape[0] < kernel.shape[1] // 4:
        raise ValueError(f"kernel has shape {list(kernel.shape)}; a BasicLSTMCell has [I+H, 4H]")
    hidden = kernel.shape[1] // 4
    width = kernel.shape[0] - hidden
    bias = np.array(check_shape("bias", bias, (4 * hidden,), f"a kernel of shape {list(kernel.shape)}"))
    bias[2 * hidden:3 * hidden] += bias.dtype.type(forget_bias)
    order = (0, 3, 2, 1)
    rows = reorder_blocks(kernel.T, order)
    both = np.concatenate([reorder_blocks(bias, order), np.zeros_like(bias)])
    attributes = {"hidden_size": hidden}
    if layout:
        attributes["layout"] = layout
    return Operator("LSTM", version=version, attributes=attributes,
                    weights={"W": rows[None, :, :width], "R": rows[None, :, width:], "B": both[None]})
