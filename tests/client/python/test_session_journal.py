# SPDX-License-Identifier: Apache-2.0
"""The journal of a session against servers that are cut off, drained, killed and busy, in every order a seed finds."""

import collections
import itertools
import os
import random

import grpc
import pytest
from fake_sessions import FakeServer, refusal

from rnnserve.sessions import operations as ops
from rnnserve.sessions.journal import Journal, Phase

SEEDS = int(os.environ.get("RNNSERVE_SEEDS", "5000"))
Code = grpc.StatusCode


class World:
    """One session between its user and servers; messages lie on the wire until the test moves them."""

    def __init__(self, keep_every=0, max_in_flight=8, window=16):
        self.keys = itertools.count(1)
        self.server = FakeServer(self.keys, window)
        self.window = window
        snapshot = ops.Snapshot(0, None) if keep_every else None
        self.journal = Journal(map(str, itertools.count(1)), max_in_flight=max_in_flight, keep_every=keep_every,
                               snapshot=snapshot)
        self.key = self.server.open(None)
        self.requests, self.replies = collections.deque(), collections.deque()
        self.outcomes = []  # (what, value, error) in the order in which they came
        self.pump()

    def do(self, operation, what=None):
        self.journal.add(operation, lambda value, error: self.outcomes.append((what, value, error)))
        self.pump()

    def feed(self, *values):
        self.do(ops.Chunk(list(values)), values)

    def pump(self):
        self.requests += self.journal.sendable()
        for on_done, value, error in self.journal.take_finished():
            on_done(value, error)

    def serve(self):
        """The server takes the next request off the wire."""
        if self.requests:
            sending = self.requests.popleft()
            self.replies.append((sending.tag, self.server.apply(self.key, sending)))

    def reply(self):
        if self.replies:
            self.journal.answered(*self.replies.popleft())
            self.pump()

    def cut(self):
        self.requests.clear()
        self.replies.clear()
        self.journal.cut()
        self.pump()

    def kill(self):
        self.server = FakeServer(self.keys, self.window)
        self.cut()

    def drain(self, tell=True):
        self.server.draining = True
        if tell:
            self.journal.drain()
        self.pump()

    def reopen(self):
        """What the driver does for a homeless session."""
        if self.server.draining:
            self.server = FakeServer(self.keys, self.window)
        self.requests.clear()
        self.replies.clear()
        self.key = self.server.open(self.journal.snapshot.state)
        self.journal.opened()
        self.pump()

    def release(self):
        self.journal.release()
        self.pump()

    def run(self):
        """Until nothing moves any more."""
        for _ in range(2000):
            if self.journal.phase is Phase.HOMELESS:
                self.reopen()
            elif self.journal.hold_seconds is not None:
                self.release()
            elif self.requests:
                self.serve()
            elif self.replies:
                self.reply()
            else:
                return
        raise AssertionError("it never comes to rest")

    def log(self):
        self.do(ops.GetState(), "state")
        self.run()
        what, value, error = self.outcomes[-1]
        assert what == "state" and error is None, error
        return value["log"]


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
    assert errors == [None, (Code.INVALID_ARGUMENT, "bad"), (Code.ABORTED, "PREDECESSOR_FAILED")]
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
    assert world.journal.repairs == {"reconnects": 0, "hand_overs": 0, "replays": 1}


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


@pytest.mark.parametrize("reason", ["OLDER_OWNER", "NUMBER_REUSED"])
def test_a_session_that_somebody_else_took_is_let_go(reason):
    world = World(keep_every=1)
    world.feed(1)
    world.journal.answered(world.requests.popleft().tag, ops.Answer(error=refusal(Code.ABORTED, reason)))
    world.pump()
    assert world.outcomes[0][2].reason == reason and world.journal.phase is Phase.ENDED


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


