# SPDX-License-Identifier: Apache-2.0
"""What an error of the server means for a session."""

import enum

import grpc

from rnnserve.errors import RnnServeError


class Verdict(enum.Enum):
    REFUSED = "the operation is refused; the session is unchanged"
    RETRY = "retry the same operation after a while"
    DRAINING = "the server drains, or cannot go on with a durable session"
    LOST = "this server does not have the session any more, or not as far as it was answered"
    OVER = "another owner has the session now, or it was closed, or the reply cannot be read"


_LOST = {"SESSION_UNKNOWN", "SESSION_LOST", "NUMBER_TOO_OLD", "NUMBER_TOO_HIGH"}


def judge(error: RnnServeError) -> Verdict:
    """The Verdict on an RnnServeError that came with an operation's turn."""
    # The latter two: this server cannot go on with a durable session, but another one can.
    if error.reason in ("DRAINING", "MODEL_MISSING", "RECORD_TOO_NEW"):
        return Verdict.DRAINING
    if error.reason == "SESSION_ENDED":
        return Verdict.OVER if error.metadata.get("cause") == "closed" else Verdict.LOST
    if error.reason in _LOST or error.code == grpc.StatusCode.DATA_LOSS:
        return Verdict.LOST
    if error.reason in ("PREVIOUS_FAILED", "TAKEN_OVER"):
        return Verdict.RETRY
    # OLDER_OWNER, FENCED, NUMBER_REUSED: perhaps applied, and never sent again.
    if error.code == grpc.StatusCode.ABORTED or error.reason == "UNREADABLE_REPLY":
        return Verdict.OVER
    if error.code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Verdict.REFUSED
    if error.retry_after is not None:
        return Verdict.RETRY
    # Nothing here is ever cancelled by its caller: a server that ends in a hurry says so.
    if error.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return Verdict.RETRY
    return Verdict.REFUSED


def closed() -> RnnServeError:
    return RnnServeError(grpc.StatusCode.FAILED_PRECONDITION, "the session is closed; open another",
                         reason="SESSION_CLOSED")


def data_loss(why: str) -> RnnServeError:
    return RnnServeError(
        grpc.StatusCode.DATA_LOSS,
        f"the session's state is gone: {why}; open another session, with checkpoint_every=N if it shall survive this",
        reason="SESSION_LOST")


def not_sent() -> RnnServeError:
    return RnnServeError(grpc.StatusCode.DEADLINE_EXCEEDED,
                         "its time is over before it was sent to a server; the session is as it was", reason="NOT_SENT")


def outcome_unknown() -> RnnServeError:
    return RnnServeError(
        grpc.StatusCode.DEADLINE_EXCEEDED,
        "no server has answered in its time, so whether it counts is not known yet; it keeps its turn, and what comes "
        "later runs behind it: state() tells once that is known", reason="OUTCOME_UNKNOWN")


def predecessor_failed(error: RnnServeError) -> RnnServeError:
    return RnnServeError(grpc.StatusCode.ABORTED,
                         f"an operation before this one failed, so this one was not run: {error}",
                         reason="PREVIOUS_FAILED")
