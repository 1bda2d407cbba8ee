# SPDX-License-Identifier: Apache-2.0
"""The journal of a session, case by case."""

import itertools

import grpc
import numpy as np
import pytest
from fake_sessions import refusal
from session_world import World

from rnnserve.sessions import operations as ops
from rnnserve.sessions import wire
from rnnserve.sessions.entry import Phase
from rnnserve.sessions.journal import Journal

Code = grpc.StatusCode


def test_a_lost_reply_is_asked_for_again_and_nothing_runs_twice():
    world = World()
    world.feed(1)
    world.feed(2)
    world.serve()
    world.cut()
    world.run()
    assert world.outcomes == [((1,), [1], None), ((2,), [1, 2], None)]
    assert world.server.runs == 2


def test_in_flight_is_bounded_and_a_look_waits_for_what_is_before_it():
    world = World(max_in_flight=3)
    for value in range(5):
        world.feed(value)
    assert len(world.requests) == 3
    world.serve()
    world.reply()
    assert len(world.requests) == 3
    world.do(ops.GetState(), "state")
    world.feed(9)
    world.run()
    assert [what for what, _, _ in world.outcomes][-2:] == ["state", (9,)]
    assert world.outcomes[-2][1]["log"] == [0, 1, 2, 3, 4]


def test_a_look_is_answered_for_its_place_also_after_a_cut():
    world = World()
    world.feed(1)
    world.do(ops.GetState(), "state")
    world.feed(2)
    for _ in range(3):
        world.serve()
    world.cut()
    world.run()
    assert [value["log"] if what == "state" else value for what, value, _ in world.outcomes] == [[1], [1], [1, 2]]


def test_a_refused_operation_takes_no_number_and_fails_what_was_sent_behind_it():
    world = World()
    world.feed(1)
    world.do(ops.Chunk("bad"), "bad")
    world.feed(2)
    world.run()
    errors = [error and (error.code, error.reason) for _, _, error in world.outcomes]
    assert errors == [None, (Code.INVALID_ARGUMENT, "bad"), (Code.ABORTED, "PREVIOUS_FAILED")]
    world.feed(3)
    assert world.log() == [1, 3]


def test_what_cannot_be_sent_fails_in_its_turn_and_is_not_sent_again():
    world = World()
    world.feed(1)
    world.do(ops.Chunk("huge"), "huge")
    world.feed(2)
    world.serve()
    world.journal.unsendable(world.requests[0].tag, refusal(Code.RESOURCE_EXHAUSTED, ""))
    world.requests.clear()
    world.replies.clear()
    world.pump()
    assert [sending.number for sending in world.requests] == [1]
    world.run()
    assert [error and error.code for _, _, error in world.outcomes] == [None, Code.RESOURCE_EXHAUSTED, Code.ABORTED]
    world.feed(3)
    assert world.log() == [1, 3]


def test_a_busy_server_is_asked_again_after_the_time_it_names():
    world = World()
    world.feed(1)
    world.feed(2)
    first, second = world.requests
    world.requests.clear()
    # Out of turn: the refusal of the second comes first.
    world.journal.answered(second.tag, ops.Answer(error=refusal(Code.OUT_OF_RANGE, "NUMBER_TOO_HIGH")))
    assert world.journal.phase is Phase.LIVE
    world.journal.answered(first.tag, ops.Answer(error=refusal(Code.RESOURCE_EXHAUSTED, "QUEUE_FULL", 0.3)))
    world.pump()
    assert world.journal.hold_seconds == 0.3 and not world.requests
    assert world.log() == [1, 2]


@pytest.mark.parametrize("told", [True, False])
def test_the_state_is_carried_over_from_a_leaving_server(told):
    world = World()
    for value in range(3):
        world.feed(value)
    world.serve()
    world.drain(told)
    world.feed(3)
    assert world.log() == [0, 1, 2, 3]
    assert world.journal.incarnation == 2 and world.journal.snapshot is None
    assert [error for _, _, error in world.outcomes if error] == []


def test_a_cut_while_the_state_is_fetched_loses_no_answer():
    world = World()
    world.feed(1)
    world.feed(2)
    world.serve()
    world.drain()
    world.cut()
    assert world.log() == [1, 2]
    assert world.outcomes[:2] == [((1,), [1], None), ((2,), [1, 2], None)]


def test_an_answer_that_a_leaving_server_had_no_memory_for_is_asked_for_again():
    world = World()
    world.feed(1)
    world.serve()
    applied, _ = world.replies.popleft()
    world.drain()
    world.replies.append((applied, ops.Answer(error=refusal(Code.RESOURCE_EXHAUSTED, "", 0.1))))
    assert world.log() == [1]
    assert world.outcomes[0] == ((1,), [1], None) and world.journal.repairs["hand_overs"] == 1


def test_a_killed_server_is_data_loss_and_says_so_to_everybody():
    world = World()
    world.feed(1)
    world.run()
    world.kill()
    world.feed(2)
    world.run()
    world.feed(3)
    world.pump()
    assert [error and error.code for _, _, error in world.outcomes] == [None, Code.DATA_LOSS, Code.DATA_LOSS]


