# SPDX-License-Identifier: Apache-2.0
"""Three replicas and one client: who gets what, while one is killed, comes back, or drains."""

import collections
import concurrent.futures
import contextlib

import numpy as np
import pytest
from conftest import log_of, remembering, steps, tape
from server_process import Server

import rnnserve

EVEN = range(300, 367)  # of 1,000 over three, within 10 %


class Replicas:
    def __init__(self, *flags):
        self.flags = flags
        self.servers = [Server(*flags) for _ in range(3)]
        self.address = ",".join(server.address for server in self.servers)

    def kill(self, k):
        self.servers[k].kill()

    def come_back(self, k):
        self.servers[k].stop()
        self.servers[k] = Server(*self.flags, port=self.servers[k].port)

    def stop(self):
        for server in self.servers:
            server.drain()
        for server in self.servers:
            server.stop()


@pytest.fixture
def replicas():
    running = Replicas("--drain_timeout=1s")
    yield running
    running.stop()


def infer(client, op):
    assert client.infer(op, {"X": steps(3, 4)}, outputs="Y_h").outputs["Y_h"][0, 0, 0] == 4


@contextlib.contextmanager
def counting_calls(client):
    """By address, how many calls were answered there."""
    counts, call = collections.Counter(), client._call

    async def counted(server, *rest):
        reply = await call(server, *rest)
        counts[server] += 1
        return reply

    client._call = counted
    yield counts
    client._call = call


def wait_until_used(client, op, address):
    """A replica that is back is asked again by and by: how many calls that takes depends on the machine."""
    with counting_calls(client) as counts:
        for _ in range(100_000):
            infer(client, op)
            if counts[address]:
                return
    raise AssertionError(f"{address} is not used again")


def test_a_thousand_calls_and_a_thousand_sessions(replicas):
    op = remembering(8)
    with rnnserve.Client(replicas.address) as client:
        with counting_calls(client) as counts:
            # One after the other: of several at once a slower server gets fewer, as it should.
            for _ in range(1000):
                infer(client, op)
        # The weights are sent to each once more: where they were not yet.
        assert len(counts) == 3 and all(count in EVEN for count in counts.values()), counts
        client_of = {server.address: rnnserve.Client(server.address) for server in replicas.servers}
        client.load("remember", op)
        for other in client_of.values():
            other.load("remember", op)
        opened = [client.session("remember") for _ in range(1000)]
        there = {address: sum(1 for _ in other.sessions()) for address, other in client_of.items()}
        assert sum(there.values()) == 1000 and all(count in EVEN for count in there.values()), there
        named = client.session("remember", name="call-7")
        with rnnserve.Client([server.address for server in reversed(replicas.servers)]) as another:
            assert another.session("remember", name="call-7", attach=True, must_exist=True).link.address == \
                named.link.address, "whatever the order of its list"
        assert len({session.link.address for session in opened}) == 3
        for other in client_of.values():
            other.close()


def test_one_is_killed_and_comes_back(replicas):
    op, gone = remembering(), replicas.servers[1].address
    with rnnserve.Client(replicas.address) as client, concurrent.futures.ThreadPoolExecutor(4) as pool:
        sessions = [client.session(op, outputs=["Y_h"], checkpoint_every=4) for _ in range(12)]
        sessions += [client.session(op, outputs=["Y_h"], checkpoint_every=4, name=f"call-{k}") for k in range(12)]
        assert {session.link.address for session in sessions} == {server.address for server in replicas.servers}
        moved = [session for session in sessions if session.link.address == gone]
        calls = []
        for value in range(1, 41):
            futures = [session.feed_async(steps(value)) for session in sessions]
            calls += [pool.submit(infer, client, op) for _ in range(20)]
            if value == 15:
                replicas.kill(1)
            if value == 30:
                replicas.come_back(1)
            for future in futures:
                assert tape(future.result(60)["Y_h"]) == list(range(1, value + 1))
        for call in calls:
            call.result(60)  # raises what the caller would see
        assert all(session.repairs["replays"] == 1 for session in moved)
        assert all(session.repairs["replays"] == 0 for session in sessions if session not in moved)
        assert len({session.link.address for session in moved}) == 2, "spread over those that are left"
        wait_until_used(client, op, gone)
        assert gone in {client.session(op).link.address for _ in range(3)}
        for session in sessions:
            assert log_of(session) == list(range(1, 41))


def test_one_that_drains_gets_nothing_new():
    """While it still serves: its health alone tells."""
    replicas = Replicas("--drain_delay=60s", "--drain_timeout=1s")
    op, leaving = remembering(), replicas.servers[2]
    with rnnserve.Client(replicas.address) as client:
        session = next(made for made in iter(lambda: client.session(op), None) if made.link.address == leaving.address)
        for _ in range(3):
            infer(client, op)
        leaving.drain()
        with rnnserve.Client(leaving.address) as alone:
            for _ in range(10_000):
                if alone.health() == "NOT_SERVING":
                    break
        for _ in range(3000):  # until the news has come
            with counting_calls(client) as counts:
                for _ in range(6):
                    infer(client, op)
            if leaving.address not in counts:
                break
        with counting_calls(client) as counts:
            for _ in range(60):
                infer(client, op)
        assert leaving.address not in counts
        assert leaving.address not in {client.session(op).link.address for _ in range(12)}
        session.feed(steps(1, 2))
        assert log_of(session) == [1, 2] and session.link.address == leaving.address
    leaving.kill()
    replicas.stop()


def test_several_clients_do_not_meet_at_the_same_replica(replicas):
    """A name is found where it is by a client that lists the replicas in another order; without one in turn."""
    op = remembering(4)
    places = collections.Counter()
    for _ in range(12):
        with rnnserve.Client(replicas.address) as client:
            places[client.session(op).link.address] += 1
            assert np.array_equal(client.infer(op, {"X": steps(5)}, outputs="Y_h").outputs["Y_h"][0, 0], [5, 0, 0, 0])
    assert len(places) > 1
