# SPDX-License-Identifier: Apache-2.0
"""What of a session's window the replies in flight will take, so that each that has to be asked for again is still there:
nothing more is sent than fits, and at least one operation at a time.

How large a chunk's reply is, the first one with the same outputs tells: Y grows with the steps, the others do not. Until
then, chunks go one at a time.
"""

import math

from rnnserve.sessions import operations as ops

_FIXED_BYTES = 256  # what the server counts besides tensors (docs/sessions.md)
_MOST_OUTPUT_LISTS = 64


class ReplyRoom:
    """window_bytes: as agreed at Open; 0: nobody keeps replies, so nothing is held back."""

    def __init__(self, window_bytes=0):
        self.window_bytes = window_bytes
        self._sizes = {}  # outputs -> (fixed bytes, bytes a step and row)

    def expect(self, operation):
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

    def fits(self, expected, others):
        """Whether it may go out next to others whose replies take that."""
        if not self.window_bytes or not others:
            return True
        return expected is not None and None not in others and expected + sum(others) <= self.window_bytes

    def learn(self, operation, outputs):
        if not self.window_bytes or not isinstance(operation, ops.Chunk):
            return
        steps = _steps(operation)
        fixed, per_step = _FIXED_BYTES, 0
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

    def forget(self):
        """The session gets other rows."""
        self._sizes.clear()


def _block(size):
    """The server counts whole blocks of its allocator: up to a fourth more."""
    return size + size // 4 + 16


def _steps(chunk):
    """Steps times rows of X, whichever comes first."""
    return math.prod(next((tensor.shape[:-1] for tensor in chunk.inputs if tensor.name == "X"), (0,)))
