# SPDX-License-Identifier: Apache-2.0
"""What a session is, however its user waits: Session blocks threads, aio.Session is awaited."""

from __future__ import annotations

import collections.abc
import dataclasses
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rnnserve.sessions import operations as ops
from rnnserve.sessions import wire
from rnnserve.sessions.entry import OnDone
from rnnserve.sessions.driver import Driver
from rnnserve.sessions.journal import Journal
from rnnserve.sessions.link import Link
from rnnserve.sessions.operations import State

Chunk = npt.ArrayLike | Mapping[str, npt.ArrayLike | None]
SessionT = TypeVar("SessionT", bound="SessionCore")


class SessionCore:
    """identity: what its Opens are known by; handle: what this server knows it by, another one after a move; created: by
    this client's Open, else it was there and has been attached to."""

    def __init__(self, driver: Driver, opening: wire.Opening, identity: str, fingerprint: str, handle: wire.Handle,
                 journal: Journal, timeout: float | None, max_message_bytes: int, created: bool = True) -> None:
        self.identity = identity
        self.fingerprint = fingerprint
        self.handle = handle
        self.created = created
        self.opening = opening
        self.timeout = timeout
        self.journal = journal
        self.link: Link  # set by the driver
        self.moving = self.timer_runs = False
        self._driver = driver
        self._max_message_bytes = max_message_bytes

    def __repr__(self) -> str:
        target = self.opening.model or self.opening.op or self.fingerprint
        return f"<Session of {target!r}, {self.position} steps, {self.journal.phase.name.lower()} at {self.link.address}>"

    @property
    def key(self) -> str:
        """What its server calls it; another one after a move."""
        return self.handle.key

    @property
    def position(self) -> int:
        """Steps that the session has run through, of what is answered."""
        return self.journal.position

    @property
    def repairs(self) -> dict[str, int]:
        """What it took to keep the session going: how many "reconnects", "hand_overs" (of a leaving server's state),
        "replays" (from a snapshot) and "takeovers" (of a durable session by another server)."""
        return dict(self.journal.repairs)

    def changed(self) -> None:
        """The driver has done something about it. Under the lock."""

    def _add(self, operation: ops.Operation, on_done: OnDone, deadline: float | None = None) -> None:
        """Under the lock."""
        self.journal.add(operation, on_done, deadline)
        self._driver.pump(self)

    def _expire(self) -> None:
        with self._driver.changing():
            self._driver.expire(self, time.monotonic())

    def _chunk(self, x: Chunk, outputs: str | Iterable[str] | None, priority: int) -> ops.Chunk:
        inputs: dict[str, Any] = dict(x) if isinstance(x, collections.abc.Mapping) else {self.opening.data_input: x}
        encoded = wire.encode_chunk(inputs)
        size = sum(len(tensor.raw) for tensor in encoded)
        if size > self._max_message_bytes - 4096:
            raise ValueError(f"the chunk has {size} bytes, but messages are bounded by {self._max_message_bytes}; "
                             "feed fewer steps at a time, or raise Client(max_message_bytes)")
        outputs = (outputs,) if isinstance(outputs, str) else outputs
        return ops.Chunk(encoded, None if outputs is None else tuple(outputs), self.timeout, priority, size)

    def _rewind(self, name: str) -> ops.Rewind:
        state = self.journal.checkpoints.get(name)
        if state is None:
            known = ", ".join(sorted(self.journal.checkpoints)) or "none"
            raise ValueError(f"the session has no checkpoint {name!r}; it has {known}")
        return ops.Rewind(state)

    def _fork(self, count: int | None) -> tuple[ops.Fork, Callable[[OnDone], OnDone]]:
        """The operation, and what turns its answer into sessions of this class for another on_done."""

        def adopting(done: OnDone) -> OnDone:
            def adopt(handles: Any, error: Any) -> None:
                if error is not None:
                    done(None, error)
                    return
                made: list[SessionCore] = []
                with self._driver.changing():
                    for (handle, link), journal in handles:
                        fork = type(self)(self._driver, self.opening.fork(), str(uuid.uuid4()), self.fingerprint, handle,
                                          journal, self.timeout, self._max_message_bytes)
                        self._driver.adopt(fork, link)
                        self._driver.pump(fork)
                        made.append(fork)
                done(made, None)

            return adopt

        return ops.Fork(str(uuid.uuid4()), 1 if count is None else count), adopting

    def _told(self, final: State) -> State:
        """The State that Close gave, with what else is known of it."""
        final.fingerprint, final.position = self.fingerprint, self.position
        return final


async def open_session(kind: type[SessionT], driver: Driver, opening: wire.Opening, state: Mapping[str, npt.ArrayLike] | None,
                       checkpoint_every: int, timeout: float | None, max_message_bytes: int,
                       tags: Iterator[str]) -> SessionT:
    """What session() of a client does after reading its arguments."""
    identity = str(uuid.uuid4())
    link, reply, known = await driver.start(opening, state, f"{identity} 1", tell=checkpoint_every > 0)
    snapshot = None
    number, position = reply.last_applied, reply.position
    if known is not None:
        number, position = known.number, known.position
        state = wire.decode_state(known.state, known.fingerprint, known.position)
    if checkpoint_every:
        snapshot = ops.Snapshot(0, None if state is None else State(copied(state)), position)
    journal = Journal(tags, max_in_flight=opening.max_in_flight, keep_every=checkpoint_every, snapshot=snapshot,
                      window_bytes=wire.window_bytes(reply), durable=wire.is_durable(reply))
    if not reply.created:
        journal.attached(number, position)
    opening = dataclasses.replace(opening, data_input=reply.data_input or "X")  # empty: of an older server
    session = kind(driver, opening, identity, reply.fingerprint, wire.Handle.of(reply), journal, timeout,
                   max_message_bytes, reply.created)
    with driver.changing():
        driver.adopt(session, link)
        driver.pump(session)
    return session


def copied(state: Mapping[str, npt.ArrayLike]) -> State:
    """The caller may change its arrays."""
    return State({name: np.array(array) for name, array in state.items()}, getattr(state, "fingerprint", ""),
                 getattr(state, "position", 0))
