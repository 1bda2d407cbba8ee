# SPDX-License-Identifier: Apache-2.0
"""How the client waits: on threads (rnnserve.Client), or on an asyncio loop (rnnserve.aio.Client).

What a client does is written once, as coroutines over a Backend. On threads these block inside and never suspend, so
that finish() (threads.py) runs one like a plain function; on a loop they are awaited.
"""

import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

import grpc

from rnnserve.methods import Method, ReplyT, RequestT

Metadata = Sequence[tuple[str, str | bytes]]
ChannelOptions = Sequence[tuple[str, Any]]
T = TypeVar("T")
ReplyCoT = TypeVar("ReplyCoT", covariant=True)


class ChannelClosed(Exception):
    """A call on a channel that this client has closed, or that was under way when it did."""


class Event(Protocol):
    def set(self) -> None: ...

    def is_set(self) -> bool: ...

    async def wait(self, timeout: float) -> bool:
        """Whether it was set within so many seconds."""
        ...


class Mailbox(Protocol, Generic[T]):
    """First in, first out. Any thread may put where there are threads."""

    def put(self, item: T) -> None: ...

    async def get(self) -> T: ...

    def get_nowait(self) -> T:
        """Raises queue.Empty."""
        ...


class StreamCall(Protocol[ReplyCoT]):
    async def started(self) -> bool:
        """Once the server has answered for the first time: whether the call goes on."""
        ...

    async def receive(self) -> ReplyCoT | None:
        """The next message; None at an end with status OK. Raises grpc.RpcError or ChannelClosed."""
        ...

    def cancel(self) -> None:
        """Nothing where it has ended."""
        ...


class Channel(Protocol):
    async def unary(self, method: Method[RequestT, ReplyT], request: RequestT, timeout: float | None,
                    metadata: Metadata) -> ReplyT:
        """Raises grpc.RpcError or ChannelClosed."""
        ...

    def stream(self, method: Method[RequestT, ReplyT], requests: AsyncGenerator[RequestT, None],
               metadata: Metadata, timeout: float | None = None) -> StreamCall[ReplyT]:
        """Raises ChannelClosed. Also of methods that take or give one message."""
        ...

    def close(self, gently: bool = False) -> None:
        """Ends what is under way with ChannelClosed; does not wait. gently: streams may get a second to end."""
        ...


class Backend(Protocol):
    def connect(self, address: str, credentials: grpc.ChannelCredentials | None, options: ChannelOptions) -> Channel: ...

    async def resolve(self, host: str, port: int) -> list[str]:
        """Its IPv4 addresses, else its IPv6 ones, sorted. Raises OSError."""
        ...

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs it beside everything else."""
        ...

    def after(self, seconds: float, function: Callable[[], None]) -> None: ...

    def event(self) -> Event: ...

    def mailbox(self) -> Mailbox[Any]: ...


def addresses_of(infos: Sequence[tuple[Any, ...]]) -> list[str]:
    """Of what getaddrinfo gives. A host with addresses of both kinds is one server with two, not two servers."""
    found = {family: sorted({str(info[4][0]) for info in infos if info[0] == family})
             for family in (socket.AF_INET, socket.AF_INET6)}
    return found[socket.AF_INET] or found[socket.AF_INET6]
