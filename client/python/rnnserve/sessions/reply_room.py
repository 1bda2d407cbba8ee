# SPDX-License-Identifier: Apache-2.0
"""What of a session's window the replies in flight will take, so that each that has to be asked for again is still there:
nothing more is sent than fits, and at least one operation at a time.

How large a chunk's reply is, the first one with the same outputs tells: Y grows with the steps, final states do not, and
of a whole model's outputs either may be. Until then, chunks go one at a time.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from rnnserve.sessions import operations as ops

_LENGTHS = ("sequence_lens", "sequence_lengths")
_FINAL_STATES = ("Y_h", "Y_c", "Ho", "Co")  # of a stack's layers with a number: Y_h.0
_FIXED_BYTES = 256  # what the server counts besides tensors (docs/sessions.md)
_MOST_OUTPUT_LISTS = 64


@dataclasses.dataclass
class _Size:
    fixed: int
    steps: int
    per_step: float = 0.0  # and row
    either: int = 0  # of outputs that may grow with the steps or not


class ReplyRoom:
    """window_bytes: as agreed at Open; 0: the server keeps no replies, so nothing is held back."""

    def __init__(self, window_bytes: int = 0) -> None:
        self.window_bytes = window_bytes
        # By outputs: the reply that was learned from.
        self._sizes: dict[tuple[str, ...] | None, _Size] = {}

    def expect(self, operation: ops.Operation) -> int | None:
        """Of an operation that changes the session; None: not known yet."""
        if not self.window_bytes:
            return 0
        if isinstance(operation, ops.Close) and operation.return_state:
            return None
        if not isinstance(operation, ops.Chunk):
            return _FIXED_BYTES
        if operation.outputs not in self._sizes:
            return None
        size, steps = self._sizes[operation.outputs], _steps(operation)
        grown = math.ceil(size.per_step * steps)
        return size.fixed + _block(grown) + _block(max(size.either, math.ceil(size.either * steps / size.steps)))

    def fits(self, expected: int | None, others: Sequence[int | None]) -> bool:
        """Whether it may go out next to others whose replies take that."""
        if not self.window_bytes or not others:
            return True
        known = [size for size in others if size is not None]
        return expected is not None and len(known) == len(others) and expected + sum(known) <= self.window_bytes

    def learn(self, operation: ops.Operation, outputs: Mapping[str, npt.NDArray[Any]]) -> None:
        if not self.window_bytes or not isinstance(operation, ops.Chunk):
            return
        steps = _steps(operation)
        size = _Size(fixed=_FIXED_BYTES, steps=max(steps, 1))
        for name, array in outputs.items():
            if name.split(".")[0] in _FINAL_STATES:
                size.fixed += _block(array.nbytes)
            elif not steps:
                return  # tells nothing
            elif name == "Y":
                size.per_step = array.nbytes / steps
            else:
                size.either += _block(array.nbytes)
        if len(self._sizes) >= _MOST_OUTPUT_LISTS:
            self._sizes.clear()
        self._sizes[operation.outputs] = size

    def forget(self) -> None:
        """The session gets other rows."""
        self._sizes.clear()


def _block(size: int) -> int:
    """The server counts whole blocks of its allocator: up to a fourth more."""
    return size + size // 4 + 16


def _steps(chunk: ops.Chunk) -> int:
    """Steps times rows of X, or of a whole model's first input, whichever comes first."""
    shape = next((tensor.shape for tensor in chunk.inputs if tensor.name not in _LENGTHS), (0,))
    return math.prod(shape[:-1] if len(shape) > 2 else shape)
