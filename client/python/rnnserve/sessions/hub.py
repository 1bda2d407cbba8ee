# SPDX-License-Identifier: Apache-2.0
"""All sessions of a client: which server each is on, and who moves it when that server leaves or is gone."""

import contextlib
import itertools
import logging
import queue
import threading
import time
import weakref

import grpc

from rnnserve.errors import RnnServeError
from rnnserve.sessions import wire
from rnnserve.sessions.entry import Phase
from rnnserve.sessions.link import Link
from rnnserve.sessions.verdict import data_loss
from rnnserve.tries import backoff, is_refusal, lacks_engine, retold

_MOVERS = 4
_CALL_SECONDS = 30.0
_OPEN_TRIES = 6
# Without an answer for this long, a session that can be opened anew is.
_FAILOVER_SECONDS = 1.0
# How a connection that breaks shows, directly and through proxies.
_LOST_ON_THE_WAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED,
                    grpc.StatusCode.UNKNOWN)
_REPEAT_SECONDS = 0.02
_WATCH_SECONDS = 0.5


class Hub:
    """connect(address) makes a channel; addresses: where sessions may live, the preferred one first; patience: a
    Patience."""

    def __init__(self, connect, addresses, patience):
        self.patience = patience.seconds
        self._patience = patience
        self._connect = connect
        self._addresses = list(addresses)
        self._lock = threading.RLock()
        self._links = {}  # address -> the Link for new sessions
        self._asked = []  # links with an Open under way, each as often as it has them
        self._sessions = set()
        self._ready = []  # callbacks that are due once the lock is free
        self._known = weakref.WeakKeyDictionary()  # fingerprints of operators whose weights some server has seen
        self._moves = queue.SimpleQueue()
        self._movers = 0
        self._watching = False
        self._closed = threading.Event()

    @contextlib.contextmanager
    def changing(self):
        """The lock around every journal; at the end, those who wait are told."""
        with self._lock:
            yield
            ready, self._ready = self._ready, []
        for on_done, value, error in ready:
            on_done(value, error)

    def start(self, opening, state, request_id, tell):
        """Opens a session where it is possible first: (link, OpenResponse, GetStateResponse or None).

        tell: the session may have been used before, so its state is asked for."""

        def attempt(link):
            reply = self._open(link, opening, state, request_id)
            known = link.get_state(reply.session, _CALL_SECONDS) if tell else None
            return link, reply, known

        return self._ask_in_turn(self._addresses, attempt,
                                 goes_on=lambda error: error.code == grpc.StatusCode.UNAVAILABLE)

    def adopt(self, session, link):
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
            self._start_thread(self._watch)

    def pump(self, session):
        """Whatever follows from the journal's new state. Under the lock."""
        journal = session.journal
        if session.link.up:
            for sending in journal.sendable():
                session.link.put(session, sending)
        if journal.hold_seconds is not None and not session.timer_runs:
            session.timer_runs = True
            timer = threading.Timer(journal.hold_seconds, self._release, [session])
            timer.daemon = True
            timer.start()
        if journal.phase is Phase.HOMELESS and not session.moving:
            session.moving = True
            if self._movers < _MOVERS:
                self._movers += 1
                self._start_thread(self._move_all)
            self._moves.put(session)
        if journal.phase is Phase.ENDED and session in self._sessions:
            self._sessions.discard(session)
            session.link.remove(session)
        self._ready += journal.take_finished()
        session.room.notify_all()

    def condition(self):
        return threading.Condition(self._lock)

    def leaving(self, link):
        """That server said that it leaves. Under the lock."""
        self._avoid(link, leaves=True)

    def broken(self, link, error, final):
        """The link's stream ended; the link opens another by itself. Under the lock."""
        down = time.monotonic() - link.down_since
        why = f"no answer from {link.address} for {down:.0f} s ({error.message if error else 'the stream ended'})"
        for session in list(link.sessions):
            journal = session.journal
            journal.cut()
            if final:
                journal.end(error)
            elif (journal.recoverable and down > _FAILOVER_SECONDS) or down > self.patience:
                journal.gone(why)
            self.pump(session)
        if not link.sessions and not link.attempts and down > self.patience and self._links.get(link.address) is link:
            del self._links[link.address]
            link.close()

    def close(self):
        """Ends every session here, without a word to the server."""
        error = RnnServeError(grpc.StatusCode.CANCELLED, "the client was closed")
        with self.changing():
            self._closed.set()
            for session in list(self._sessions):
                session.journal.end(error)
                self.pump(session)
            for link in {*self._links.values(), *self._asked}:
                link.abort()

    def pause(self, seconds):
        """Before another try; a client that is closed meanwhile makes none."""
        self._closed.wait(seconds)
        self.check_open()

    def check_open(self):
        if self._closed.is_set():
            raise RnnServeError(grpc.StatusCode.CANCELLED, "the client was closed")

    @contextlib.contextmanager
    def _link(self, address):
        """The link for a new session there. Until the end it stays open, whatever others are told on it."""
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

    def _avoid(self, link, leaves):
        """No more sessions there, and if it leaves, those that it has are taken elsewhere. Under the lock."""
        link.leaving = link.leaving or leaves
        link.retired = True
        if self._links.get(link.address) is link:
            del self._links[link.address]
        if leaves:
            for session in list(link.sessions):
                session.journal.drain()
                self.pump(session)
        link.close_if_done()

    def _open(self, link, opening, state, request_id):
        known = self._known.get(opening.op) if opening.op is not None else None
        if known:
            try:
                return _repeat(link, opening.request(state, request_id, known))
            except RnnServeError as error:
                if error.reason != "FINGERPRINT_EVICTED":
                    raise
        reply = _repeat(link, opening.request(state, request_id))
        if opening.op is not None and opening.op.weights:
            self._known[opening.op] = reply.fingerprint
        return reply

    def _release(self, session):
        with self.changing():
            session.timer_runs = False
            session.journal.release()
            self.pump(session)

    def _start_thread(self, target):
        threading.Thread(target=target, name="rnnserve sessions", daemon=True).start()

    def _move_all(self):
        """A mover: takes one homeless session after the other."""
        while not self._closed.is_set():
            try:
                session = self._moves.get(timeout=_WATCH_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._moves.empty():
                        self._movers -= 1
                        return
                continue
            try:
                self._move(session)
            except Exception as error:  # whoever waits for the session is told, and the others are moved
                with self.changing():
                    session.journal.end(RnnServeError(grpc.StatusCode.INTERNAL, f"it could not be moved: {error!r}"))
                    self.pump(session)
                logging.getLogger(__name__).exception("a session could not be moved")

    def _move(self, session):
        """Opens the session from its snapshot wherever that works first."""
        here = session.link.address
        state = session.journal.snapshot.state
        opening = session.opening.anew(state)
        request_id = f"{session.identity} {session.journal.incarnation + 1}"
        addresses = sorted(self._addresses, key=lambda address: address == here)

        def attempt(link):
            reply = self._open(link, opening, state, request_id)
            if reply.fingerprint != session.fingerprint:
                addresses.remove(link.address)
                raise RnnServeError(grpc.StatusCode.FAILED_PRECONDITION,
                                    f"{link.address} has another model under the name {session.opening.model!r}")
            return link, reply

        try:
            link, reply = self._ask_in_turn(
                addresses, attempt, goes_on=lambda _: addresses and session.journal.phase is Phase.HOMELESS)
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
            if session.journal.phase is Phase.HOMELESS:
                session.link.remove(session)
                session.key = reply.session
                session.journal.opened(wire.window_bytes(reply))
                self.adopt(session, link)
            self.pump(session)

    def _ask_in_turn(self, addresses, attempt, goes_on):
        """What attempt(link) gives at the first address where it raises nothing.

        They are asked in turn while goes_on(error), until patience is over. A server that leaves has opened nothing, so
        the next try at its address is another link, with a route of its own: behind a proxy that may be another server.
        Otherwise the link stays, and with it the route, so that an Open whose reply was lost meets itself. Where
        the engine is out of service, no second try mends it."""
        began, tries, useless = time.monotonic(), 0, set()
        for rounds in itertools.count(1):
            for address in [address for address in addresses if address not in useless]:
                tries += 1
                with self._link(address) as link:
                    try:
                        result = attempt(link)
                        self._patience.hear()
                        return result
                    except RnnServeError as raised:
                        error = raised
                    self._patience.hear(error)
                    if is_refusal(error):
                        with self.changing():
                            self._avoid(link, leaves=error.reason == "DRAINING")
                if lacks_engine(error):
                    useless.add(address)
                if not goes_on(error):
                    raise error
                if useless.issuperset(addresses):
                    raise retold(error, tries, time.monotonic() - began)
            pause, now = backoff(rounds), time.monotonic()
            if now + pause >= self._patience.end(began):
                raise retold(error, tries, now - began)
            self.pause(pause)

    def _watch(self):
        """Notices dead lines and ends what waits for too long, while there are sessions."""
        since = {}  # session -> (what everything waits for, since when)
        while not self._closed.wait(_WATCH_SECONDS):
            now = time.monotonic()
            with self.changing():
                if not self._sessions:
                    self._watching = False
                    return
                for link in {session.link for session in self._sessions}:
                    link.look(now)
                for session in list(self._sessions):
                    head = session.journal.head
                    if head is None or since.get(session, (None,))[0] is not head:
                        since[session] = (head, now)
                        continue
                    allowed = getattr(head.operation, "timeout", session.timeout)
                    if allowed is not None and now - since[session][1] > allowed + self.patience:
                        session.journal.end(RnnServeError(
                            grpc.StatusCode.DEADLINE_EXCEEDED,
                            f"no answer within {allowed + self.patience:.0f} s; whether the operation counted is not "
                            "known, so the session has ended"))
                        self.pump(session)
                since = {session: seen for session, seen in since.items() if session in self._sessions}


def _repeat(link, request):
    """Open, repeated where the connection was lost on the way: the request id keeps that from opening two."""
    for tries_left in range(_OPEN_TRIES - 1, -1, -1):
        try:
            return link.open(request, _CALL_SECONDS)
        except RnnServeError as error:
            if error.reason or is_refusal(error) or error.code not in _LOST_ON_THE_WAY or not tries_left:
                raise
        time.sleep(_REPEAT_SECONDS)
    return None  # not reached: the last try returns or raises