class User:
    """Asks for this and that. `check` runs what succeeded once more, in its order, and compares every answer."""

    def __init__(self, world, chance):
        self.world, self.chance, self.asked = world, chance, 0

    def ask(self):
        self.asked += 1
        kind = self.chance.random()
        checkpoints = list(self.world.journal.checkpoints.values())
        if kind < 0.06:
            operation = ops.Chunk("bad")
        elif kind < 0.1:
            operation = ops.Reset()
        elif kind < 0.15:
            operation = ops.SelectRows((self.asked,))
        elif kind < 0.25:
            operation = ops.GetState()
        elif kind < 0.33:
            return self.checkpoint(f"c{self.chance.randint(0, 2)}")
        elif kind < 0.4 and checkpoints:
            operation = ops.Rewind(self.chance.choice(checkpoints))
        else:
            operation = ops.Chunk([self.asked] * self.chance.randint(1, 3))
        return self.world.do(operation, operation)

    def checkpoint(self, name):
        """As Session.checkpoint, which waits for the answer."""
        self.world.do(ops.GetState(), ops.GetState())
        self.world.run()
        _, state, error = self.world.outcomes[-1]
        if not error:
            self.world.journal.checkpoints[name] = state

    def check(self):
        log, position = [], 0
        for operation, value, error in self.world.outcomes:
            if error:
                continue
            match operation:
                case ops.Chunk():
                    log, position = log + operation.inputs, position + len(operation.inputs)
                case ops.Reset():
                    log, position = [], 0
                case ops.SelectRows():
                    log = log + [operation.rows]
                case ops.Rewind():
                    log, position = list(operation.state["log"]), operation.state.position
            if operation.numbered:
                assert value == log
            elif isinstance(operation, ops.GetState):
                assert value["log"] == log and value.position == position
        return log, position


def disturb(world, chance, events, happened):
    busy = ops.Answer(error=refusal(Code.RESOURCE_EXHAUSTED, "QUEUE_FULL", 0.1))
    if chance.random() < 0.05 and world.requests:
        world.replies.append((world.requests.popleft().tag, busy))
        happened["busy"] += 1
        return
    if chance.random() < 0.03 and world.replies:
        # Applied, but there was no memory for the answer.
        world.replies[-1] = (world.replies[-1][0], busy)
        happened["no memory"] += 1
        return
    event = chance.choice(events)
    if world.journal.phase is Phase.HOMELESS:
        world.reopen()
        happened["moved"] += 1
    elif event is World.drain:
        world.drain(tell=chance.random() < 0.5)
    else:
        event(world)
    happened[event.__name__] += 1


@pytest.mark.parametrize("keep_every", [0, 1, 3])
def test_whatever_happens_each_operation_counts_once(keep_every):
    """Seeded disturbances. Without snapshots a killed server ends the session; nothing else does."""
    happened = collections.Counter()
    for seed in range(SEEDS):
        chance = random.Random(seed)
        world = World(keep_every=keep_every, max_in_flight=chance.randint(1, 4))
        user = User(world, chance)
        events = [World.serve] * 6 + [World.reply] * 6 + [World.release] * 2 + [World.cut, World.drain]
        if keep_every or seed % 4 == 0:
            events.append(World.kill)
        try:
            for _ in range(chance.randint(5, 60)):
                if chance.random() < 0.3:
                    user.ask()
                else:
                    disturb(world, chance, events, happened)
            world.run()
            world.do(ops.GetState(), ops.GetState())
            world.run()
            assert len(world.outcomes) == user.asked + 1, "each is answered once"
            log, position = user.check()
            codes = [error and error.code for _, _, error in world.outcomes]
            if world.journal.phase is Phase.ENDED:
                assert not keep_every and codes[-1] is Code.DATA_LOSS
                assert all(code is Code.DATA_LOSS for code in codes[codes.index(Code.DATA_LOSS):])
                happened["lost"] += 1
            else:
                assert codes[-1] is None and Code.DATA_LOSS not in codes
                assert (world.server.sessions[world.key].log, world.journal.position) == (log, position)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, keep_every {keep_every}: {error}") from error
    assert all(happened[name] > SEEDS / 50 for name in ("cut", "drain", "busy", "no memory", "moved", "kill")), happened
    assert (happened["lost"] > 0) == (keep_every == 0), happened
