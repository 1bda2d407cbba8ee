# SPDX-License-Identifier: Apache-2.0
"""What of a session's window the replies in flight will take, so that each that has to be asked for again is still there:
nothing more is sent than fits, and at least one operation at a time.

How large a chunk's reply is, the first one with the same outputs tells: Y grows with the steps, the others do not. Until
then, chunks go one at a time.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from rnnserve.sessions import operations as ops

_FIXED_BYTES = 256  # what the server counts besides tensors (docs/sessions.md)
_MOST_OUTPUT_LISTS = 64


class ReplyRoom:
    """window_bytes: as agreed at Open; 0: nobody keeps replies, so nothing is held back."""

    def __init__(self, window_bytes: int = 0) -> None:
        self.window_bytes = window_bytes
        # By outputs: fixed bytes, and bytes a step and row.
        self._sizes: dict[tuple[str, ...] | None, tuple[int, float]] = {}

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
        fixed, per_step = self._sizes[operation.outputs]
        return fixed + _block(math.ceil(per_step * _steps(operation)))

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
        fixed, per_step = _FIXED_BYTES, 0.0
        for name, array in outputs.items():
            if name != "Y":
                fixed += _block(array.nbytes)
            elif steps:
                per_step = array.nbytes / steps
            else:
                return  # tells nothing
        if len(self._sizes) >= _MOST_OUTPUT_LISTS:
            self._sizes.clear()
        self._sizes[operation.outputs] = fixed, per_step

    def forget(self) -> None:
        """The session gets other rows."""
        self._sizes.clear()


def _block(size: int) -> int:
    """The server counts whole blocks of its allocator: up to a fourth more."""
    return size + size // 4 + 16


def _steps(chunk: ops.Chunk) -> int:
    """Steps times rows of X, whichever comes first."""
    return math.prod(next((tensor.shape[:-1] for tensor in chunk.inputs if tensor.name == "X"), (0,)))