def test_a_killed_server_is_replayed_from_the_snapshot():
    world = World(keep_every=4)
    for value in range(10):
        world.feed(value)
        world.run()
    assert world.journal.snapshot.index == 8
    world.kill()
    world.feed(10)
    world.run()
    assert world.outcomes[-1] == ((10,), list(range(11)), None)
    assert len(world.outcomes) == 11, "what had been answered is not answered again"
    assert world.server.runs == 3, "two from the journal and the new one"
    assert world.journal.repairs == {"reconnects": 0, "hand_overs": 0, "replays": 1, "takeovers": 0}


def test_what_is_kept_is_bounded_in_bytes():
    world = World(keep_every=1000)
    world.journal._most_kept_bytes = 100
    for value in range(9):
        world.do(ops.Chunk([value], bytes=20))
        world.run()
    assert world.journal.snapshot.index >= 6
    world.kill()
    assert world.log() == list(range(9)) and world.server.runs <= 3


def test_reset_select_rows_and_rewind_survive_both():
    for end in (World.drain, World.kill):
        world = World(keep_every=100)
        world.feed(1, 2)
        world.do(ops.SelectRows((0, 0)))
        world.do(ops.GetState(), "state")
        world.run()
        state = world.outcomes[-1][1]
        world.feed(3)
        world.do(ops.Rewind(state))
        assert world.log() == [1, 2, (0, 0)] and world.journal.position == 2
        world.feed(4)
        world.run()
        end(world)
        world.do(ops.Rewind(state))
        world.feed(5)
        assert world.log() == [1, 2, (0, 0), 5] and world.journal.position == 3
        world.do(ops.Reset())
        assert world.log() == [] and world.journal.position == 0


def test_a_fork_has_a_journal_of_its_own():
    world = World(keep_every=100)
    world.feed(1)
    world.feed(2)
    world.journal.checkpoints["one"] = ops.State({"log": [1]}, position=1)
    world.do(ops.Fork("f"), "fork")
    world.feed(3)
    world.run()
    (key, journal), = next(value for what, value, _ in world.outcomes if what == "fork")
    assert world.log() == [1, 2, 3]
    fork = World(keep_every=100)
    fork.server, fork.key, fork.journal = world.server, key, journal
    fork.feed(9)
    assert fork.log() == [1, 2, 9] and fork.journal.position == 3
    fork.do(ops.Rewind(journal.checkpoints["one"]))
    assert fork.log() == [1] and fork.journal.position == 1
    fork.feed(2, 9)
    fork.kill()
    assert fork.log() == [1, 2, 9], "its snapshot and what came after are its own"
    assert world.log() == [1, 2, 3]


def test_a_reply_that_is_not_kept_any_more_is_not_made_up():
    for keep_every, ends in ((0, True), (100, False)):
        world = World(keep_every=keep_every, window=1)
        world.feed(1)
        world.feed(2)
        world.serve()
        world.serve()
        world.cut()
        world.run()
        if ends:
            assert [error.code for _, _, error in world.outcomes] == [Code.DATA_LOSS] * 2
        else:
            assert world.outcomes == [((1,), [1], None), ((2,), [1, 2], None)]


@pytest.mark.parametrize("reason", ["OLDER_OWNER", "NUMBER_REUSED", "FENCED", "SOME_OTHER"])
def test_what_is_aborted_for_another_owner_is_never_sent_again(reason):
    """It may have been applied."""
    world = World(keep_every=1)
    world.feed(1)
    world.feed(2)
    sent = [world.requests.popleft() for _ in range(2)]
    world.journal.answered(sent[0].tag, ops.Answer(error=refusal(Code.ABORTED, reason)))
    world.pump()
    world.journal.cut()
    world.pump()
    assert [error.reason for _, _, error in world.outcomes] == [reason] * 2
    assert world.journal.phase is Phase.ENDED and not world.requests and not world.journal.sendable()


def test_closing_needs_no_server():
    world = World(keep_every=10)
    world.feed(1)
    world.run()
    world.kill()
    world.do(ops.Close(), "closed")
    world.run()
    assert world.outcomes[-1] == ("closed", None, None) and not world.server.sessions
    world.feed(2)
    world.pump()
    assert world.outcomes[-1][2].reason == "SESSION_CLOSED"


def test_sessions_taken_up_again_go_on_counting():
    world = World()
    world.feed(1)
    world.run()
    world.journal = Journal(map(str, itertools.count(100)))
    world.journal.attached(1, 1)
    world.feed(2)
    assert world.log() == [1, 2] and world.journal.position == 2


class _Tensor:
    def __init__(self, steps, name="X"):
        self.name, self.shape = name, (steps, 1, 3)


