# SPDX-License-Identifier: Apache-2.0
"""Waits by awaiting, on the asyncio loop that runs (grpc.aio). Nothing is made before a coroutine of it runs."""

import asyncio
import collections
import logging
import queue
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from rnnserve.backends import ChannelClosed, ChannelOptions, Metadata, addresses_of
from rnnserve.methods import Method, ReplyT, RequestT

T = TypeVar("T")
# What a stream has to end by itself. One that is cancelled leaves an event for its loop, which grpc.aio cannot deliver (and
# says so on the log) once that loop is closed.
_GRACE_SECONDS = 1.0


class Event:
    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set, self.is_set = self._event.set, self._event.is_set

    async def wait(self, timeout: float) -> bool:
        try:
            return await asyncio.wait_for(self._event.wait(), timeout)
        except asyncio.TimeoutError:
            return False


class Mailbox(Generic[T]):
    """One reader."""

    def __init__(self) -> None:
        self._items: collections.deque[T] = collections.deque()
        self._filled = asyncio.Event()

    def put(self, item: T) -> None:
        self._items.append(item)
        self._filled.set()

    async def get(self) -> T:
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        return self._items.popleft()

    def get_nowait(self) -> T:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


class StreamCall(Generic[T]):
    def __init__(self, call: Any, channel: "Channel") -> None:
        self._call = call
        self._channel = channel

    async def started(self) -> bool:
        await self._channel.while_open(self._call.initial_metadata())
        return not self._call.done()

    async def receive(self) -> T | None:
        message = await self._channel.while_open(self._call.read())
        return None if message is grpc.aio.EOF else message

    def cancel(self) -> None:
        self._call.cancel()


class Channel:
    def __init__(self, channel: grpc.aio.Channel, keep: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._keep = keep
        self._stubs: dict[Method[Any, Any], Any] = {}
        self._streams: set[asyncio.Task[Any]] = set()  # that wait for the status of each

    async def unary(self, method: Method[RequestT, ReplyT], request: RequestT, timeout: float | None,
                    metadata: Metadata) -> ReplyT:
        if self.closed:
            raise ChannelClosed
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("an aio.Client belongs to the loop that ran when it was first used; make one for each loop")
        call = self._stubs.get(method)
        if call is None:
            call = self._stubs[method] = method.stub(self._channel.unary_unary)
        reply: ReplyT = await self.while_open(call(request, timeout=timeout, metadata=metadata))
        return reply

    def stream(self, method: Method[RequestT, ReplyT], requests: AsyncGenerator[RequestT, None],
               metadata: Metadata, timeout: float | None = None) -> StreamCall[ReplyT]:
        if self.closed:
            raise ChannelClosed
        call = method.stub(self._channel.stream_stream)(requests, timeout=timeout, metadata=metadata)
        ended = asyncio.ensure_future(call.code())
        self._streams.add(ended)
        ended.add_done_callback(self._streams.discard)
        return StreamCall(call, self)

    def close(self, gently: bool = False) -> None:
        if not self.closed:
            self.closed = True
            self._keep(self._close(gently))

    async def _close(self, gently: bool) -> None:
        if gently and self._streams:
            await asyncio.wait(self._streams, timeout=_GRACE_SECONDS)
        await self._channel.close()

    async def while_open(self, waited: Any) -> Any:
        """A channel that is closed cancels whatever waits for its calls, as the loop does for a task that is cancelled."""
        try:
            return await waited
        except (asyncio.CancelledError, grpc.RpcError, grpc.aio.UsageError):
            if self.closed:
                raise ChannelClosed from None
            raise


class Loop:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def connect(self, address: str, credentials: grpc.ChannelCredentials | None, options: ChannelOptions) -> Channel:
        if credentials is None:
            return Channel(grpc.aio.insecure_channel(address, options=options), self._keep)
        return Channel(grpc.aio.secure_channel(address, credentials, options=options), self._keep)

    async def resolve(self, host: str, port: int) -> list[str]:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return addresses_of(infos)

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._keep(run())

    def after(self, seconds: float, function: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, function)

    def event(self) -> Event:
        return Event()

    def mailbox(self) -> Mailbox[Any]:
        return Mailbox()

    async def join(self) -> None:
        """Until everything that was started has ended."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def _keep(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logging.getLogger(__name__).error("a task of a client ended with an error", exc_info=task.exception())
