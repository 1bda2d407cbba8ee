# SPDX-License-Identifier: Apache-2.0
"""A call that is sent again while no server takes it: where, when, and for how long. No gRPC channels, no clock."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import grpc

from rnnserve.errors import RnnServeError

Spread = Callable[[float, float], float]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
# Where no server has ever answered, a wrong address is more likely than a restart.
_FIRST_CONTACT_SECONDS = 5.0
# Codes with which a call may end although it has reached no server.
_CODES_WITHOUT_A_SERVER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED,
            grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)


def is_refusal(error: RnnServeError) -> bool:
    """Whether the server itself refused the call, as a draining server does: it began nothing."""
    return error.code == grpc.StatusCode.UNAVAILABLE and (error.reason == "DRAINING" or error.retry_after is not None)


def lacks_engine(error: RnnServeError) -> bool:
    """Whether the engine that the call names is out of service on that server, until it is started again."""
    return error.code == grpc.StatusCode.UNAVAILABLE and error.reason == "ENGINE_OUT_OF_SERVICE"


def backoff(failed: int, spread: Spread = random.uniform) -> float:
    """Seconds to wait after `failed` tries."""
    return float(min(_FIRST_PAUSE * 2 ** min(failed - 1, 10), _LONGEST_PAUSE) * spread(0.8, 1.2))


def with_tries(error: RnnServeError, count: int, seconds: float, before: str = "") -> RnnServeError:
    """`error` of the last of `count` tries, saying so."""
    if count < 2:
        return error
    return RnnServeError(error.code, f"{error.message} (tried {count} times in {seconds:.1f} s{before})", error.fields,
                         error.reason, error.metadata, error.retry_after)


class Patience:
    """How long a client's calls go without a server that takes them: `seconds`, less while none has ever answered."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._answered = False

    def note(self, error: RnnServeError | None = None) -> None:
        """A reply came, or an error; an error counts if only a server can have sent it."""
        if error is None or error.code not in _CODES_WITHOUT_A_SERVER or is_refusal(error) or lacks_engine(error):
            self._answered = True

    def end(self, began: float, deadline: float | None = None, asked_all: bool = True) -> float:
        """When a call that began at `began` gives up. Its own deadline overrides `seconds`.

        asked_all: every address has failed once. A dead address alone can take all of _FIRST_CONTACT_SECONDS."""
        end = began + self.seconds if deadline is None else deadline
        return end if self._answered or not asked_all else min(end, began + _FIRST_CONTACT_SECONDS)


class Tries:
    """Those of one call. Each server is asked at once, and again when it said, else after pauses that grow to a second.
    One that lacks the engine is not asked again."""

    def __init__(self, order: Sequence[str], began: float, spread: Spread = random.uniform) -> None:
        self.server = order[0]
        self._began = began
        self._spread = spread
        self._due = dict.fromkeys(order, began)
        self._failed = dict.fromkeys(order, 0)
        self._last: RnnServeError | None = None

    @property
    def asked_all(self) -> bool:
        """Whether every server has failed."""
        return all(self._failed.values())

    def failed(self, error: RnnServeError, now: float) -> float:
        """At `server`, which is the next one to ask from now on: returns the seconds until then; inf: none is left."""
        self._last = error
        self._failed[self.server] += 1
        if lacks_engine(error):
            pause = math.inf
        elif error.retry_after is None:
            pause = backoff(self._failed[self.server], self._spread)
        else:  # spread, so that clients with the same retry delay do not retry at once
            pause = error.retry_after * self._spread(1.0, 1.2)
        self._due[self.server] = now + pause
        self.server = min(self._due, key=self._due.__getitem__)
        return max(0.0, self._due[self.server] - now)

    def final_error(self, error: RnnServeError, now: float) -> RnnServeError:
        """`error`, which ends the call, with how often it was tried."""
        count = sum(self._failed.values()) + (error is not self._last)
        before = ""
        if self._last is not None and self._last is not error:
            before = f"; before that {self._last.code.name}: {self._last.message}"
        return with_tries(error, count, now - self._began, before)
