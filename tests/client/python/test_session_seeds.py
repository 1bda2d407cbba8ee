# SPDX-License-Identifier: Apache-2.0
"""The journal of a session against servers that are cut off, drained, killed and busy, in every order a seed finds.

RNNSERVE_SEEDS=N runs N seeds; a failure names its own.
"""

import collections
import os
import random

import grpc
import pytest
from fake_sessions import refusal
from session_world import World

from rnnserve.sessions import operations as ops
from rnnserve.sessions.entry import Phase

SEEDS = int(os.environ.get("RNNSERVE_SEEDS", "5000"))
Code = grpc.StatusCode


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
    if world.journal.phase is Phase.UNPLACED:
        world.reopen()
        happened["moved"] += 1
    elif world.journal.phase is Phase.ADRIFT:
        world.follow()
        happened["followed"] += 1
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


@pytest.mark.parametrize("keep_every, write_every", [(0, 1), (0, 4), (3, 4)])
def test_durable_sessions_outlive_their_servers(keep_every, write_every):
    """Killed, drained, cut off, at any moment: the same key goes on with what the store has, and the rest is sent again."""
    happened = collections.Counter()
    for seed in range(SEEDS // 2):
        chance = random.Random(seed)
        world = World(keep_every=keep_every, max_in_flight=chance.randint(1, 4), write_every=write_every)
        key, user = world.key, User(world, chance)
        events = [World.serve] * 6 + [World.reply] * 6 + [World.release] * 2 + [World.cut, World.drain, World.kill]
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
            assert not any(error and error.code is Code.DATA_LOSS for _, _, error in world.outcomes)
            assert (world.server.sessions[world.key].log, world.journal.position) == (log, position)
            # With snapshots several are under way; where a reply is lost that the store does not keep, they are used.
            assert keep_every or (world.key == key and world.journal.repairs["replays"] == 0), "it was opened anew"
            assert keep_every or len(world.journal._kept) < write_every, "only what the store lacks is kept"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, keep_every {keep_every}: {error}") from error
    assert all(happened[name] > SEEDS / 100 for name in ("cut", "drain", "busy", "no memory", "followed", "kill")), happened


@pytest.mark.parametrize("keep_every", [0, 3])
def test_whoever_waits_no_longer_is_told_what_is_true(keep_every):
    """As above with deadlines: what was taken back never counts, what is unknown counts once or never."""
    happened = collections.Counter()
    for seed in range(SEEDS // 5):
        chance = random.Random(seed)
        world = World(keep_every=keep_every, max_in_flight=chance.randint(1, 4))
        events = [World.serve] * 6 + [World.reply] * 6 + [World.release] * 2 + [World.cut, World.drain, World.expire,
                                                                               World.nobody_there]
        events += [World.kill] if keep_every else []
        asked = 0
        for _ in range(chance.randint(5, 60)):
            if chance.random() < 0.3:
                asked += 1
                world.do(ops.Chunk("bad" if chance.random() < 0.1 else [asked]), asked,
                         deadline=chance.choice([None, 1.0]))
            else:
                disturb(world, chance, events, happened)
        world.run()
        outcomes = {what: (value, error) for what, value, error in world.outcomes}
        final = world.log()
        assert len(world.outcomes) == len(outcomes) + 1 == asked + 1, f"seed {seed}: each is answered once"
        assert final == sorted(set(final)), f"seed {seed}: nothing runs twice or out of turn"
        for what, (value, error) in outcomes.items():
            if error is None:
                assert value == final[:final.index(what) + 1], f"seed {seed}"
            else:
                happened[error.reason] += 1
                assert error.reason == "OUTCOME_UNKNOWN" or what not in final, f"seed {seed}: {what} {error}"
                happened["unknown, counted"] += what in final
    wanted = ("NOT_SENT", "OUTCOME_UNKNOWN", "PREVIOUS_FAILED", "unknown, counted", "cut", "drain")
    assert all(happened[name] > SEEDS / 50 for name in wanted), happened