def test_no_more_is_sent_than_has_its_replies_in_the_window():
    """What is in flight when the connection breaks must be found there by its repetition."""
    journal = Journal(map(str, itertools.count(1)), max_in_flight=8, window_bytes=4000)

    def feed(steps):
        journal.add(ops.Chunk([_Tensor(steps)]), lambda value, error: None)

    def answer(sending):
        steps = sending.operation.inputs[0].shape[0]
        journal.answered(sending.tag, ops.Answer(sending.number, 0, {"Y": np.zeros((steps, 16), np.float32)}))

    for _ in range(4):
        feed(16)  # 1,024 bytes each: 1,552 of the window at most
    sent = journal.sendable()
    assert len(sent) == 1, "how large its reply is, nobody knows yet"
    answer(sent[0])
    assert len(journal.sendable()) == 2
    assert journal.sendable() == []
    journal.cut()
    sent = journal.sendable()
    assert len(sent) == 2, "again, and the third still waits"
    answer(sent[0])
    assert len(journal.sendable()) == 1
    feed(1000)  # more than the window: the server says so, once it is alone
    assert journal.sendable() == []


def test_outputs_of_a_whole_model_are_expected_to_grow_with_the_steps():
    """Their names tell nothing: a longer chunk is held back if its reply would not fit."""
    journal = Journal(map(str, itertools.count(1)), max_in_flight=8, window_bytes=6000)

    def feed(*steps):
        for count in steps:
            journal.add(ops.Chunk([_Tensor(count, "tokens")]), lambda value, error: None)

    feed(16)
    (first,) = journal.sendable()
    journal.answered(first.tag, ops.Answer(first.number, 0, {"p": np.zeros((16, 16), np.float32)}))
    feed(16, 16)
    assert len(journal.sendable()) == 2
    feed(64)  # 4 KiB more
    assert journal.sendable() == []


def chunk(*values):
    return ops.Chunk(list(values))


def test_what_was_never_sent_is_taken_back_at_its_deadline_with_what_waits_behind_it():
    world = World(max_in_flight=1)
    world.feed(1)
    for value in (2, 3):
        world.do(chunk(value), value, deadline=1.0 if value == 2 else None)
    world.expire(0.9)
    assert world.outcomes == []
    world.expire(1.0)
    assert [(what, error.reason) for what, _, error in world.outcomes] == [(2, "NOT_SENT"), (3, "PREVIOUS_FAILED")]
    world.feed(4)
    assert world.log() == [1, 4], "under the number that the second one had"


def test_what_was_sent_keeps_its_turn_when_its_caller_is_gone():
    world = World()
    world.do(chunk(1), 1, deadline=1.0)
    world.feed(2)
    world.serve()
    world.expire()
    (what, _, error), = world.outcomes
    assert (what, error.code, error.reason) == (1, Code.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN")
    world.cut()
    world.expire()
    assert world.log() == [1, 2] and world.server.runs == 2 and world.journal.position == 2
    assert len(world.outcomes) == 3


def test_what_was_sent_on_a_connection_that_never_came_to_be_is_taken_back():
    world = World()
    world.feed(1)
    world.serve()
    world.cut()
    world.do(chunk(2), 2, deadline=1.0)
    world.nobody_there()
    world.expire()
    (what, _, error), = world.outcomes
    assert (what, error.reason) == (2, "NOT_SENT")
    assert world.log() == [1] and world.outcomes[1] == ((1,), [1], None)


def test_what_was_sent_and_is_refused_after_its_deadline_fails_what_is_behind_it():
    world = World()
    world.do(ops.Chunk("bad"), "bad", deadline=1.0)
    world.expire()
    world.feed(2)
    world.do(ops.GetState(), "state")
    world.run()
    assert [error and error.reason for _, _, error in world.outcomes] == ["OUTCOME_UNKNOWN", "PREVIOUS_FAILED", None]
    assert world.outcomes[-1][1]["log"] == [], "the state may be asked for meanwhile"
    world.feed(3)
    assert world.log() == [3]


def test_what_runs_again_from_a_snapshot_is_not_taken_back():
    world = World(keep_every=5)
    world.feed(1)
    world.run()
    world.kill()
    world.do(chunk(2), 2, deadline=1.0)
    world.run()
    world.kill()
    world.do(chunk(3), 3, deadline=1.0)
    world.serve()  # SESSION_LOST
    world.reply()
    assert world.journal.phase is Phase.UNPLACED
    world.expire()
    assert world.outcomes[-1][2].reason in ("NOT_SENT", "OUTCOME_UNKNOWN")
    assert world.log()[:2] == [1, 2]


@pytest.mark.parametrize("deadline, session_timeout, sent", [(None, None, None), (None, 60.0, 60.0), (110.0, 60.0, 9.0),
                                                             (103.0, None, 2.7), (200.0, 60.0, 99.0), (99.0, None, 0.001)])
def test_the_server_has_a_little_less_time_than_the_caller(deadline, session_timeout, sent):
    world = World()
    world.do(ops.Chunk((), timeout=session_timeout), deadline=deadline)
    message = wire.encode_operation(wire.Handle("key", 1), world.requests[0], now=100.0)
    assert (message.timeout.ToNanoseconds() * 1e-9 if message.HasField("timeout") else None) == pytest.approx(sent)
