# SPDX-License-Identifier: Apache-2.0
"""Waits by blocking the thread that calls. Coroutines over this backend never suspend: run them with finish()."""

import queue
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar

import grpc

from rnnserve.backends import ChannelClosed, ChannelOptions, Metadata, addresses_of
from rnnserve.methods import Method, ReplyT, RequestT

T = TypeVar("T")


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine over this backend returns or raises."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError("a coroutine over threads has suspended")


def items(generator: AsyncGenerator[T, None]) -> Iterator[T]:
    """Of an asynchronous generator over this backend."""
    while True:
        try:
            item = finish(generator.__anext__())
        except StopAsyncIteration:
            return
        yield item


class Event:
    def __init__(self) -> None:
        self._event = threading.Event()
        self.set, self.is_set = self._event.set, self._event.is_set

    async def wait(self, timeout: float) -> bool:
        return self._event.wait(timeout)


class Mailbox(Generic[T]):
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[T] = queue.SimpleQueue()
        self.put, self.get_nowait = self._queue.put, self._queue.get_nowait

    async def get(self) -> T:
        return self._queue.get()


class StreamCall(Generic[T]):
    def __init__(self, call: Any, channel: "Channel") -> None:
        self._call = call
        self._channel = channel

    async def started(self) -> bool:
        self._call.initial_metadata()
        return bool(self._call.is_active())

    async def receive(self) -> T | None:
        try:
            message: T | None = next(self._call, None)
            return message
        except grpc.RpcError:
            if self._channel.closed:
                raise ChannelClosed from None
            raise

    def cancel(self) -> None:
        self._call.cancel()


class Channel:
    def __init__(self, channel: grpc.Channel) -> None:
        self.closed = False
        self._channel = channel
        self._stubs: dict[Method[Any, Any], Any] = {}

    async def unary(self, method: Method[RequestT, ReplyT], request: RequestT, timeout: float | None,
                    metadata: Metadata) -> ReplyT:
        call = self._stubs.get(method)
        if call is None:
            call = self._stubs[method] = method.stub(self._channel.unary_unary)
        try:
            reply: ReplyT = call(request, timeout=timeout, metadata=metadata)
            return reply
        except (grpc.RpcError, ValueError):  # ValueError: gRPC's word for a channel that is closed already
            if self.closed:
                raise ChannelClosed from None
            raise

    def stream(self, method: Method[RequestT, ReplyT], requests: AsyncGenerator[RequestT, None],
               metadata: Metadata, timeout: float | None = None) -> StreamCall[ReplyT]:
        try:
            start = method.stub(self._channel.stream_stream)
            return StreamCall(start(items(requests), timeout=timeout, metadata=metadata), self)
        except ValueError:
            if self.closed:
                raise ChannelClosed from None
            raise

    def close(self, gently: bool = False) -> None:
        self.closed = True
        self._channel.close()


class Threads:
    def connect(self, address: str, credentials: grpc.ChannelCredentials | None, options: ChannelOptions) -> Channel:
        if credentials is None:
            return Channel(grpc.insecure_channel(address, options=options))
        return Channel(grpc.secure_channel(address, credentials, options=options))

    async def resolve(self, host: str, port: int) -> list[str]:
        return addresses_of(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        threading.Thread(target=lambda: finish(run()), name="rnnserve sessions", daemon=True).start()

    def after(self, seconds: float, function: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, function)
        timer.daemon = True
        timer.start()

    def event(self) -> Event:
        return Event()

    def mailbox(self) -> Mailbox[Any]:
        return Mailbox()
