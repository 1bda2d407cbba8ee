# SPDX-License-Identifier: Apache-2.0
"""All sessions of a client, and the server of each. Moves them when their server drains or is lost."""

from __future__ import annotations

import collections
import contextlib
import itertools
import logging
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from rnnserve.backends import Backend, Channel, Metadata
from rnnserve.errors import RnnServeError
from rnnserve.lookup import Lookup
from rnnserve.operators import Operator
from rnnserve.servers import Servers
from rnnserve.sessions import wire
from rnnserve.sessions.entry import Phase
from rnnserve.sessions.link import NO_CONNECTION, Link
from rnnserve.sessions.verdict import data_loss
from rnnserve.tries import Patience, backoff, is_refusal, lacks_engine, with_tries
from rnnserve.v1 import sessions_pb2

if TYPE_CHECKING:
    from rnnserve.sessions.core import SessionCore

T = TypeVar("T")

_MOVERS = 4
_CALL_SECONDS = 30.0
_OPEN_TRIES = 6
# A session that can be opened anew moves after this time without an answer.
_FAILOVER_SECONDS = 1.0
# How a connection that breaks shows, directly and through proxies.
_LOST_ON_THE_WAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED,
                    grpc.StatusCode.UNKNOWN)
_REPEAT_SECONDS = 0.02
_WATCH_SECONDS = 0.5


