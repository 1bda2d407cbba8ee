# SPDX-License-Identifier: Apache-2.0
"""One session's operations: what was sent under which number, what is answered, what to send again and where.

A state machine without gRPC, threads or a clock; the driver (driver.py) holds one lock around every call.

    journal.add(GetState(), on_done)
    for sending in journal.sendable(): ...   # put on the wire; also after every call below
    journal.answered(tag, Answer(...))       # a reply came
    journal.cut()                            # the connection is lost, a new one exists or follows
    journal.drain()                          # the server drains: fetches the state; then phase is UNPLACED
    journal.opened()                         # UNPLACED: the driver opened a session from journal.snapshot
    for on_done, value, error in journal.take_finished(): ...   # outside the lock

Operations are counted 1, 2, 3, ... over the session's whole life (index). Each incarnation of it on a server counts
from 1 again: number = index - base.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from typing import Any

import grpc

from rnnserve.errors import RnnServeError
from rnnserve.sessions import operations as ops
from rnnserve.sessions.entry import Entry, OnDone, Phase, Sending
from rnnserve.sessions.reply_room import ReplyRoom
from rnnserve.sessions.verdict import (Verdict, closed, data_loss, judge, not_sent, outcome_unknown,
                                       predecessor_failed)

_RETRY_SECONDS = 0.05


class Journal:
    """See above. `tags` yields texts that are unique among all journals of a driver."""

    def __init__(self, tags: Iterator[str], *, index: int = 0, max_in_flight: int = 8, keep_every: int = 0,
                 snapshot: ops.Snapshot | None = None, most_kept_bytes: int = 64 << 20, window_bytes: int = 0,
                 durable: bool = False) -> None:
        self.phase = Phase.LIVE
        self.error: RnnServeError | None = None
        self.position = snapshot.position if snapshot else 0
        self.incarnation = 1
        # Where to open from. Without keep_every only while the session moves.
        self.snapshot = snapshot if keep_every else None
        # Seconds to wait before sendable() gives anything again; the driver calls release() then.
        self.hold_seconds: float | None = None
        self.checkpoints: dict[str, ops.State] = {}  # by name
        self.repairs = collections.Counter(reconnects=0, hand_overs=0, replays=0, takeovers=0)
        self.durable = durable
        self.drifts = 0  # servers left in a row, without an operation applied in between
        self._tags = tags
        self._max_in_flight = max_in_flight
        self._keep_every = keep_every
        self._most_kept_bytes = most_kept_bytes
        self._kept_bytes = 0
        self._index = self._settled = index  # the last one added; the last one answered
        self._keep_at = index + keep_every  # the answered index that asks for the next snapshot
        self._base = 0
        self._durable_index = index  # the store has the operations up to this one
        self._leaves = False  # the server of a durable session drains
        self._reply_room = ReplyRoom(window_bytes)
        self._rows_since = 0  # the index since which the session has the rows it has
        self._server_position = 0
        self._queue: collections.deque[Entry] = collections.deque()  # those without an answer that counts
        # Numbered ones that are answered: those since the snapshot, and those that the store does not have.
        self._kept: collections.deque[Entry] = collections.deque()
        self._sent: dict[str, Entry] = {}  # by tag
        self._fetch_tag: str | None = None
        self._finished: list[tuple[OnDone, Any, RnnServeError | None]] = []

    @property
    def waiting(self) -> int:
        """Operations of the caller that are not answered."""
        return sum(entry.on_done is not None for entry in self._queue)

    @property
    def head(self) -> Entry | None:
        """What everything else waits for, or None."""
        return self._queue[0] if self._queue else None

    @property
    def recoverable(self) -> bool:
        return self.snapshot is not None

    @property
    def index(self) -> int:
        return self._settled

    def add(self, operation: ops.Operation, on_done: OnDone, deadline: float | None = None) -> None:
        """Takes an operation in; on_done(value, error) is called once, by way of take_finished.

        deadline: see expire; the operation changes the session."""
        if self.phase is Phase.ENDED:
            self._finished.append((on_done, None, self.error))
            return
        if operation.numbered:
            self._index += 1
        self._queue.append(Entry(operation, self._index if operation.numbered else 0, on_done, deadline))
        self._forget_unplaced_close()

    def take_finished(self) -> list[tuple[OnDone, Any, RnnServeError | None]]:
        finished, self._finished = self._finished, []
        return finished

    def sendable(self) -> list[Sending]:
        """The operations to send now, in order."""
        out: list[Sending] = []
        if self.hold_seconds is not None or self._leaves:
            return out
        if self.phase is Phase.FETCHING:
            # What may have been applied is asked again before the state is: its answers must not be lost.
            out += [self._send(entry) for entry in self._queue
                    if entry.tries and entry.index and entry.tag is None and entry.answer is None]
            if self._fetch_tag is None:
                self._fetch_tag = next(self._tags)
                out.append(Sending(self._fetch_tag, None, ops.GetState(), False))
        elif self.phase is Phase.LIVE:
            room = self._max_in_flight - len(self._sent)
            for entry in self._queue:
                if entry.tag is None and entry.answer is None:
                    if room <= 0 or entry.refusal is not None or not self._has_reply_room(entry) \
                            or self._waits_for_reply(entry):
                        break
                    room -= 1
                    out.append(self._send(entry))
                if entry.operation.barrier:
                    break
        return out

    def answered(self, tag: str, answer: ops.Answer) -> None:
        if tag == self._fetch_tag:
            self._fetch_tag = None
            self._settle()
            if self.phase is Phase.FETCHING:
                self._fetched(answer)
            return
        entry = self._sent.pop(tag, None)
        if entry is None or self.phase is Phase.ENDED:
            return  # of a sending that does not count any more
        entry.tag, entry.answer = None, answer
        self._settle()

    def cut(self, never_left: bool = False) -> None:
        """The connection is lost: unanswered operations are sent again under their numbers. never_left: it was never
        established, so the operations sent on it have reached no server."""
        if never_left:
            for entry in self._sent.values():
                entry.tries -= 1
        self._unsend()
        self._drift_if_left()

    def unsendable(self, tag: str, error: RnnServeError) -> None:
        """Sending that operation broke the connection, as it will each time: it fails once all before it is answered."""
        entry = self._sent.get(tag)
        if entry is not None:
            entry.refusal = error
        self.cut()
        self._settle()

    def drain(self) -> None:
        """The server drains."""
        if self.phase is Phase.LIVE and self.durable:
            self._leaves = True
            self._settle()
        elif self.phase is Phase.LIVE:
            self.phase = Phase.FETCHING
            self.hold_seconds = None
            # The state comes anyway, and what was applied must not wait behind a snapshot that is refused.
            self._queue = collections.deque(entry for entry in self._queue
                                            if not isinstance(entry.operation, ops.KeepSnapshot))
            self._settle()

    def expire(self, now: float) -> None:
        """Fails the calls whose deadlines have passed.

        What was never sent to this server is taken back, and what waits behind it fails as behind any other that
        failed. An operation that was sent may have been applied: it keeps its number, without a caller."""
        for place, entry in enumerate(self._queue):
            if entry.deadline is None or entry.deadline > now:
                continue
            entry.deadline = None
            if entry.tries:
                self._finish(entry, error=outcome_unknown())
                entry.on_done = _nobody
                continue
            behind = [self._queue.pop() for _ in range(len(self._queue) - place - 1)]
            self._queue.pop()
            self._index = max([self._settled, *(before.index for before in self._queue)])
            self._finish(entry, error=not_sent())
            for later in reversed(behind):
                self._finish(later, error=predecessor_failed(not_sent()))
            break

    def release(self) -> None:
        self.hold_seconds = None
        self._drift_if_left()

    def drift(self) -> None:
        """The server of a durable session cannot be reached, or leaves."""
        if self.phase is Phase.LIVE:
            self.phase, self._leaves, self.hold_seconds = Phase.ADRIFT, False, None
            self.drifts += 1
            self._unsend()

    def _drift_if_left(self) -> None:
        if self._leaves and not self._sent:
            self.drift()

    def followed(self, elsewhere: bool) -> None:
        """ADRIFT: the operations go to another server, or to the same address once more, under the same key."""
        self.phase = Phase.LIVE
        self.repairs["takeovers"] += elsewhere

    def gone(self, why: str) -> None:
        """This server cannot be reached, or does not have the session."""
        if self.phase is Phase.ENDED or self.phase is Phase.UNPLACED:
            return
        self._unsend()
        self.hold_seconds = None
        if self.snapshot is None:
            head = self.head
            if head is not None and ops.only_closes(head.operation):
                self._finish(self._queue.popleft(), None)
            self.end(data_loss(why))
            return
        self.phase = Phase.UNPLACED
        self.repairs["replays"] += 1
        self._forget_unplaced_close()

    def opened(self, window_bytes: int = 0, durable: bool = False) -> None:
        """A new session holds `snapshot`; it counts from 1."""
        assert self.snapshot is not None
        self._reply_room.window_bytes = window_bytes
        self.phase = Phase.LIVE
        self.incarnation += 1
        self._base = self.snapshot.index
        self._server_position = 0
        self.hold_seconds = None
        self._unsend()
        waiting = [entry for entry in self._queue if not isinstance(entry.operation, ops.KeepSnapshot)]
        again = [Entry(entry.operation, entry.index, mute=True) for entry in self._kept
                 if entry.index > self.snapshot.index]
        self._forget_kept()
        self.durable, self._durable_index, self._leaves = durable, self.snapshot.index, False
        self._settled, self.position = self.snapshot.index, self.snapshot.position
        self._keep_at = self._settled + self._keep_every
        self._queue = collections.deque(again + waiting)
        for entry in self._queue:
            entry.tries = 0
        if not self._keep_every:
            self.snapshot = None

    def attached(self, number: int, position: int) -> None:
        """Before the first operation: the session has been used before."""
        self._base = self._index - number
        self.position = self._server_position = position
        if self.snapshot is not None:
            self.snapshot = dataclasses.replace(self.snapshot, position=position)

    def end(self, error: RnnServeError) -> None:
        """No more of this session; everything that waits fails with `error`."""
        if self.phase is Phase.ENDED:
            return
        self.phase, self.error = Phase.ENDED, error
        self._unsend()
        self._forget_kept()
        self.snapshot = None
        while self._queue:
            self._finish(self._queue.popleft(), error=error)

    def branch(self) -> Journal:
        """A journal for a fork made after the last answered operation; its session counts on from here."""
        other = Journal(self._tags, index=self._settled, max_in_flight=self._max_in_flight, keep_every=self._keep_every,
                        window_bytes=self._reply_room.window_bytes, durable=self.durable)
        other.position, other._server_position, other._base = self.position, self._server_position, self._base
        other.snapshot, other._keep_at = self.snapshot, self._keep_at
        other._kept.extend(Entry(entry.operation, entry.index) for entry in self._kept)
        other._kept_bytes = self._kept_bytes
        other.checkpoints = dict(self.checkpoints)
        other._trim_kept()
        return other

    def _waits_for_reply(self, entry: Entry) -> bool:
        """The store keeps the newest reply only: without snapshots one change at a time has no answer yet."""
        return self.durable and not self._keep_every and entry.index > 0 and not entry.again and \
            any(sent.index and not sent.again for sent in self._sent.values())

    def _has_reply_room(self, entry: Entry) -> bool:
        """Of its reply next to those in flight, so that none falls out of the window before it has come."""
        others = [sent.reply_bytes for sent in self._sent.values() if sent.index]
        return not entry.index or self._reply_room.fits(self._reply_room.expect(entry.operation), others)

    def _send(self, entry: Entry) -> Sending:
        if isinstance(entry.operation, ops.SelectRows):
            self._reply_room.forget()
            self._rows_since = entry.index
        entry.reply_bytes = self._reply_room.expect(entry.operation) if entry.index else 0
        entry.tag, entry.tries, entry.answer = next(self._tags), entry.tries + 1, None
        self._sent[entry.tag] = entry
        number = entry.index - self._base if entry.index else None
        return Sending(entry.tag, number, entry.operation, entry.mute, entry.deadline)

    def _unsend(self) -> None:
        for entry in self._queue:
            entry.tag = entry.answer = None
        self._sent.clear()
        self._fetch_tag = None

    def _settle(self) -> None:
        """Takes answers in the order of the operations; what was refused out of turn waits for what is before it."""
        while self._queue:
            entry = self._queue[0]
            if entry.refusal is not None:
                entry.answer = ops.Answer(error=entry.refusal)
            if entry.answer is None:
                break
            if self.durable and self._goes_back(entry, entry.answer):
                break
            if entry.answer.error is not None:
                if not self._refused(entry, entry.answer.error):
                    return
                continue
            self._queue.popleft()
            self._applied(entry, entry.answer)
        self._drift_if_left()
        due = self._settled >= self._keep_at or 2 * self._kept_bytes > self._most_kept_bytes
        if self._keep_every and self.phase is Phase.LIVE and due:
            self._keep_at = self._settled + self._keep_every
            if not any(isinstance(entry.operation, ops.KeepSnapshot) for entry in self._queue):
                self._queue.append(Entry(ops.KeepSnapshot(), 0))

    def _applied(self, entry: Entry, answer: ops.Answer) -> None:
        operation = entry.operation
        if operation.numbered:
            self._settled = entry.index
            if entry.index >= self._rows_since and entry.on_done is not None:
                self._reply_room.learn(operation, answer.value)
            if entry.again:
                pass  # counted already
            elif isinstance(operation, ops.Chunk):
                self.position += answer.position - self._server_position
            elif isinstance(operation, ops.Reset):
                self.position = 0
            elif isinstance(operation, ops.Rewind):
                self.position = operation.state.position
            self._server_position = answer.position
            if (self._keep_every or self.durable) and not operation.closes:
                self._kept.append(Entry(operation, entry.index))
                self._kept_bytes += operation.bytes
            self.drifts = 0
            self._durable_index = min(max(self._durable_index, answer.durable_number + self._base), self._settled)
            self._trim_kept()
        elif isinstance(answer.value, ops.State):
            answer.value.position = self.position
            if isinstance(operation, ops.KeepSnapshot) and answer.number + self._base == self._settled:
                self.snapshot = ops.Snapshot(self._settled, answer.value, self.position)
                self._trim_kept()
        elif isinstance(operation, ops.Fork):
            answer.value = [(handle, self.branch()) for handle in answer.value]
        self._finish(entry, answer.value)
        if operation.closes:
            self.end(closed())

    def _refused(self, entry: Entry, error: RnnServeError) -> bool:
        """The first in the queue failed. Returns whether the next ones may be looked at."""
        verdict = judge(error)
        if verdict is Verdict.REFUSED:
            if entry.on_done is None and entry.index:
                self.end(data_loss(f"an operation that had been applied was refused when it was run again: {error}"))
                return False
            self._queue.popleft()
            self._finish(entry, error=error)
            if entry.index:
                # Its number is free again, and nothing behind it was applied. A caller that has got OUTCOME_UNKNOWN may
                # ask for the state meanwhile, and gets it.
                self._index = self._settled
                kept = [later for later in self._queue if entry.on_done is _nobody and not later.index]
                for later in self._queue:
                    if later not in kept:
                        self._finish(later, error=predecessor_failed(error))
                self._queue = collections.deque(kept)
                self._sent = {later.tag: later for later in kept if later.tag is not None}
            return True
        if verdict is Verdict.OVER:
            if ops.only_closes(entry.operation) and error.reason == "SESSION_ENDED":
                self._finish(self._queue.popleft(), None)  # what was wanted
            self.end(error)
        elif verdict is Verdict.LOST:
            self.gone(str(error))
        elif verdict is Verdict.DRAINING and self.durable:
            self.drift()  # nothing behind it was applied either
        elif self.phase is Phase.FETCHING:
            return False  # the state comes after all of these
        elif verdict is Verdict.DRAINING:
            self.drain()
        else:
            self._unsend()
            self.hold_seconds = _RETRY_SECONDS if error.retry_after is None else error.retry_after
        return False

    def _goes_back(self, entry: Entry, answer: ops.Answer) -> bool:
        """Whether the server of a durable session has taken it over with less than was answered: the rest is sent again."""
        error = answer.error
        if error is not None and error.code == grpc.StatusCode.OUT_OF_RANGE:
            next_index = answer.next_expected + self._base
        elif error is None and not entry.index and answer.number + self._base < self._settled:
            next_index = answer.number + 1 + self._base
        else:
            if error is not None and error.reason == "NUMBER_TOO_OLD" and entry.again:
                entry.answer = ops.Answer(position=self._server_position)  # the store had more than was told
            return False
        next_index = min(next_index, self._settled + 1)
        if next_index <= self._durable_index:
            self.gone("the server that has the session now knows less of it than the store had")
            return True
        self._unsend()
        while self._kept and self._kept[-1].index >= next_index:
            kept = self._kept.pop()
            self._kept_bytes -= kept.operation.bytes
            self._queue.appendleft(Entry(kept.operation, kept.index, again=True))
        self._settled = next_index - 1
        return True

    def _trim_kept(self) -> None:
        """Drops what neither a replay from the snapshot nor the store needs."""
        needed_from = self._index + 1
        if self._keep_every:
            needed_from = self.snapshot.index + 1 if self.snapshot is not None else 0
        if self.durable:
            needed_from = min(needed_from, self._durable_index + 1)
        while self._kept and self._kept[0].index < needed_from:
            self._kept_bytes -= self._kept.popleft().operation.bytes

    def _fetched(self, answer: ops.Answer) -> None:
        if answer.error is not None:
            if judge(answer.error) is Verdict.RETRY:
                self.hold_seconds = answer.error.retry_after or _RETRY_SECONDS
            else:
                self.gone(str(answer.error))
            return
        if answer.number + self._base != self._settled:
            # Applied without an answer, for want of memory say: asked for again, and the state after it.
            self._unsend()
            self.hold_seconds = _RETRY_SECONDS
            return
        answer.value.position = self.position
        self.snapshot = ops.Snapshot(self._settled, answer.value, self.position)
        self._forget_kept()
        self._unsend()
        self.phase = Phase.UNPLACED
        self.repairs["hand_overs"] += 1
        self._forget_unplaced_close()

    def _forget_kept(self) -> None:
        self._kept.clear()
        self._kept_bytes = 0

    def _forget_unplaced_close(self) -> None:
        """A session is not opened anew only to be closed."""
        head = self.head
        if self.phase is Phase.UNPLACED and head is not None and ops.only_closes(head.operation):
            self._finish(self._queue.popleft(), None)
            self.end(closed())

    def _finish(self, entry: Entry, value: Any = None, error: RnnServeError | None = None) -> None:
        if entry.on_done is not None:
            self._finished.append((entry.on_done, value, error))


def _nobody(value: Any, error: RnnServeError | None) -> None:
    """Waits for an operation whose caller has already got its timeout."""
