# SPDX-License-Identifier: Apache-2.0
"""The client whose calls are awaited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import grpc
import numpy.typing as npt

from rnnserve import results
from rnnserve.aio.session import Opening, Session
from rnnserve.backends import Channel, ChannelOptions, Metadata
from rnnserve.backends.loop import Loop
from rnnserve.backends.threads import Threads, finish
from rnnserve.core import ClientCore, Inputs, LoadBalancing, Token
from rnnserve.methods import Method, ReplyT, RequestT
from rnnserve.operators import Operator, Options
from rnnserve.results import ModelInfo, Result, SessionInfo
from rnnserve.transfer import Progress

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Client(ClientCore):
    """rnnserve.Client with calls that are awaited: the same arguments, results, errors and tries.

    To be used by the tasks of one loop. Close it, or use it in an `async with`.
    """

    def __init__(self, address: str | Iterable[str], *, max_message_bytes: int = 64 * 1024 * 1024,
                 credentials: grpc.ChannelCredentials | None = None, timeout: float | None = None,
                 others: Iterable[str] = (), patience: float = 60.0, token: Token | None = None, metadata: Metadata = (),
                 options: ChannelOptions = (), load_balancing: LoadBalancing = "spread") -> None:
        self._loop = Loop()
        self._transfers: set[Channel] = set()
        super().__init__(self._loop, address, max_message_bytes, credentials, timeout, others, patience, token, metadata,
                         options, load_balancing)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection; calls under way end with CANCELLED, and so do sessions that are still open."""
        self._close()
        for channel in self._transfers:
            channel.close()
        await self._loop.join()

    async def _exchange(self, method: Method[RequestT, ReplyT], requests: AsyncGenerator[RequestT, None],
                        timeout: float | None, take: Callable[[ReplyT], None]) -> None:
        """On a thread: grpc.aio loses the status of a call that the server ends while the client sends."""
        channel = self._own_channel(Threads())
        self._transfers.add(channel)
        try:
            await asyncio.to_thread(finish, self._exchange_over(lambda: channel, method, requests, timeout, take))
        finally:
            self._transfers.discard(channel)
            channel.close()

    async def infer(self, op: Operator | str | None = None, inputs: Inputs | None = None, *, model: str | None = None,
                    version: int | None = None, fingerprint: str | None = None, outputs: str | Iterable[str] = (),
                    engine: str = "", priority: int = 0, request_id: str = "", timeout: float | None = None,
                    **options: Unpack[Options]) -> Result:
        """Runs one operator over whole sequences and returns a Result. Arguments are those of Client.infer."""
        return await self._infer(op, inputs, model, version, fingerprint, outputs, engine, priority, request_id, timeout,
                                 options)

    def session(self, target: str | Operator | None = None, *, version: int | None = None, fingerprint: str | None = None,
                state: Mapping[str, npt.ArrayLike] | None = None, rows: int | None = None,
                outputs: str | Iterable[str] = (), name: str = "", attach: bool = False, must_exist: bool = False,
                checkpoint_every: int = 0, max_in_flight: int = 8,
                idle_timeout: float | None = None, window_operations: int | None = None,
                window_bytes: int | None = None, engine: str = "", state_type: str | None = None, durability: str | None = None,
                timeout: float | None = 60.0, **options: Unpack[Options]) -> Opening:
        """Opens a Session: `async with client.session(...) as session`, or `session = await client.session(...)`.

        Arguments are those of Client.session."""
        return Opening(lambda: self._open_session(
            Session, target, version, fingerprint, state, rows, outputs, name, attach, must_exist, checkpoint_every,
            max_in_flight,
            idle_timeout, window_operations, window_bytes, engine, state_type, durability, timeout, options))

    async def sessions(self, *, page_size: int | None = None, timeout: float | None = None) -> AsyncIterator[SessionInfo]:
        """Every session of the caller that the first server holds, fetched page by page (None: the server's size)."""
        token, more = "", True
        while more:
            page, token = await self._list_sessions(page_size, token, timeout)
            for info in page:
                yield info
            more = bool(token)

    async def load(self, name: str, model: Operator | Sequence[Operator] | bytes | os.PathLike[str],
                   weights: Inputs | None = None, *, version: int | None = None, engine: str = "",
                   progress: bool | Progress = False, timeout: float | None = None,
                   **options: Unpack[Options]) -> ModelInfo:
        """Uploads a model under a name. Arguments are those of Client.load."""
        return await self._load(name, model, weights, version, engine, progress, timeout, options)

    async def save(self, name: str, path: str | os.PathLike[str], version: int | None = None, *,
                   progress: bool | Progress = False, timeout: float | None = None) -> ModelInfo:
        """Writes the ONNX file of a model to a path. Arguments are those of Client.save."""
        return await self._save(name, path, version, progress, timeout)

    async def load_repository(self, name: str, version: int = 1, *, engine: str = "", timeout: float | None = None,
                              **options: Unpack[Options]) -> ModelInfo:
        """Loads NAME/VERSION/model.onnx of the server's repository folder. Returns ModelInfo."""
        return await self._load_repository(name, version, engine, timeout, options)

    async def unload(self, name: str, version: int | None = None, *, timeout: float | None = None) -> None:
        """Ends new use of a model (version absent: the highest); running calls and open sessions keep it."""
        await self._unload(name, version, timeout)

    async def get(self, name: str | None = None, version: int | None = None, *, fingerprint: str | None = None,
                  timeout: float | None = None) -> ModelInfo:
        """The ModelInfo of a name (and version) or of a fingerprint."""
        return await self._get(name, version, fingerprint, timeout)

    async def models(self, *, timeout: float | None = None) -> list[ModelInfo]:
        """The ModelInfo of every model, by name and version."""
        return [results.model_info(model) for model in (await self._list_models(timeout)).models]

    async def repository_failures(self, *, timeout: float | None = None) -> list[tuple[str, str]]:
        """(path, reason) of every file of the repository folder that could not be loaded."""
        return [(failure.path, failure.reason) for failure in (await self._list_models(timeout)).failures]

    async def health(self, service: str = "", *, timeout: float | None = None) -> str:
        """ "SERVING" or "NOT_SERVING", of the server as a whole or of one service; an unknown one is NOT_FOUND."""
        return await self._check_health(service, timeout)
