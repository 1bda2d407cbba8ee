# SPDX-License-Identifier: Apache-2.0
"""One server as the sessions on it see it: a connection of their own and one stream for all of them, opened again
whenever it breaks."""

import queue
import threading
import time
import uuid

import grpc

from rnnserve.errors import RnnServeError, from_rpc_error
from rnnserve.sessions import wire
from rnnserve.sessions.operations import Answer
from rnnserve.v1 import recurrent_pb2_grpc, sessions_pb2, sessions_pb2_grpc

_MOST_OPERATIONS = 64
_MOST_BYTES = 1 << 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
# Without a word while answers are due, a sign of life is asked for; without one in as long again, the line is replaced.
SILENCE_SECONDS = 5.0
# gRPC's word for a message above the server's limit, which ends the stream.
_TOO_LARGE = "message larger than max"
# What no second try mends.
_FINAL = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED)


class Link:
    """`hub` gives the lock (held around everything here that says so), and what to do with replies."""

    def __init__(self, hub, address, connect, route=None):
        self.address = address
        self.leaving = False
        self.retired = False  # takes no more sessions, and closes with its last one
        self.sessions = set()  # under the lock
        self.attempts = 0  # to open one here, under way; under the lock
        self.down_since = time.monotonic()  # None: connected, as far as is known
        self._hub = hub
        self._connect = connect
        self._use(connect(address))
        self._heard = time.monotonic()
        self._probed = None  # since when a sign of life is waited for; under the lock
        # What balancers keep together: the calls of this link go to one server while it is there.
        self._route = route or (("x-session-route", uuid.uuid4().hex),)
        self._expected = {}  # tag -> (session, bytes sent); under the lock
        self._requests = None  # the stream's queue while there is a stream; under the lock
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rnnserve {address}", daemon=True)
        self._thread.start()

    @property
    def up(self):
        """Whether operations may be put on the wire. Under the lock."""
        return self._requests is not None

    @property
    def closed(self):
        return self._closing.is_set()

    def again(self):
        """Another link to the same server."""
        link = Link(self._hub, self.address, self._connect, self._route)
        link.leaving, link.retired = self.leaving, True
        return link

    def is_own_thread(self):
        return threading.current_thread() is self._thread

    def open(self, request, timeout):
        """Sessions.Open; raises RnnServeError."""
        return self._call(self._sessions_stub.Open, request, timeout)

    def get_state(self, key, timeout):
        """Sessions.GetState of what is committed; raises RnnServeError."""
        return self._call(self._sessions_stub.GetState, sessions_pb2.GetStateRequest(session=key), timeout)

    def put(self, session, sending):
        """Under the lock, while `up`."""
        message = wire.encode_operation(session.key, sending)
        if not self._expected:
            self._heard = time.monotonic()  # nothing was due before
        self._expected[sending.tag] = (session, message.ByteSize())
        self._requests.put(message)

    def look(self, now):
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
            dead = self._channel
            self._use(self._connect(self.address))
            dead.close()

    def remove(self, session):
        """Under the lock."""
        self.sessions.discard(session)
        self.close_if_done()

    def close_if_done(self):
        """Once it takes no more sessions and has none. Under the lock."""
        if self.retired and not self.sessions and not self.attempts:
            self.close()

    def close(self):
        """Says goodbye to the server once all is answered; does not wait. Under the lock."""
        self._closing.set()
        if self._requests is not None:
            self._requests.put(None)

    def abort(self):
        """Ends calls and connection now."""
        self._closing.set()
        self._channel.close()

    def _call(self, method, request, timeout):
        try:
            return method(request, timeout=timeout, metadata=self._route)
        except grpc.RpcError as error:
            raise from_rpc_error(error, self.address) from None
        except ValueError as error:  # grpc's word for a closed channel
            raise RnnServeError(grpc.StatusCode.UNAVAILABLE, f"the connection to {self.address} was closed") from error

    def _use(self, channel):
        self._channel = channel
        self._stub = recurrent_pb2_grpc.RecurrentStub(channel)
        self._sessions_stub = sessions_pb2_grpc.SessionsStub(channel)

    def _run(self):
        pause, broke = _FIRST_PAUSE, False
        while not self._closing.is_set():
            requests = queue.SimpleQueue()
            try:
                call = self._stub.Stream(_batches(requests), metadata=self._route)
            except ValueError:
                continue  # the channel was closed just now: aborted, or replaced
            with self._hub.changing():
                self._requests = requests
                if self._closing.is_set():
                    requests.put(None)
                for session in list(self.sessions):
                    session.journal.cut()
                    self._hub.pump(session)
            error = None
            try:
                call.initial_metadata()  # comes when the server has taken the stream
                if call.is_active():
                    self.down_since, pause = None, _FIRST_PAUSE
                    if broke:
                        self._count_reconnect()
                for message in call:
                    self._heard = time.monotonic()
                    self.down_since, pause = None, _FIRST_PAUSE
                    self._take(message)
            except grpc.RpcError as raised:
                error = from_rpc_error(raised, self.address)
            requests.put(None)
            broke = True
            with self._hub.changing():
                self._requests = None
                if error is not None and _TOO_LARGE in error.message and self._expected:
                    tag, (session, _) = max(self._expected.items(), key=lambda item: item[1][1])
                    session.journal.unsendable(tag, error)
                self._expected.clear()
                if self.down_since is None:
                    self.down_since = time.monotonic()
                self._hub.broken(self, error, error is not None and error.code in _FINAL)
            self._closing.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._channel.close()

    def _take(self, message):
        answers = [(reply.request_id, self._decode(reply)) for reply in message.replies]
        for _, answer in answers:
            if isinstance(answer.value, list):
                answer.value = [(key, self) for key in answer.value]  # where the forks are
        with self._hub.changing():
            for tag, answer in answers:
                session, _ = self._expected.pop(tag, (None, 0))
                if session is not None:
                    session.journal.answered(tag, answer)
                    self._hub.pump(session)
            if message.HasField("drain"):
                self._hub.leaving(self)

    def _count_reconnect(self):
        with self._hub.changing():
            for session in self.sessions:
                session.journal.repairs["reconnects"] += 1

    def _decode(self, reply):
        try:
            return wire.decode_reply(reply)
        except (ValueError, TypeError) as error:
            why = f"{self.address} sent a reply that this client cannot read: {error}"
            return Answer(error=RnnServeError(grpc.StatusCode.INTERNAL, why, reason="UNREADABLE_REPLY"))


def _batches(requests):
    """StreamRequests of what is in the queue by then, until None; one above _MOST_BYTES goes alone."""
    operation = requests.get()
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
            operation = requests.get()