class Driver:
    """connect(address) makes a channel; servers: where sessions may live; metadata() goes with every
    call. On an event loop no task waits for the lock: nothing is awaited under it."""

    def __init__(self, backend: Backend, connect: Callable[[str], Channel], servers: Servers, lookup: Lookup,
                 patience: Patience, metadata: Callable[[], Metadata] = tuple) -> None:
        self.backend = backend
        self.metadata = metadata
        self.patience = patience.seconds
        self._patience = patience
        self._connect = connect
        self._servers = servers
        self._lookup = lookup
        self._lock = threading.RLock()
        self._links: dict[str, Link] = {}  # address -> the Link for new sessions
        self._asked: list[Link] = []  # links with an Open under way, each as often as it has them
        self._sessions: set[SessionCore] = set()
        self._ready: list[tuple[Callable[[Any, Any], object], Any, Any]] = []  # callbacks to run after the lock is released
        # Fingerprints of operators whose weights some server has seen.
        self._known: weakref.WeakKeyDictionary[Operator, str] = weakref.WeakKeyDictionary()
        self._unplaced: collections.deque[SessionCore] = collections.deque()
        self._movers = 0
        self._watching = False
        self._closed = backend.event()

    @contextlib.contextmanager
    def changing(self) -> Generator[None]:
        """The lock around every journal; at the end, runs the callbacks of finished calls."""
        with self._lock:
            yield
            ready, self._ready = self._ready, []
        for on_done, value, error in ready:
            on_done(value, error)

    async def start(self, opening: wire.Opening, state: Any, request_id: str, tell: bool,
                    ) -> tuple[Link, sessions_pb2.OpenResponse, sessions_pb2.GetStateResponse | None]:
        """Opens a session where it is possible first: (link, OpenResponse, GetStateResponse or None).

        tell: if the session was there before, its state is asked for."""

        async def attempt(link: Link) -> tuple[Link, sessions_pb2.OpenResponse, sessions_pb2.GetStateResponse | None]:
            await self._check_health(link)
            reply = await self._open(link, opening, state, request_id)
            known = await link.get_state(reply.session, _CALL_SECONDS) if tell and not reply.created else None
            return link, reply, known

        return await self._ask_in_turn(lambda: self._servers.for_session(opening.name, time.monotonic()), attempt,
                                       may_help=lambda error: error.code == grpc.StatusCode.UNAVAILABLE)

    def adopt(self, session: SessionCore, link: Link) -> None:
        """A session that has just been opened on that link. Under the lock."""
        self.check_open()
        if link.closed:  # another Open was refused there meanwhile
            link = link.again()
        self._sessions.add(session)
        session.link = link
        link.sessions.add(session)
        if link.leaving:
            session.journal.drain()
        if not self._watching:
            self._watching = True
            self.backend.start(self._watch)

    def pump(self, session: SessionCore) -> None:
        """Whatever follows from the journal's new state. Under the lock."""
        journal = session.journal
        if session.link.up:
            for sending in journal.sendable():
                session.link.put(session, sending)
        if journal.hold_seconds is not None and not session.timer_runs:
            session.timer_runs = True
            self.backend.after(journal.hold_seconds, lambda: self._release(session))
        if journal.phase in (Phase.UNPLACED, Phase.ADRIFT) and not session.moving:
            session.moving = True
            self._unplaced.append(session)
            if self._movers < _MOVERS:
                self._movers += 1
                self.backend.start(self._move_all)
        if journal.phase is Phase.ENDED and session in self._sessions:
            self._sessions.discard(session)
            session.link.remove(session)
        self._ready += journal.take_finished()
        session.changed()

    def expire(self, session: SessionCore, now: float) -> None:
        """Tells the calls that need wait no longer. Under the lock."""
        session.journal.expire(now)
        self.pump(session)

    def condition(self) -> threading.Condition:
        return threading.Condition(self._lock)

    def leaving(self, link: Link) -> None:
        """The link's server drains. Under the lock."""
        self._avoid(link, leaves=True)

    def broken(self, link: Link, error: RnnServeError | None, final: bool) -> None:
        """The link's stream ended; the link opens another by itself. Under the lock."""
        if error is not None and error.code in _LOST_ON_THE_WAY:
            self._servers.refused(link.address, error, time.monotonic())
        down = 0.0 if link.down_since is None else time.monotonic() - link.down_since
        why = f"no answer from {link.address} for {down:.0f} s ({error.message if error else 'the stream ended'})"
        is_dead = error is not None and NO_CONNECTION in error.message and len(self._servers.addresses) > 1
        for session in list(link.sessions):
            journal = session.journal
            journal.cut()
            if final and error is not None:
                journal.end(error)
            elif down > self.patience:
                journal.gone(why)
            elif down > _FAILOVER_SECONDS or is_dead:
                if journal.durable:
                    journal.drift()
                elif journal.recoverable:
                    journal.gone(why)
            self.pump(session)
        if not link.sessions and not link.attempts and down > self.patience and self._links.get(link.address) is link:
            del self._links[link.address]
            link.close()

    def close(self) -> None:
        """Ends every session here, without a word to the server."""
        error = RnnServeError(grpc.StatusCode.CANCELLED, "the client was closed")
        with self.changing():
            self._closed.set()
            for session in list(self._sessions):
                session.journal.end(error)
                self.pump(session)
            for link in {*self._links.values(), *self._asked}:
                link.abort()

    async def pause(self, seconds: float) -> None:
        """Before another try; a client that is closed meanwhile makes none."""
        await self._closed.wait(seconds)
        self.check_open()

    def check_open(self) -> None:
        if self._closed.is_set():
            raise RnnServeError(grpc.StatusCode.CANCELLED, "the client was closed")

    @contextlib.contextmanager
    def _link(self, address: str) -> Generator[Link]:
        """The link for a new session there. It stays open to the end, also if its server refuses other sessions."""
        with self._lock:
            self.check_open()
            if address not in self._links:
                self._links[address] = Link(self, address, self._connect)
            link = self._links[address]
            link.attempts += 1
            self._asked.append(link)
        try:
            yield link
        finally:
            with self._lock:
                link.attempts -= 1
                self._asked.remove(link)
                link.close_if_done()

    def _avoid(self, link: Link, leaves: bool) -> None:
        """Opens no more sessions there; if the server drains, moves its sessions elsewhere. Under the lock."""
        link.leaving = link.leaving or leaves
        link.retired = True
        if self._links.get(link.address) is link:
            del self._links[link.address]
        if leaves:
            for session in list(link.sessions):
                session.journal.drain()
                self.pump(session)
        link.close_if_done()

    async def _open(self, link: Link, opening: wire.Opening, state: Any, request_id: str) -> sessions_pb2.OpenResponse:
        known = self._known.get(opening.op) if opening.op is not None else None
        if known:
            try:
                return await self._repeat(link, opening.request(state, request_id, known))
            except RnnServeError as error:
                if error.reason != "FINGERPRINT_EVICTED":
                    raise
        reply = await self._repeat(link, opening.request(state, request_id))
        if opening.op is not None and opening.op.weights:
            self._known[opening.op] = reply.fingerprint
        return reply

    def _release(self, session: SessionCore) -> None:
        with self.changing():
            session.timer_runs = False
            session.journal.release()
            self.pump(session)

    async def _move_all(self) -> None:
        """A mover: takes one unplaced session after the other."""
        while True:
            with self._lock:
                if not self._unplaced or self._closed.is_set():
                    self._movers -= 1
                    return
                session = self._unplaced.popleft()
            try:
                await (self._follow(session) if session.journal.phase is Phase.ADRIFT else self._move(session))
            except Exception as error:  # calls that wait for this session fail, other sessions still move
                with self.changing():
                    session.journal.end(RnnServeError(grpc.StatusCode.INTERNAL, f"it could not be moved: {error!r}"))
                    self.pump(session)
                logging.getLogger(__name__).exception("a session could not be moved")

    async def _follow(self, session: SessionCore) -> None:
        """A durable session goes on with its key at another server of the store, or at the one that leads on from the same
        address."""
        here, drifts = session.link.address, session.journal.drifts

        def order() -> list[str]:
            return sorted(self._servers.for_session(session.opening.name, time.monotonic()), key=lambda one: one == here)

        async def attempt(link: Link) -> Link:
            await self._check_health(link)
            return link

        if drifts > len(self._servers.addresses):
            await self.pause(backoff(drifts - len(self._servers.addresses)))
        link, error = session.link, None
        try:
            link = await self._ask_in_turn(order, attempt, may_help=lambda _: session.journal.phase is Phase.ADRIFT)
        except RnnServeError as raised:
            if self._closed.is_set():
                return
            error = raised
        with self.changing():
            session.moving = False
            if session.journal.phase is Phase.ADRIFT:
                if error is not None:
                    session.journal.phase = Phase.LIVE
                    session.journal.gone(f"no server goes on with it: {error}")
                else:
                    session.link.remove(session)
                    session.journal.followed(elsewhere=link.address != here)
                    self.adopt(session, link)
            self.pump(session)

    async def _move(self, session: SessionCore) -> None:
        """Opens the session from its snapshot wherever that works first."""
        with self._lock:
            here, snapshot = session.link.address, session.journal.snapshot
            if snapshot is None:  # it has ended meanwhile
                return
        state = snapshot.state
        opening = session.opening.anew(state)
        request_id = f"{session.identity} {session.journal.incarnation + 1}"
        unfit = set[str]()

        def order() -> list[str]:
            known = self._servers.for_session(session.opening.name, time.monotonic())
            return sorted((address for address in known if address not in unfit), key=lambda address: address == here)

        async def attempt(link: Link) -> tuple[Link, sessions_pb2.OpenResponse]:
            await self._check_health(link)
            reply = await self._open(link, opening, state, request_id)
            if reply.fingerprint != session.fingerprint:
                unfit.add(link.address)
                raise RnnServeError(grpc.StatusCode.FAILED_PRECONDITION,
                                    f"{link.address} has another model under the name {session.opening.model!r}")
            return link, reply

        try:
            link, reply = await self._ask_in_turn(
                order, attempt, may_help=lambda _: not unfit.issuperset(self._servers.addresses)
                and session.journal.phase is Phase.UNPLACED)
        except RnnServeError as error:
            if self._closed.is_set():
                return
            with self.changing():
                session.moving = False
                session.journal.end(data_loss(f"no server took its state over: {error}"))
                self.pump(session)
            return
        with self.changing():
            session.moving = False
            if session.journal.phase is Phase.UNPLACED:
                session.link.remove(session)
                session.handle = wire.Handle.of(reply)
                session.journal.opened(wire.window_bytes(reply), wire.is_durable(reply))
                self.adopt(session, link)
            self.pump(session)

    async def _check_health(self, link: Link) -> None:
        """Raises where one of several servers says that it takes nothing new, or does not answer. One RTT."""
        if len(self._servers.addresses) > 1 and not await link.is_serving(_CALL_SECONDS):
            raise RnnServeError(grpc.StatusCode.UNAVAILABLE, f"{link.address} is NOT_SERVING", reason="NOT_SERVING")

    async def _ask_in_turn(self, order: Callable[[], list[str]], attempt: Callable[[Link], Awaitable[T]],
                           may_help: Callable[[RnnServeError], bool]) -> T:
        """What attempt(link) gives at the first address of order() where it raises nothing.

        It tries them in turn while may_help(error), until patience is over. A draining server has opened nothing, so the
        next try at its address is another link, with a route of its own: behind a proxy that may be another server.
        Otherwise the link and its route stay, so that the server recognises an Open whose reply was lost. It does not
        try a server again whose engine is out of service."""
        began, tries, useless = time.monotonic(), 0, set[str]()
        error: RnnServeError | None = None
        await self._lookup.fresh()
        for rounds in itertools.count(1):
            addresses = order()
            for address in [address for address in addresses if address not in useless]:
                tries += 1
                try:
                    return await self._ask(address, attempt)
                except RnnServeError as raised:
                    error = raised
                if lacks_engine(error):
                    useless.add(address)
                if not may_help(error):
                    raise error
                if useless.issuperset(addresses):
                    raise with_tries(error, tries, time.monotonic() - began)
            pause, now = backoff(rounds), time.monotonic()
            if error is not None and now + pause >= self._patience.end(began):
                raise with_tries(error, tries, now - began)
            await self.pause(pause)
        raise AssertionError("there is always another round")

    async def _ask(self, address: str, attempt: Callable[[Link], Awaitable[T]]) -> T:
        with self._link(address) as link:
            try:
                result = await attempt(link)
                self._patience.note()
                self._servers.took(address)
                return result
            except RnnServeError as error:
                self._patience.note(error)
                if error.code == grpc.StatusCode.UNAVAILABLE:
                    self._servers.refused(address, error, time.monotonic())
                    self._lookup.doubt()
                if is_refusal(error):
                    with self.changing():
                        self._avoid(link, leaves=error.reason == "DRAINING")
                raise

    async def _watch(self) -> None:
        """Notices dead lines and ends what waits for too long, while there are sessions."""
        since: dict[SessionCore, tuple[Any, float]] = {}  # what everything waits for, since when
        while not await self._closed.wait(_WATCH_SECONDS):
            now = time.monotonic()
            with self.changing():
                if not self._sessions:
                    self._watching = False
                    return
                for link in {session.link for session in self._sessions}:
                    link.look(now)
                for session in list(self._sessions):
                    self.expire(session, now)
                    head = session.journal.head
                    if head is None or since.get(session, (None, now))[0] is not head:
                        since[session] = (head, now)
                        continue
                    allowed: float | None = getattr(head.operation, "timeout", session.timeout)
                    if allowed is not None and now - since[session][1] > allowed + self.patience:
                        session.journal.end(RnnServeError(
                            grpc.StatusCode.DEADLINE_EXCEEDED,
                            f"no answer within {allowed + self.patience:.0f} s; whether the operation counted is not "
                            "known, so the session has ended"))
                        self.pump(session)
                since = {session: seen for session, seen in since.items() if session in self._sessions}

    async def _repeat(self, link: Link, request: sessions_pb2.OpenRequest) -> sessions_pb2.OpenResponse:
        """Open, repeated where the connection was lost on the way: the request id keeps that from opening two."""
        for tries_left in range(_OPEN_TRIES - 1, -1, -1):
            try:
                return await link.open(request, _CALL_SECONDS)
            except RnnServeError as error:
                if error.reason or is_refusal(error) or error.code not in _LOST_ON_THE_WAY or not tries_left:
                    raise
                if NO_CONNECTION in error.message and len(self._servers.addresses) > 1:
                    raise  # it was not sent, and another server may be there
            await self._closed.wait(_REPEAT_SECONDS)
        raise AssertionError("the last try returns or raises")
