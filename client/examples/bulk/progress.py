# SPDX-License-Identifier: Apache-2.0
"""One line that tells how far a long run is: on a terminal only, so that a pipe or a log gets nothing of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO


class Progress:
    """total      rows of the whole corpus
    done       rows that an earlier run has scored
    output     written to if it is a terminal
    now        seconds that only grow
    """

    def __init__(self, total: int, done: int, output: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._total, self._before, self._done, self._now = total, done, done, now
        self._output = output if output.isatty() else None
        self._begin = self._shown = now()

    def add(self, rows: int) -> None:
        self._done += rows
        seconds = self._now()
        if seconds - self._shown >= 0.2 or self._done == self._total:
            self._shown = seconds
            self._show()

    def end(self) -> None:
        if self._output is not None:
            self._output.write("\r\x1b[K")
            self._output.flush()

    def _show(self) -> None:
        if self._output is None:
            return
        rate = (self._done - self._before) / max(self._shown - self._begin, 1e-9)
        left = f", {(self._total - self._done) / rate:.0f} s left" if rate else ""
        self._output.write(f"\r\x1b[K{self._done:,} of {self._total:,} rows, {rate:,.0f} rows/s{left}")
        self._output.flush()
