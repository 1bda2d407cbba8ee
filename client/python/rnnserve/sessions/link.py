# SPDX-License-Identifier: Apache-2.0
"""One server as the sessions on it see it: a connection of their own and one stream for all of them, opened again
whenever it breaks."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

import grpc
from grpc_health.v1 import health_pb2

from rnnserve import methods
from rnnserve.backends import Channel, ChannelClosed, Mailbox, Metadata
from rnnserve.errors import RnnServeError, from_rpc_error
from rnnserve.methods import Method, ReplyT, RequestT
from rnnserve.sessions import wire
from rnnserve.sessions.entry import Sending
from rnnserve.sessions.operations import Answer
from rnnserve.v1 import sessions_pb2

if TYPE_CHECKING:
    from rnnserve.sessions.core import SessionCore
    from rnnserve.sessions.driver import Driver

_MOST_OPERATIONS = 64
_MOST_BYTES = 1 << 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
# Without a word while answers are due, a sign of life is asked for; without one in as long again, the line is replaced.
SILENCE_SECONDS = 5.0
# gRPC's word for a message above the server's limit, which ends the stream.
_TOO_LARGE = "message larger than max"
# And for a call whose connection never came to be.
NO_CONNECTION = "failed to connect to all addresses"
# A second try does not help.
_FINAL = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED)


class Link:
    """`driver` gives the lock (held around everything here that says so), and what to do with replies."""

    def __init__(self, driver: Driver, address: str, connect: Callable[[str], Channel], route: str = "") -> None:
        self.address = address
        self.leaving = False
        self.retired = False  # takes no more sessions, and closes with its last one
        self.sessions: set[SessionCore] = set()  # under the lock
        self.attempts = 0  # to open one here, under way; under the lock
        self.down_since: float | None = time.monotonic()  # None: connected, as far as is known
        self._driver = driver
        self._connect = connect
        self._channel = connect(address)
        self._heard = time.monotonic()
        self._probed: float | None = None  # since when a sign of life is waited for; under the lock
        # The route: load balancers send the calls of this link to one server while it is there.
        self._route = route or uuid.uuid4().hex
        self._expected: dict[str, tuple[SessionCore, int]] = {}  # tag -> (session, bytes sent); under the lock
        # The stream's operations while there is a stream; under the lock.
        self._requests: Mailbox[sessions_pb2.Operation | None] | None = None
        self._closing = driver.backend.event()
        self._thread: int | None = None  # that reads replies
        driver.backend.start(self._run)

    @property
    def up(self) -> bool:
        """Whether operations may be put on the wire. Under the lock."""
        return self._requests is not None

    @property
    def closed(self) -> bool:
        return self._closing.is_set()

    def again(self) -> Link:
        """Another link to the same server."""
        link = Link(self._driver, self.address, self._connect, self._route)
        link.leaving, link.retired = self.leaving, True
        return link

    def is_own_thread(self) -> bool:
        return threading.get_ident() == self._thread

    async def open(self, request: sessions_pb2.OpenRequest, timeout: float) -> sessions_pb2.OpenResponse:
        """Sessions.Open; raises RnnServeError."""
        return await self._call(methods.OPEN, request, timeout)

    async def is_serving(self, timeout: float) -> bool:
        """What its health says. A server that is reached and says nothing about it is taken to serve."""
        try:
            reply = await self._call(methods.CHECK_HEALTH, health_pb2.HealthCheckRequest(), timeout)
        except RnnServeError as error:
            if error.code == grpc.StatusCode.UNAVAILABLE:
                raise
            return True
        return reply.status != health_pb2.HealthCheckResponse.NOT_SERVING

    async def get_state(self, key: str, timeout: float) -> sessions_pb2.GetStateResponse:
        """Sessions.GetState of what is committed; raises RnnServeError."""
        return await self._call(methods.GET_STATE, sessions_pb2.GetStateRequest(session=key), timeout)

    def put(self, session: SessionCore, sending: Sending) -> None:
        """Under the lock, while `up`."""
        assert self._requests is not None
        now = time.monotonic()
        message = wire.encode_operation(session.handle, sending, now)
        if not self._expected:
            self._heard = now  # nothing was due before
        self._expected[sending.tag] = (session, message.ByteSize())
        self._requests.put(message)

    def look(self, now: float) -> None:
        """Notices a line that is dead without saying so: half-open, as after a lost route. Under the lock.

        A server that computes for long answers a probe at once; where nothing comes, another connection is made, and
        what had been sent joins its first sending there."""
        if not self._expected or now - self._heard < SILENCE_SECONDS or self._requests is None:
            self._probed = None
        elif self._probed is None:
            self._probed = now
            self._requests.put(sessions_pb2.Operation(request_id="alive?", get_state=sessions_pb2.GetStateRequest()))
        elif now - self._probed > SILENCE_SECONDS:
            self._probed = None
            dead, self._channel = self._channel, self._connect(self.address)
            dead.close()

    def remove(self, session: SessionCore) -> None:
        """Under the lock."""
        self.sessions.discard(session)
        self.close_if_done()

    def close_if_done(self) -> None:
        """Once it takes no more sessions and has none. Under the lock."""
        if self.retired and not self.sessions and not self.attempts:
            self.close()

    def close(self) -> None:
        """Says goodbye to the server once all is answered; does not wait. Under the lock."""
        self._closing.set()
        if self._requests is not None:
            self._requests.put(None)

    def abort(self) -> None:
        """Ends calls and connection now. Under the lock."""
        self.close()
        self._channel.close(gently=True)

    def _metadata(self) -> Metadata:
        return (("x-session-route", self._route), *self._driver.metadata())

    async def _call(self, method: Method[RequestT, ReplyT], request: RequestT, timeout: float) -> ReplyT:
        try:
            return await self._channel.unary(method, request, timeout, self._metadata())
        except grpc.RpcError as error:
            raise from_rpc_error(error, self.address) from None
        except ChannelClosed as error:
            raise RnnServeError(grpc.StatusCode.UNAVAILABLE, f"the connection to {self.address} was closed") from error

    async def _run(self) -> None:
        self._thread = threading.get_ident()
        pause, broke = _FIRST_PAUSE, False
        while not self._closing.is_set():
            requests: Mailbox[sessions_pb2.Operation | None] = self._driver.backend.mailbox()
            error = None
            try:
                call = self._channel.stream(methods.STREAM, _batches(requests), self._metadata())
                self._begin(requests)
                if await call.started():  # the server has taken the stream
                    self.down_since, pause = None, _FIRST_PAUSE
                    if broke:
                        self._count_reconnect()
                while (message := await call.receive()) is not None:
                    self._heard = time.monotonic()
                    self.down_since, pause = None, _FIRST_PAUSE
                    self._take(message)
            except grpc.RpcError as raised:
                error = from_rpc_error(raised, self.address)
            except ChannelClosed:
                error = RnnServeError(grpc.StatusCode.UNAVAILABLE, f"the connection to {self.address} was closed")
            except RnnServeError as raised:  # there is no token
                error = raised
            requests.put(None)
            broke = True
            self._end(error)
            await self._closing.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._channel.close()

    def _begin(self, requests: Mailbox[sessions_pb2.Operation | None]) -> None:
        """There is a stream."""
        with self._driver.changing():
            self._requests = requests
            if self._closing.is_set():
                requests.put(None)
            for session in list(self.sessions):
                session.journal.cut()
                self._driver.pump(session)

    def _end(self, error: RnnServeError | None) -> None:
        """There is none any more."""
        with self._driver.changing():
            self._requests = None
            if error is not None and NO_CONNECTION in error.message:
                for session in self.sessions:
                    session.journal.cut(never_left=True)
            if error is not None and _TOO_LARGE in error.message and self._expected:
                tag, (session, _) = max(self._expected.items(), key=lambda item: item[1][1])
                session.journal.unsendable(tag, error)
            self._expected.clear()
            if self.down_since is None:
                self.down_since = time.monotonic()
            self._driver.broken(self, error, error is not None and error.code in _FINAL)

    def _take(self, message: sessions_pb2.StreamResponse) -> None:
        answers = [(reply.request_id, self._decode(reply)) for reply in message.replies]
        for _, answer in answers:
            if type(answer.value) is list:
                answer.value = [(handle, self) for handle in _handles(answer)]  # where the forks are
        with self._driver.changing():
            for tag, answer in answers:
                expected = self._expected.pop(tag, None)
                if expected is not None:
                    session, _ = expected
                    session.journal.answered(tag, answer)
                    self._driver.pump(session)
            if message.HasField("drain"):
                self._driver.leaving(self)

    def _count_reconnect(self) -> None:
        with self._driver.changing():
            for session in self.sessions:
                session.journal.repairs["reconnects"] += 1

    def _decode(self, reply: sessions_pb2.OperationReply) -> Answer:
        try:
            return wire.decode_reply(reply)
        except (ValueError, TypeError) as error:
            why = f"{self.address} sent a reply that this client cannot read: {error}"
            return Answer(error=RnnServeError(grpc.StatusCode.INTERNAL, why, reason="UNREADABLE_REPLY"))


def _handles(answer: Answer) -> list[wire.Handle]:
    handles: list[wire.Handle] = answer.value
    return handles


async def _batches(requests: Mailbox[sessions_pb2.Operation | None]) -> AsyncGenerator[sessions_pb2.StreamRequest, None]:
    """StreamRequests of what is in the mailbox by then, until None; one above _MOST_BYTES goes alone."""
    operation = await requests.get()
    while operation is not None:
        batch, size = [operation], operation.ByteSize()
        operation = None
        while len(batch) < _MOST_OPERATIONS:
            try:
                operation = requests.get_nowait()
            except queue.Empty:
                break
            if operation is None:
                yield sessions_pb2.StreamRequest(operations=batch)
                return
            size += operation.ByteSize()
            if size > _MOST_BYTES:
                break
            batch.append(operation)
            operation = None
        yield sessions_pb2.StreamRequest(operations=batch)
        if operation is None:
            operation = await requests.get()
