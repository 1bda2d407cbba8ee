# SPDX-License-Identifier: Apache-2.0
"""What a journal is made of."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from rnnserve.errors import RnnServeError
from rnnserve.sessions import operations as ops

OnDone = Callable[[Any, RnnServeError | None], object]


class Phase(enum.Enum):
    LIVE = "operations flow"
    FETCHING = "the server leaves: nothing new is sent, the state is being fetched"
    ADRIFT = "durable, and its server leaves or is gone: any server of the store goes on with it"
    UNPLACED = "to be opened from `snapshot`"
    ENDED = "closed or lost: `error` says why"


@dataclasses.dataclass(eq=False)
class Entry:
    """An operation that waits for its answer, or that is kept to be run again."""

    operation: ops.Operation
    index: int  # 0 for those without a number
    on_done: OnDone | None = None  # on_done(value, error); None: no caller waits
    deadline: float | None = None  # the caller's
    tag: str | None = None  # of the latest sending that is still to be answered
    refusal: RnnServeError | None = None  # it cannot be sent at all
    tries: int = 0  # how often it was sent in this incarnation; 0: it cannot have been applied
    answer: ops.Answer | None = None
    again: bool = False  # of a durable session: answered, and sent again unchanged where the store did not have it
    mute: bool = False  # sent without outputs: they were known before this incarnation
    reply_bytes: int | None = 0  # of the window, once sent; None: not known


@dataclasses.dataclass(frozen=True)
class Sending:
    tag: str
    number: int | None
    operation: ops.Operation
    replayed: bool  # answered by an earlier incarnation: run again for the state alone
    deadline: float | None = None
