# SPDX-License-Identifier: Apache-2.0
"""What a journal is made of."""

import dataclasses
import enum

from rnnserve.sessions import operations as ops


class Phase(enum.Enum):
    LIVE = "operations flow"
    FETCHING = "the server leaves: nothing new is sent, the state is being fetched"
    HOMELESS = "to be opened from `snapshot`"
    ENDED = "closed or lost: `error` says why"


@dataclasses.dataclass(eq=False)
class Entry:
    """An operation that waits for its answer, or that is kept to be run again."""

    operation: ops.Operation
    index: int  # 0 for those without a number
    on_done: object = None  # on_done(value, error); None: nobody waits
    tag: str | None = None  # of the latest sending that is still to be answered
    refusal: Exception | None = None  # it cannot be sent at all
    tried: bool = False  # sent in this incarnation: perhaps applied
    answer: ops.Answer | None = None
    reply_bytes: int | None = 0  # of the window, once sent; None: not known


@dataclasses.dataclass(frozen=True)
class Sending:
    tag: str
    number: int | None
    operation: ops.Operation
    replayed: bool  # answered long ago: run again for the state alone
