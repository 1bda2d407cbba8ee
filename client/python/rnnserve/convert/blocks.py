# SPDX-License-Identifier: Apache-2.0
"""Blocks of H rows: what every weight layout is made of."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def reorder_blocks(array: npt.ArrayLike, order: Sequence[int], axis: int = 0) -> Array:
    """Splits `axis` into len(order) equal blocks; block k of the result is block order[k] of the array."""
    array = np.asarray(array)
    if array.shape[axis] % len(order):
        raise ValueError(f"an array of shape {list(array.shape)} does not split into {len(order)} equal blocks "
                         f"along axis {axis}")
    blocks = np.split(array, len(order), axis=axis)
    return np.concatenate([blocks[source] for source in order], axis=axis)


def check_shape(name: str, array: npt.ArrayLike, shape: Sequence[int], why: str) -> Array:
    """The array, or ValueError that names it, its shape and the one expected."""
    array = np.asarray(array)
    if array.shape != tuple(shape):
        raise ValueError(f"{name} has shape {list(array.shape)}, but {why} needs {list(shape)}")
    return array
