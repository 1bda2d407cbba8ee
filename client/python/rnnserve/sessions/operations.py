# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a session, and what is known of its state. Plain values: no gRPC, no clock."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from rnnserve.errors import RnnServeError

Outputs = dict[str, npt.NDArray[Any]]


class State(dict[str, npt.NDArray[Any]]):
    """The tensors of a state by name (as the model's file calls them: h0, c0; else initial_h, initial_c, of a stack
    initial_h.0, ...), in the compute type.

    fingerprint  of the model it belongs to
    position     steps the session had run through
    """

    def __init__(self, tensors: Mapping[str, npt.NDArray[Any]] | Iterable[tuple[str, npt.NDArray[Any]]] = (),
                 fingerprint: str = "", position: int = 0) -> None:
        super().__init__(tensors)
        self.fingerprint = fingerprint
        self.position = position


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The state after operation `index` of a session's life; None: zeros."""

    index: int
    state: State | None
    position: int = 0


class Operation:
    numbered = True  # changes the session, and takes the next number
    barrier = False  # nothing behind it is sent before it is answered
    closes = False
    bytes = 0  # roughly what keeping it takes, where that is much


@dataclasses.dataclass(frozen=True)
class Chunk(Operation):
    inputs: Sequence[Any]  # encoded already: the caller may change its arrays
    outputs: tuple[str, ...] | None = None
    timeout: float | None = None
    priority: int = 0
    bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Reset(Operation):
    state: State | None = None


@dataclasses.dataclass(frozen=True)
class SetState(Operation):
    state: State


@dataclasses.dataclass(frozen=True)
class SelectRows(Operation):
    rows: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Rewind(Operation):
    """To a state of this session's that was kept here: it outlives the server that gave it."""

    state: State


@dataclasses.dataclass(frozen=True)
class Close(Operation):
    return_state: bool = False
    closes = True


def only_closes(operation: Operation) -> bool:
    """Whether nothing is asked of it but that the session be gone."""
    return isinstance(operation, Close) and not operation.return_state


class Read(Operation):
    """Reads; the answer is of the moment when all before it has been applied and nothing behind it."""

    numbered = False
    barrier = True


@dataclasses.dataclass(frozen=True)
class GetState(Read):
    pass


@dataclasses.dataclass(frozen=True)
class KeepSnapshot(Read):
    """GetState for the journal's own use: later operations need not wait for it."""

    barrier = False


@dataclasses.dataclass(frozen=True)
class Fork(Read):
    request_id: str
    count: int = 1


@dataclasses.dataclass
class Answer:
    """What the server said of one operation: an error, or numbers and a value (outputs, a State, handles of forks)."""

    number: int = 0
    position: int = 0
    value: Any = None
    error: RnnServeError | None = None
    next_expected: int = 0  # of an error, where the server tells
    durable_number: int = 0  # the last number that the store has, of a durable session
