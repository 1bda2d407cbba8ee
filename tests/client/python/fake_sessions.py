# SPDX-License-Identifier: Apache-2.0
"""A server's sessions by the contract of docs/sessions.md, as a plain object: its state is the log of what was fed."""

import collections
import itertools

import grpc

from rnnserve.errors import RnnServeError
from rnnserve.sessions import operations as ops

Code = grpc.StatusCode


def refusal(code, reason, retry_after=None, **metadata):
    return RnnServeError(code, reason, reason=reason, metadata=metadata, retry_after=retry_after)


class FakeSession:
    def __init__(self, log, window):
        self.log, self.number, self.position = list(log), 0, 0
        self.kept = collections.OrderedDict()
        self.window = window

    def copy(self):
        other = FakeSession(self.log, self.window)
        other.number, other.position = self.number, self.position
        return other

    def record(self, replies):
        """What the store gets: with the last so many replies."""
        other = self.copy()
        other.kept = collections.OrderedDict(list(self.kept.items())[len(self.kept) - min(replies, len(self.kept)):])
        return other


class FakeServer:
    """apply() answers one operation at once. `keys` must be shared by all servers of a test, and so is `store`: records of
    sessions, written after so many changes."""

    def __init__(self, keys=None, window=16, store=None, write_every=0):
        self.store = {} if store is None else store
        self.write_every = write_every
        self.keys = keys or itertools.count(1)
        self.sessions = {}
        self.draining = False
        self.window = window
        self.runs = 0  # operations that were computed, not answered from the window

    def open(self, state):
        if self.draining:
            raise refusal(Code.UNAVAILABLE, "DRAINING", 0.1)
        key = f"key {next(self.keys)}"
        self.sessions[key] = FakeSession(state["log"] if state else [], self.window)
        if self.write_every:
            self.store[key] = self.sessions[key].record(1)
        return key

    def apply(self, key, sending):
        answer = self._apply(key, sending)
        if self.write_every and answer.error is None and key in self.store:
            answer.durable_number = self.store[key].number
        return answer

    def _apply(self, key, sending):
        if key not in self.sessions and key in self.store:  # it is taken over
            self.sessions[key] = self.store[key].record(1)
        session = self.sessions.get(key)
        if session is None:
            return ops.Answer(error=refusal(Code.DATA_LOSS, "SESSION_LOST"))
        operation = sending.operation
        if not operation.numbered:
            return self._look(session, operation)
        if sending.number <= session.number:
            if sending.number not in session.kept:
                return ops.Answer(error=refusal(Code.ALREADY_EXISTS, "NUMBER_TOO_OLD"))
            known, answer = session.kept[sending.number]
            if known is not operation:
                return ops.Answer(error=refusal(Code.ABORTED, "NUMBER_REUSED"))
            return ops.Answer(answer.number, answer.position, answer.value)
        if sending.number > session.number + 1:
            return ops.Answer(error=refusal(Code.OUT_OF_RANGE, "NUMBER_TOO_HIGH"), next_expected=session.number + 1)
        if self.draining:
            return ops.Answer(error=refusal(Code.UNAVAILABLE, "DRAINING", 0.1))
        answer = self._change(session, sending)
        if self.write_every and answer.error is None:
            if session.number % self.write_every == 0 and key in self.sessions:
                self.store[key] = session.record(1)
        return answer

    def _change(self, session, sending):
        operation = sending.operation
        match operation:
            case ops.Chunk(inputs="bad"):
                return ops.Answer(error=refusal(Code.INVALID_ARGUMENT, "bad"))
            case ops.Chunk():
                session.log += operation.inputs
                session.position += len(operation.inputs)
            case ops.Reset():
                session.log, session.position = [], 0
            case ops.SelectRows():
                session.log.append(operation.rows)
            case ops.Rewind():
                session.log = list(operation.state["log"])  # as SetState: the position stays
        self.runs += 1
        session.number = sending.number
        answer = ops.Answer(session.number, session.position, None if sending.replayed else list(session.log))
        session.kept[session.number] = (operation, answer)
        while len(session.kept) > session.window:
            session.kept.popitem(last=False)
        if operation.closes:
            self.store.pop(next(key for key, other in self.sessions.items() if other is session), None)
            del self.sessions[next(key for key, other in self.sessions.items() if other is session)]
        return answer

    def _look(self, session, operation):
        if isinstance(operation, ops.Fork):
            if self.draining:
                return ops.Answer(error=refusal(Code.UNAVAILABLE, "DRAINING", 0.1))
            key = f"key {next(self.keys)}"
            self.sessions[key] = session.copy()
            return ops.Answer(session.number, session.position, [key])
        state = ops.State({"log": list(session.log)}, "f", session.position)
        return ops.Answer(session.number, session.position, state)
