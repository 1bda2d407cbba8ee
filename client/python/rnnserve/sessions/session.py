# SPDX-License-Identifier: Apache-2.0
"""A session as its user sees it."""

import asyncio
import collections.abc
import concurrent.futures
import uuid

import grpc
import numpy as np

from rnnserve.errors import RnnServeError
from rnnserve.sessions import operations as ops
from rnnserve.sessions import wire
from rnnserve.sessions.entry import Phase
from rnnserve.sessions.journal import Journal
from rnnserve.sessions.operations import State

_CLOSE_SECONDS = 5.0


class Session:
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

    def __init__(self, hub, opening, identity, fingerprint, key, journal, timeout, max_message_bytes):
        self.identity = identity  # what its Opens are known by
        self.fingerprint = fingerprint
        self.key = key  # what this server calls it; another one after a move
        self.opening = opening
        self.timeout = timeout
        self.journal = journal
        self.link = None
        self.moving = self.timer_runs = False
        self.room = hub.condition()
        self._hub = hub
        self._max_message_bytes = max_message_bytes

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.close()
        except RnnServeError:
            pass  # its state is not wanted any more, and it ends by its idle timeout

    @property
    def position(self):
        """Steps that the session has run through, of what is answered."""
        return self.journal.position

    @property
    def repairs(self):
        """What it took to keep the session going: how many "reconnects", "hand_overs" (of a leaving server's state) and
        "replays" (from a snapshot)."""
        return dict(self.journal.repairs)

    def feed(self, x, *, outputs=None, timeout=None, priority=0):
        """Runs a chunk and returns its outputs, arrays by name.

        x: X, or arrays by name (X, and sequence_lens where rows are of different lengths; a row of length 0 keeps its
        state). outputs: names wanted of this chunk instead of the session's. timeout: seconds that the server may take;
        if they pass, the state is as it was. priority: -100 to 100.
        """
        return self._result(self.feed_async(x, outputs=outputs, timeout=timeout, priority=priority))

    def feed_async(self, x, *, outputs=None, timeout=None, priority=0):
        """feed as a concurrent.futures.Future; x may be changed once this returns.

        Waits first while max_in_flight operations have no answer. Callbacks of the future run on the thread that reads
        replies: they must not wait for this client.
        """
        return self._submit(self._chunk(x, outputs, timeout, priority))

    async def afeed(self, x, *, outputs=None, timeout=None, priority=0):
        """feed for asyncio. Chunks run in the order of the calls; whoever makes many at once holds them in memory."""
        return await asyncio.wrap_future(self._submit(self._chunk(x, outputs, timeout, priority), wait=False))

    def state(self):
        """The State (arrays by name) after everything called before."""
        return self._result(self._submit(ops.GetState()))

    def set_state(self, state):
        """Sets the state. One that state() gave has to be of the same model; other mappings of arrays need only fit."""
        self._result(self._submit(ops.SetState(_copied(state))))

    def reset(self, state=None):
        """Back to the start: zeros, or the state given."""
        self._result(self._submit(ops.Reset(None if state is None else _copied(state))))

    def select_rows(self, rows):
        """Reorders, repeats or drops rows: row k becomes the old row rows[k]."""
        self._result(self.select_rows_async(rows))

    def select_rows_async(self, rows):
        """select_rows as a Future, to send the next chunk without waiting."""
        return self._submit(ops.SelectRows(tuple(int(row) for row in rows)))

    def checkpoint(self, name):
        """Names the state as it is now, to rewind to; it is kept here."""
        self.journal.checkpoints[name] = self.state()

    def rewind(self, name):
        """Sets state and position to those of a checkpoint, whichever server has the session by now."""
        state = self.journal.checkpoints.get(name)
        if state is None:
            known = ", ".join(sorted(self.journal.checkpoints)) or "none"
            raise ValueError(f"the session has no checkpoint {name!r}; it has {known}")
        self._result(self._submit(ops.Rewind(state)))

    def fork(self, count=None):
        """A new Session that goes on from this one's state; with count a list of them."""
        forks = concurrent.futures.Future()
        done = _settle(forks)

        def adopt(keys, error):
            if error is not None:
                return done(None, error)
            made = []
            with self._hub.changing():
                for (key, link), journal in keys:
                    fork = Session(self._hub, self.opening.fork(), str(uuid.uuid4()), self.fingerprint, key, journal,
                                   self.timeout, self._max_message_bytes)
                    self._hub.adopt(fork, link)
                    self._hub.pump(fork)
                    made.append(fork)
            return done(made, None)

        self._submit(ops.Fork(str(uuid.uuid4()), 1 if count is None else count), on_done=adopt)
        made = self._result(forks)
        return made[0] if count is None else made

    def close(self, return_state=False):
        """Ends the session, once what was called before is done; returns its final State if asked. Twice is fine.

        Without return_state it gives up soon where no server answers: the session then ends by its idle timeout."""
        if self.journal.phase is Phase.ENDED and not return_state:
            return None
        closing = self._submit(ops.Close(return_state), wait=False)
        while not (return_state or self._wait(closing)):
            if self.link.down_since is None and self.journal.phase is Phase.LIVE:
                continue  # what was called before takes its time
            with self._hub.changing():
                self.journal.end(RnnServeError(grpc.StatusCode.CANCELLED, "the session was closed without an answer"))
                self._hub.pump(self)
            return None
        final = self._result(closing)
        if return_state:
            final.fingerprint, final.position = self.fingerprint, self.position
        return final

    def _check_thread(self):
        if self.link.is_own_thread():
            raise RuntimeError("a callback of a session's future must not wait for its client; hand the work to "
                               "another thread")

    def _result(self, future):
        if not future.done():
            self._check_thread()
        return future.result()

    def _wait(self, future):
        self._check_thread()
        return bool(concurrent.futures.wait([future], _CLOSE_SECONDS).done)

    def _chunk(self, x, outputs, timeout, priority):
        inputs = dict(x) if isinstance(x, collections.abc.Mapping) else {"X": x}
        encoded = wire.encode_chunk(inputs)
        size = sum(len(tensor.raw) for tensor in encoded)
        if size > self._max_message_bytes - 4096:
            raise ValueError(f"the chunk has {size} bytes, but messages are bounded by {self._max_message_bytes}; "
                             "feed fewer steps at a time, or raise Client(max_message_bytes)")
        outputs = (outputs,) if isinstance(outputs, str) else outputs
        return ops.Chunk(encoded, None if outputs is None else tuple(outputs),
                         self.timeout if timeout is None else timeout, priority, size)

    def _submit(self, operation, wait=True, on_done=None):
        """A Future of the operation's value."""
        future = concurrent.futures.Future()
        with self._hub.changing():
            while wait and self.journal.waiting >= self.opening.max_in_flight and self.journal.phase is not Phase.ENDED:
                self._check_thread()
                self.room.wait()
            self.journal.add(operation, on_done or _settle(future))
            self._hub.pump(self)
        return future


