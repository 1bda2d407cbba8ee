# SPDX-License-Identifier: Apache-2.0
"""A session as a user on an asyncio loop sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Generator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

import grpc
import numpy.typing as npt

from rnnserve.errors import RnnServeError
from rnnserve.sessions import operations as ops
from rnnserve.sessions.core import Chunk, SessionCore, copied
from rnnserve.sessions.entry import OnDone, Phase
from rnnserve.sessions.operations import Outputs, State

_CLOSE_SECONDS = 5.0


class Session(SessionCore):
    """rnnserve.Session with calls that are awaited. Made by aio.Client.session.

    Operations run in the order of their calls. An operation whose task is cancelled keeps its turn: it may have been
    sent, and only its outputs are lost.
    """

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        try:
            await self.close()
        except RnnServeError:
            pass  # its state is not wanted any more, and it ends by its idle timeout

    async def feed(self, x: Chunk, *, outputs: str | Iterable[str] | None = None, timeout: float | None = None,
                   priority: int = 0) -> Outputs:
        """Runs a chunk and returns its outputs, arrays by name. Arguments and errors are those of Session.feed."""
        return await self._feed(x, outputs, timeout, priority)

    async def replies(self, chunks: Iterable[Chunk] | AsyncIterable[Chunk], *, outputs: str | Iterable[str] | None = None,
                      priority: int = 0) -> AsyncIterator[Outputs]:
        """The outputs of every chunk in turn, each as soon as it is there.

        Chunks are taken from the iterable as there is room: up to max_in_flight have no reply that was read. Those sent
        when the loop is left count all the same."""
        room = asyncio.Semaphore(self.opening.max_in_flight)
        sent: asyncio.Queue[asyncio.Future[Outputs] | None] = asyncio.Queue()

        async def send() -> None:
            async for x in _each(chunks):
                await room.acquire()
                sent.put_nowait(self._feed(x, outputs, None, priority))

        sender = asyncio.ensure_future(send())
        sender.add_done_callback(lambda _: sent.put_nowait(None))
        try:
            while (future := await sent.get()) is not None:
                yield await future
                room.release()
            await sender  # raises what the iterable has raised
        finally:
            sender.cancel()

    async def state(self) -> State:
        """The State (arrays by name) after everything called before."""
        state: State = await self._submit(ops.GetState())
        return state

    async def set_state(self, state: Mapping[str, npt.ArrayLike]) -> None:
        """Sets the state. One that state() gave has to be of the same model; other mappings of arrays need only fit."""
        await self._submit(ops.SetState(copied(state)))

    async def reset(self, state: Mapping[str, npt.ArrayLike] | None = None) -> None:
        """Back to the start: zeros, or the state given."""
        await self._submit(ops.Reset(None if state is None else copied(state)))

    async def select_rows(self, rows: Iterable[int]) -> None:
        """Reorders, repeats or drops rows: row k becomes the old row rows[k]."""
        await self._submit(ops.SelectRows(tuple(int(row) for row in rows)))

    async def checkpoint(self, name: str) -> None:
        """Names the state as it is now, to rewind to; it is kept here."""
        self.journal.checkpoints[name] = await self.state()

    async def rewind(self, name: str) -> None:
        """Sets state and position to those of a checkpoint, whichever server has the session by now."""
        await self._submit(self._rewind(name))

    @overload
    async def fork(self) -> Session: ...

    @overload
    async def fork(self, count: int) -> list[Session]: ...

    async def fork(self, count: int | None = None) -> Session | list[Session]:
        """A new Session that goes on from this one's state; with count a list of them."""
        operation, adopting = self._fork(count)
        future: asyncio.Future[list[Session]] = asyncio.get_running_loop().create_future()
        self._submit(operation, adopting(_settle(future)))
        made = await future
        return made[0] if count is None else made

    @overload
    async def close(self) -> None: ...

    @overload
    async def close(self, return_state: bool) -> State | None: ...

    async def close(self, return_state: bool = False) -> State | None:
        """Ends the session, once what was called before is done; returns its final State if asked. Twice is fine.

        Without return_state it gives up soon where no server answers: the session then ends by its idle timeout."""
        if self.journal.phase is Phase.ENDED and not return_state:
            return None
        closing = self._submit(ops.Close(return_state))
        while not return_state and not (await asyncio.wait([closing], timeout=_CLOSE_SECONDS))[0]:
            if self.link.down_since is None and self.journal.phase is Phase.LIVE:
                continue  # what was called before takes its time
            with self._driver.changing():
                self.journal.end(RnnServeError(grpc.StatusCode.CANCELLED, "the session was closed without an answer"))
                self._driver.pump(self)
            return None
        final = await closing
        return self._told(final) if return_state else None

    def _feed(self, x: Chunk, outputs: str | Iterable[str] | None, timeout: float | None,
              priority: int) -> asyncio.Future[Outputs]:
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout  # loops count as time.monotonic() does
        future = self._submit(self._chunk(x, outputs, priority), deadline=deadline)
        if deadline is not None:
            timer = loop.call_at(deadline, self._expire)
            future.add_done_callback(lambda _: timer.cancel())
        return future

    def _submit(self, operation: ops.Operation, on_done: OnDone | None = None,
                deadline: float | None = None) -> asyncio.Future[Any]:
        """A Future of the operation's value."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        with self._driver.changing():
            self._add(operation, on_done or _settle(future), deadline)
        return future


class Opening:
    """What aio.Client.session gives: `await` it for a Session, or use it in an `async with`."""

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, Session]]) -> None:
        self._open = open_
        self._session: Session | None = None

    if not TYPE_CHECKING:  # for programs that no type checker has seen

        def __getattr__(self, name):
            raise AttributeError(f"client.session() has no {name!r} yet: `session = await client.session(...)`, or "
                                 "`async with client.session(...) as session`")

    def __await__(self) -> Generator[Any, None, Session]:
        return self._open().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._open()
        return self._session

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        assert self._session is not None
        await self._session.__aexit__(kind, error, traceback)


async def _each(chunks: Iterable[Chunk] | AsyncIterable[Chunk]) -> AsyncIterator[Chunk]:
    if isinstance(chunks, AsyncIterable):
        async for x in chunks:
            yield x
    else:
        for x in chunks:
            yield x


def _settle(future: asyncio.Future[Any]) -> OnDone:
    def on_done(value: Any, error: RnnServeError | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
            future.exception()  # counts as retrieved: one that is never awaited is no mistake

    return on_done
