# SPDX-License-Identifier: Apache-2.0
"""A session as its user sees it."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar, overload

import grpc
import numpy.typing as npt

from rnnserve.errors import RnnServeError
from rnnserve.sessions import operations as ops
from rnnserve.sessions.core import Chunk, SessionCore, copied
from rnnserve.sessions.entry import OnDone, Phase
from rnnserve.sessions.operations import Outputs, State
from rnnserve.sessions.verdict import not_sent

T = TypeVar("T")
_CLOSE_SECONDS = 5.0


class Session(SessionCore):
    """The state of parallel rows of a forward operator or model, kept by the server from chunk to chunk.

        with client.session("vad", outputs=["Y_h"]) as session:
            for x in chunks:                  # X [steps, rows, inputs], any number of steps
                y = session.feed(x)["Y_h"]

    Made by Client.session. Every operation is numbered and applied exactly once: after a lost connection it is sent
    again under its number; when the server leaves, the state is carried over to another one. With checkpoint_every=N
    the session also survives a server that was killed. Where the state is gone, what waits and all that comes later
    raises RnnServeError with code DATA_LOSS; nothing goes on from zeros by itself.

    Methods may be called by any thread; operations run in the order of their calls. A call that fails leaves the state
    as it was, and what had been sent behind it fails with ABORTED.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._room = self._driver.condition()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        try:
            self.close()
        except RnnServeError:
            pass  # its state is not wanted any more, and it ends by its idle timeout

    def feed(self, x: Chunk, *, outputs: str | Iterable[str] | None = None, timeout: float | None = None,
             priority: int = 0) -> Outputs:
        """Runs a chunk and returns its outputs, arrays by name.

        x: X (of a whole model the input that brings the steps), or arrays by name (X, and sequence_lens where rows are
        of different lengths; a row of length 0 keeps its state). outputs: names wanted of this chunk instead of the session's. priority: -100 to 100.

        timeout: seconds in which this returns, whether a server answers or not. DEADLINE_EXCEEDED leaves the state as it
        was, but for one reason: OUTCOME_UNKNOWN. Then the chunk was sent and has no answer; it keeps its turn, so do not
        feed it again: state() waits until it is known whether it counts. Without a timeout the session's holds for the
        server, and the client's patience where none answers.
        """
        deadline = _deadline(timeout)
        future: concurrent.futures.Future[Outputs] = self._submit(self._chunk(x, outputs, priority), deadline=deadline)
        try:
            return self._result(future, deadline)
        except concurrent.futures.TimeoutError:
            self._expire()
            return future.result()

    def replies(self, chunks: Iterable[Chunk], *, outputs: str | Iterable[str] | None = None,
                priority: int = 0) -> Iterator[Outputs]:
        """The outputs of every chunk in turn. Up to max_in_flight are under way before the first reply is read.

        Chunks are taken from the iterable as there is room for them; those sent when the loop is left count all the
        same."""
        sent: collections.deque[concurrent.futures.Future[Outputs]] = collections.deque()
        for x in chunks:
            sent.append(self.feed_async(x, outputs=outputs, priority=priority))
            while sent and (sent[0].done() or len(sent) >= self.opening.max_in_flight):
                yield self._result(sent.popleft())
        while sent:
            yield self._result(sent.popleft())

    def feed_async(self, x: Chunk, *, outputs: str | Iterable[str] | None = None, timeout: float | None = None,
                   priority: int = 0) -> concurrent.futures.Future[Outputs]:
        """feed as a concurrent.futures.Future; x may be changed once this returns.

        Waits first while max_in_flight operations have no answer. Callbacks of the future run on the thread that reads
        replies: they must not wait for this client. Where the timeout passes, the future tells it within half a second.
        """
        return self._submit(self._chunk(x, outputs, priority), deadline=_deadline(timeout))

    async def afeed(self, x: Chunk, *, outputs: str | Iterable[str] | None = None, timeout: float | None = None,
                    priority: int = 0) -> Outputs:
        """feed for a program of threads that has an asyncio loop too; where all is asyncio, see rnnserve.aio. Chunks run
        in the order of the calls; a program that makes many at once holds them in memory."""
        future: asyncio.Future[Outputs] = asyncio.wrap_future(
            self._submit(self._chunk(x, outputs, priority), wait=False, deadline=_deadline(timeout)))
        done, _ = await asyncio.wait([future], timeout=timeout)
        if not done:
            self._expire()
        return await future

    def state(self) -> State:
        """The State (arrays by name) after everything called before."""
        state: State = self._result(self._submit(ops.GetState()))
        return state

    def set_state(self, state: Mapping[str, npt.ArrayLike]) -> None:
        """Sets the state. One that state() gave has to be of the same model; other mappings of arrays need only fit."""
        self._result(self._submit(ops.SetState(copied(state))))

    def reset(self, state: Mapping[str, npt.ArrayLike] | None = None) -> None:
        """Back to the start: zeros, or the state given."""
        self._result(self._submit(ops.Reset(None if state is None else copied(state))))

    def select_rows(self, rows: Iterable[int]) -> None:
        """Reorders, repeats or drops rows: row k becomes the old row rows[k]."""
        self._result(self.select_rows_async(rows))

    def select_rows_async(self, rows: Iterable[int]) -> concurrent.futures.Future[Any]:
        """select_rows as a Future, to send the next chunk without waiting."""
        return self._submit(ops.SelectRows(tuple(int(row) for row in rows)))

    def checkpoint(self, name: str) -> None:
        """Names the state as it is now, to rewind to; it is kept here."""
        self.journal.checkpoints[name] = self.state()

    def rewind(self, name: str) -> None:
        """Sets state and position to those of a checkpoint, whichever server has the session by now."""
        self._result(self._submit(self._rewind(name)))

    @overload
    def fork(self) -> Session: ...

    @overload
    def fork(self, count: int) -> list[Session]: ...

    def fork(self, count: int | None = None) -> Session | list[Session]:
        """A new Session that goes on from this one's state; with count a list of them."""
        operation, adopting = self._fork(count)
        future: concurrent.futures.Future[list[Session]] = concurrent.futures.Future()
        self._submit(operation, on_done=adopting(_settle(future)))
        made = self._result(future)
        return made[0] if count is None else made

    @overload
    def close(self) -> None: ...

    @overload
    def close(self, return_state: bool) -> State | None: ...

    def close(self, return_state: bool = False) -> State | None:
        """Ends the session, once what was called before is done; returns its final State if asked. Twice is fine.

        Without return_state it gives up soon where no server answers: the session then ends by its idle timeout."""
        if self.journal.phase is Phase.ENDED and not return_state:
            return None
        closing: concurrent.futures.Future[State] = self._submit(ops.Close(return_state), wait=False)
        while not (return_state or self._wait(closing)):
            if self.link.down_since is None and self.journal.phase is Phase.LIVE:
                continue  # what was called before takes its time
            with self._driver.changing():
                self.journal.end(RnnServeError(grpc.StatusCode.CANCELLED, "the session was closed without an answer"))
                self._driver.pump(self)
            return None
        final = self._result(closing)
        return self._told(final) if return_state else None

    def changed(self) -> None:
        self._room.notify_all()

    def _check_thread(self) -> None:
        if self.link.is_own_thread():
            raise RuntimeError("a callback of a session's future must not wait for its client; hand the work to "
                               "another thread")

    def _result(self, future: concurrent.futures.Future[T], deadline: float | None = None) -> T:
        if not future.done():
            self._check_thread()
        return future.result(_left(deadline))

    def _wait(self, future: concurrent.futures.Future[Any]) -> bool:
        self._check_thread()
        return bool(concurrent.futures.wait([future], _CLOSE_SECONDS).done)

    def _submit(self, operation: ops.Operation, wait: bool = True, on_done: OnDone | None = None,
                deadline: float | None = None) -> concurrent.futures.Future[Any]:
        """A Future of the operation's value."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._driver.changing():
            while wait and self.journal.waiting >= self.opening.max_in_flight and self.journal.phase is not Phase.ENDED:
                self._check_thread()
                if not self._room.wait(_left(deadline)):
                    raise not_sent()
            self._add(operation, on_done or _settle(future), deadline)
        return future


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _settle(future: concurrent.futures.Future[Any]) -> OnDone:
    future.set_running_or_notify_cancel()  # it cannot be taken back any more

    def on_done(value: Any, error: RnnServeError | None) -> None:
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    return on_done
