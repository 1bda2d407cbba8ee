# SPDX-License-Identifier: Apache-2.0
"""Files of models, piece by piece to the server and from it, and how far one has come."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import BinaryIO, TextIO

import grpc

from rnnserve.errors import RnnServeError
from rnnserve.v1 import models_pb2

Progress = Callable[[int, int], None]  # bytes so far, and of the whole file
_PIECE_BYTES = 1 << 20  # the server takes no larger ones


class ProgressLine:
    """One line that tells how far a file is: on a terminal only, so that a pipe or a log gets nothing of it."""

    def __init__(self, verb: str, output: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        target: TextIO = sys.stderr if output is None else output
        self._verb, self._now = verb, now
        self._output = target if target.isatty() else None
        self._began = self._shown = now()

    def __call__(self, done: int, total: int) -> None:
        now = self._now()
        if self._output is None or (done < total and now - self._shown < 0.1):
            return
        self._shown = now
        rate = done / max(now - self._began, 1e-3)
        self._output.write(f"\r\x1b[K{self._verb} {done / 2**20:.1f} of {total / 2**20:.1f} MiB, "
                           f"{100 * done / max(total, 1):.0f} %, {rate / 2**20:.1f} MiB/s")
        self._output.flush()

    def end(self) -> None:
        if self._output is not None:
            self._output.write("\r\x1b[K")
            self._output.flush()


@contextlib.contextmanager
def shown(verb: str, progress: bool | Progress) -> Generator[Progress, None, None]:
    """What hears of each piece."""
    if progress is True:
        line = ProgressLine(verb)
        try:
            yield line
        finally:
            line.end()
    else:
        yield progress or (lambda done, total: None)


class Sending:
    """The messages of an upload. What the file or `progress` raises ends them, and is kept in `failure`: gRPC would log it."""

    def __init__(self, begin: models_pb2.UploadRequest.Begin, file: BinaryIO, progress: Progress) -> None:
        self._begin, self._file, self._progress = begin, file, progress
        self.failure: Exception | None = None
        self.reply: models_pb2.LoadResponse | None = None

    async def messages(self) -> AsyncGenerator[models_pb2.UploadRequest, None]:
        yield models_pb2.UploadRequest(begin=self._begin)
        sent = 0
        try:
            while piece := self._file.read(_PIECE_BYTES):
                yield models_pb2.UploadRequest(chunk=piece)
                sent += len(piece)
                self._progress(sent, self._begin.file_bytes)
        except Exception as error:  # noqa: BLE001
            self.failure = error

    def take(self, reply: models_pb2.LoadResponse) -> None:
        self.reply = reply

    def whole(self) -> models_pb2.ModelInfo:
        if self.reply is None:
            raise RnnServeError(grpc.StatusCode.INTERNAL, "the server ended the upload without an answer")
        return self.reply.model


class Receiving:
    """The messages of a download, written to a file."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file, self._progress = file, progress
        self._begin = models_pb2.DownloadResponse.Begin()
        self._received = 0

    def take(self, message: models_pb2.DownloadResponse) -> None:
        if message.HasField("begin"):
            self._begin = message.begin
            return
        self._file.write(message.chunk)
        self._received += len(message.chunk)
        self._progress(self._received, self._begin.file_bytes)

    def whole(self) -> models_pb2.ModelInfo:
        if self._received != self._begin.file_bytes:
            raise RnnServeError(grpc.StatusCode.DATA_LOSS,
                                f"the server sent {self._received} of {self._begin.file_bytes} bytes")
        return self._begin.model


async def only(request: models_pb2.DownloadRequest) -> AsyncGenerator[models_pb2.DownloadRequest, None]:
    yield request
