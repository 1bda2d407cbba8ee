# SPDX-License-Identifier: Apache-2.0
"""What a session does while nothing goes wrong, and what it says of mistakes."""

import asyncio
import concurrent.futures
import threading

import grpc
import numpy as np
import pytest
from conftest import H, log_of, remembering, steps, tape
from server_process import Server

import rnnserve


def test_feed_state_close(client):
    with client.session(remembering(), outputs=["Y_h"]) as session:
        assert tape(session.feed(steps(1, 2, 3))["Y_h"]) == [1, 2, 3]
        assert list(session.feed(steps(4), outputs=["Y"])) == ["Y"]
        state = session.state()
        assert (state.position, state.fingerprint, tape(state["initial_h"])) == (4, session.fingerprint, [1, 2, 3, 4])
        assert session.feed(steps(5, 6), outputs=[]) == {}
        final = session.close(return_state=True)
        assert tape(final["initial_h"]) == [1, 2, 3, 4, 5, 6] and final.position == 6
    with pytest.raises(rnnserve.RnnServeError) as caught:
        session.feed(steps(7))
    assert caught.value.reason == "SESSION_CLOSED"


def test_everything_else_that_changes_a_session(client):
    with client.session(remembering()) as session:
        session.feed(steps(1, 2))
        session.checkpoint("two")
        session.feed(steps(3))
        fork = session.fork()
        session.rewind("two")
        assert log_of(session) == [1, 2] and session.position == 2
        session.reset()
        assert log_of(session) == [] and session.position == 0
        session.set_state(fork.state())
        assert log_of(session) == [1, 2, 3]
        session.reset({"initial_h": np.full((1, 1, H), 2, np.float32)})
        assert log_of(session) == [2] * H
        first, second = fork.fork(2)
        first.feed(steps(8))
        second.rewind("two")
        assert [log_of(one) for one in (fork, first, second)] == [[1, 2, 3], [1, 2, 3, 8], [1, 2]]
        for one in (fork, first, second):
            one.close()
        with pytest.raises(ValueError, match="it has two"):
            session.rewind("three")


def test_rows(client):
    with client.session(remembering(), rows=2, outputs=["Y_h"]) as session:
        x = np.array([[1, 10], [2, 20]], np.float32)[..., None]
        session.feed({"X": x, "sequence_lens": [2, 1]})
        session.select_rows_async([1, 0, 0])
        h = session.feed(np.array([[[3], [4], [5]]], np.float32))["Y_h"]
        assert [tape(h, row) for row in range(3)] == [[10, 3], [1, 2, 4], [1, 2, 5]]


def test_states_given_and_taken(client):
    client.load("remember", remembering())
    with client.session("remember") as one:
        one.feed(steps(1, 2))
        with client.session("remember", state=one.state()) as other, \
                client.session(fingerprint=one.fingerprint) as third:
            other.feed(steps(3))
            third.set_state({"initial_h": other.state()["initial_h"]})
            assert log_of(third) == [1, 2, 3] and log_of(one) == [1, 2]


def test_a_session_taken_up_by_name(server, client):
    session = client.session(remembering(), name="desk")
    session.feed(steps(1))
    session.feed(steps(2))
    with rnnserve.Client(server.address) as later:
        with later.session(remembering(), name="desk", attach=True, checkpoint_every=1) as again:
            again.feed(steps(3))
            assert log_of(again) == [1, 2, 3] and again.position == 3
            with pytest.raises(rnnserve.RnnServeError) as caught:
                session.feed(steps(4))
            assert caught.value.reason == "FENCED"
            assert log_of(again) == [1, 2, 3], "nothing was changed"
            assert session.created and not again.created


def test_a_session_taken_up_by_name_has_to_be_the_one_that_is_meant(server, client):
    with client.session(remembering(), name="meant", rows=2) as session, rnnserve.Client(server.address) as later:
        for differs, fields in [("rows", {"rows": 1}), ("state_type", {"state_type": "float16"}),
                                ("state", {"state": session.state()})]:
            with pytest.raises(rnnserve.RnnServeError) as caught:
                later.session(remembering(), name="meant", attach=True, **fields)
            assert (caught.value.code, caught.value.field) == (grpc.StatusCode.FAILED_PRECONDITION, differs)
        session.feed(np.ones((1, 2, 1), np.float32))
        again = later.session(remembering(), name="meant", attach=True, must_exist=True)
        assert not again.created and again.position == 1
        again.feed(np.ones((1, 2, 1), np.float32))
    with pytest.raises(rnnserve.RnnServeError) as caught:
        client.session(remembering(), name="never", attach=True, must_exist=True)
    assert caught.value.code == grpc.StatusCode.NOT_FOUND