def open_session(hub, opening, state, checkpoint_every, timeout, max_message_bytes, tags):
    """What Client.session does after reading its arguments."""
    identity = str(uuid.uuid4())
    link, reply, known = hub.start(opening, state, f"{identity} 1", tell=opening.attach)
    snapshot = None
    position = 0
    if known is not None:
        position = known.position
        state = wire.decode_state(known.state, known.fingerprint, known.position)
    if checkpoint_every:
        snapshot = ops.Snapshot(0, None if state is None else State(_copied(state)), position)
    journal = Journal(tags, max_in_flight=opening.max_in_flight, keep_every=checkpoint_every, snapshot=snapshot,
                      window_bytes=wire.window_bytes(reply))
    if known is not None:
        journal.attached(known.number, position)
    session = Session(hub, opening, identity, reply.fingerprint, reply.session, journal, timeout, max_message_bytes)
    with hub.changing():
        hub.adopt(session, link)
        hub.pump(session)
    return session


def _copied(state):
    """The caller may change its arrays."""
    copied = State({name: np.array(array) for name, array in state.items()})
    copied.fingerprint, copied.position = getattr(state, "fingerprint", ""), getattr(state, "position", 0)
    return copied


def _settle(future):
    future.set_running_or_notify_cancel()  # it cannot be taken back any more

    def on_done(value, error):
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    return on_done
