# SPDX-License-Identifier: Apache-2.0
"""When, where and for how long a call is sent again. No server and no clock."""

import math

import grpc
import pytest

from rnnserve import RnnServeError
from rnnserve.tries import Patience, Tries, is_refusal, lacks_engine

Code = grpc.StatusCode
LOST = RnnServeError(Code.UNAVAILABLE, "no answer")
NO_ENGINE = RnnServeError(Code.UNAVAILABLE, "the device is lost", reason="ENGINE_OUT_OF_SERVICE")


def leaving(seconds=1.0, reason=""):
    return RnnServeError(Code.UNAVAILABLE, "the server is shutting down", reason=reason, retry_after=seconds)


def lowest(least, _):
    return least


def highest(_, most):
    return most


def test_refusals_are_the_servers_own_word():
    assert is_refusal(leaving()) and is_refusal(RnnServeError(Code.UNAVAILABLE, "", reason="DRAINING"))
    assert not is_refusal(LOST)
    assert not is_refusal(RnnServeError(Code.RESOURCE_EXHAUSTED, "busy", retry_after=1.0))


@pytest.mark.parametrize("spread, factor", [(lowest, 0.8), (highest, 1.2)])
def test_pauses_double_up_to_a_second(spread, factor):
    tries, now, pauses = Tries([0], 100.0, spread), 100.0, []
    for _ in range(7):
        pauses.append(tries.failed(LOST, now))
        now += pauses[-1]
    assert pauses == pytest.approx([factor * pause for pause in (0.05, 0.1, 0.2, 0.4, 0.8, 1, 1)])


def test_a_server_is_asked_again_when_it_said():
    assert Tries([0], 100.0, lowest).failed(leaving(3), 100.0) == 3
    assert Tries([0], 100.0, highest).failed(leaving(3), 100.0) == pytest.approx(3.6), "not all at once"


def test_the_others_are_asked_at_once_and_then_whoever_is_due_first():
    tries = Tries([0, 1, 2], 100.0, lowest)
    assert (tries.server, tries.failed(leaving(1.0), 100.0), tries.server) == (0, 0.0, 1)
    assert (tries.failed(LOST, 100.0), tries.server) == (0.0, 2)
    assert tries.failed(leaving(0.5), 100.0) == pytest.approx(0.04) and tries.server == 1, "it named no time"
    assert tries.failed(LOST, 100.04) == pytest.approx(0.08) and tries.server == 1
    assert tries.failed(LOST, 100.12) == pytest.approx(0.16) and tries.server == 1
    assert tries.failed(LOST, 100.28) == pytest.approx(0.22) and tries.server == 2


def test_one_without_the_engine_is_not_asked_again():
    tries = Tries([0, 1], 100.0, lowest)
    assert (tries.failed(NO_ENGINE, 100.0), tries.server, tries.asked_all) == (0.0, 1, False)
    for now in (100.0, 200.0, 300.0):
        assert tries.failed(LOST, now) < 1 and tries.server == 1 and tries.asked_all
    assert tries.failed(NO_ENGINE, 400.0) == math.inf
    assert lacks_engine(NO_ENGINE) and not is_refusal(NO_ENGINE) and not lacks_engine(LOST)


def test_patience_is_short_with_an_address_that_never_answered():
    patience = Patience(60.0)
    for nobody in (LOST, RnnServeError(Code.DEADLINE_EXCEEDED, ""), RnnServeError(Code.INTERNAL, "")):
        patience.note(nobody)
    assert patience.end(100.0) == 105.0 and patience.end(100.0, deadline=102.0) == 102.0
    assert patience.end(100.0, deadline=130.0) == 105.0
    assert Patience(2.0).end(100.0) == 102.0
    assert patience.end(100.0, asked_all=False) == 160.0 and patience.end(100.0, 130.0, asked_all=False) == 130.0


@pytest.mark.parametrize("word", [None, leaving(), NO_ENGINE, RnnServeError(Code.NOT_FOUND, "no such model")])
def test_patience_with_one_that_has_answered(word):
    patience = Patience(60.0)
    patience.note(word)
    patience.note(LOST)
    assert patience.end(100.0) == 160.0
    assert patience.end(100.0, deadline=103.0) == 103.0 and patience.end(100.0, deadline=300.0) == 300.0


def test_an_error_tells_how_often_it_was_tried():
    tries = Tries([0, 1], 100.0, lowest)
    assert tries.final_error(LOST, 101.0) is LOST
    tries.failed(LOST, 100.0)
    assert tries.final_error(LOST, 100.0) is LOST, "once needs no word"
    last = leaving(0.5, "DRAINING")
    tries.failed(last, 102.5)
    told = tries.final_error(last, 102.5)
    assert told.message == "the server is shutting down (tried 2 times in 2.5 s)"
    assert (told.code, told.reason, told.retry_after) == (Code.UNAVAILABLE, "DRAINING", 0.5)
    late = tries.final_error(RnnServeError(Code.DEADLINE_EXCEEDED, "Deadline Exceeded"), 103.0)
    assert late.code == Code.DEADLINE_EXCEEDED
    assert late.message == ("Deadline Exceeded (tried 3 times in 3.0 s; before that UNAVAILABLE: the server is shutting "
                            "down)")