def test_a_fork_of_a_session_that_was_taken_up_goes_on(server, client):
    with client.session(remembering(), name="parent") as session, rnnserve.Client(server.address) as later:
        with later.session(remembering(), name="parent", attach=True) as again, again.fork() as fork:
            fork.feed(steps(1))
            assert log_of(fork) == [1] and session.key == again.key


def test_a_session_taken_up_before_its_first_chunk_is_not_taken_for_zeros(server, client):
    start = {"initial_h": np.full((1, 1, H), 3, np.float32)}
    with client.session(remembering(), name="started", state=start), rnnserve.Client(server.address) as later:
        with later.session(remembering(), name="started", attach=True, checkpoint_every=5) as again:
            np.testing.assert_array_equal(again.journal.snapshot.state["initial_h"], start["initial_h"])
            assert log_of(again) == [3] * H


def test_many_in_flight_of_many_sessions(client):
    sessions = [client.session(remembering(), outputs=["Y_h"], max_in_flight=4, checkpoint_every=7) for _ in range(20)]
    futures = [[] for _ in sessions]
    for value in range(1, 41):
        for mine, session in zip(futures, sessions):
            mine.append(session.feed_async(steps(value)))
    for mine in futures:
        for value, future in enumerate(mine, 1):
            assert tape(future.result(60)["Y_h"]) == list(range(1, value + 1))
    for session in sessions:
        session.close()


def test_threads_share_a_session(client):
    with client.session(remembering()) as session, concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda value: session.feed(steps(value)), range(1, 41)))
        assert sorted(log_of(session)) == list(range(1, 41))


def test_asyncio(client):
    async def main(session):
        answers = await asyncio.gather(*[session.afeed(steps(value)) for value in range(1, 31)])
        return [tape(answer["Y_h"]) for answer in answers]

    with client.session(remembering(), outputs=["Y_h"], max_in_flight=3) as session:
        assert asyncio.run(main(session)) == [list(range(1, count + 1)) for count in range(1, 31)]


def test_a_refused_chunk_leaves_the_state_and_fails_what_follows_it(client):
    with client.session(remembering()) as session:
        session.feed(steps(1))
        bad = session.feed_async(np.zeros((1, 1, 5), np.float32))
        behind = session.feed_async(steps(2))
        with pytest.raises(rnnserve.RnnServeError) as caught:
            bad.result()
        assert caught.value.code == grpc.StatusCode.INVALID_ARGUMENT and "X" in caught.value.field
        assert behind.exception().reason in ("PREVIOUS_FAILED", "")
        session.feed(steps(3))
        assert log_of(session) in ([1, 3], [1, 2, 3]), "the second may have been sent after the refusal was known"
        assert (behind.exception() is None) == (log_of(session) == [1, 2, 3])


def test_mistakes_are_told(client):
    for wrong in ({}, {"target": "m", "fingerprint": "f"}, {"target": remembering(), "version": 1}):
        with pytest.raises(ValueError):
            client.session(**wrong)
    with pytest.raises(rnnserve.RnnServeError) as caught:
        client.session("no such model")
    assert caught.value.reason == "MODEL_UNKNOWN"
    with client.session(remembering()) as session:
        with pytest.raises(ValueError, match="fewer steps"):
            session.feed(np.zeros((20_000_000, 1, 1), np.float32))


def test_waiting_in_a_callback_is_an_error_and_not_a_deadlock(client):
    told, outcome = threading.Event(), []

    def callback(_):
        try:
            session.feed(steps(2))
        except RuntimeError as error:
            outcome.append(str(error))
        told.set()

    with client.session(remembering(), max_in_flight=2) as session:
        session.feed_async(steps(1)).add_done_callback(callback)
        assert told.wait(60)
        # Where the reply came before the callback was added, it runs here and may wait.
        assert outcome == [] or "another thread" in outcome[0]


def test_a_chunk_above_the_servers_limit_harms_nobody_else():
    server = Server("--max_message_bytes=200000")
    with rnnserve.Client(server.address) as client:
        with client.session(remembering(), outputs=["Y_h"]) as big, client.session(remembering()) as other:
            before, large = big.feed_async(steps(1)), big.feed_async(np.zeros((60_000, 1, 1), np.float32))
            beside = other.feed_async(steps(2))
            with pytest.raises(rnnserve.RnnServeError) as caught:
                large.result()
            assert caught.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED and "larger" in caught.value.message
            assert tape(before.result()["Y_h"]) == [1] and beside.result()
            big.feed(steps(3))
            assert log_of(big) == [1, 3] and log_of(other) == [2]
    assert server.stop() == 0


def test_closing_the_client_ends_its_sessions(server):
    client = rnnserve.Client(server.address)
    session = client.session(remembering())
    client.close()
    with pytest.raises(rnnserve.RnnServeError) as caught:
        session.feed(steps(1))
    assert caught.value.code == grpc.StatusCode.CANCELLED
