# SPDX-License-Identifier: Apache-2.0
"""Lost connections, leaving servers and killed ones, each with three lines of user code that know nothing of it."""

import concurrent.futures
import threading

import grpc
import nginx
import numpy as np
import pytest
from conftest import H, log_of, remembering, steps, tape
from cutting_proxy import CuttingProxy
from server_process import Server

import rnnserve
from rnnserve.sessions import driver, link

Code = grpc.StatusCode
CHUNKS = 60


def feed_all(client, stop_at=(), doing=lambda: None, **session_options):
    """The user's code; `doing` happens after each chunk in stop_at. Checks every output on the way."""
    with client.session(remembering(), outputs=["Y_h"], **session_options) as session:
        for value in range(1, CHUNKS + 1):
            assert tape(session.feed(steps(value))["Y_h"]) == list(range(1, value + 1))
            if value in stop_at:
                doing()
        assert log_of(session) == list(range(1, CHUNKS + 1)) and session.position == CHUNKS


@pytest.mark.parametrize("seed", range(3))
def test_connections_cut_in_the_middle_of_messages(server, seed):
    with rnnserve.Client(server.address) as client:
        client.load("remember", remembering())  # a short Open, so that the cuts come later
    proxy = CuttingProxy(server.port, seed, cuts=8, least=1000, most=6000)
    with rnnserve.Client(proxy.address) as client:
        with client.session("remember", outputs=["Y_h"], max_in_flight=1 + 3 * seed) as session:
            futures = [session.feed_async(steps(value)) for value in range(1, CHUNKS + 1)]
            for value, future in enumerate(futures, 1):
                assert tape(future.result(120)["Y_h"]) == list(range(1, value + 1)), f"seed {seed}"
            assert log_of(session) == list(range(1, CHUNKS + 1)) and session.key
            assert session.repairs["reconnects"] >= 1 and session.repairs["replays"] == 0
    proxy.close()


def test_long_chunks_in_flight_outlive_their_connections(server):
    """Eight replies of 50 KiB that may all have to be asked for again: the window has room for them."""
    proxy = CuttingProxy(server.port, seed=4, cuts=6, least=100_000, most=400_000)
    with rnnserve.Client(proxy.address) as client:
        with client.session(remembering(), outputs=["Y"], max_in_flight=8) as session:
            futures = [session.feed_async(steps(*[value] * 100)) for value in range(1, CHUNKS + 1)]
            for value, future in enumerate(futures, 1):
                assert (future.result(120)["Y"][:, 0, 0, 0] == value).all()
            assert session.position == 100 * CHUNKS
            assert session.repairs["reconnects"] >= 1 and session.repairs["replays"] == 0
    proxy.close()


def test_many_sessions_over_a_line_that_breaks(server):
    proxy = CuttingProxy(server.port, seed=9, cuts=0)
    with rnnserve.Client(proxy.address) as client:
        sessions = [client.session(remembering(), outputs=["Y_h"]) for _ in range(10)]
        for value in range(1, 31):
            futures = [session.feed_async(steps(value)) for session in sessions]
            if value % 6 == 0:
                proxy.cut_now()
            for future in futures:
                assert tape(future.result(120)["Y_h"]) == list(range(1, value + 1))
        for session in sessions:
            session.close()
    proxy.close()


def test_a_line_that_is_dead_and_does_not_say_so(server, monkeypatch):
    monkeypatch.setattr(link, "SILENCE_SECONDS", 0.3)
    proxy = CuttingProxy(server.port, seed=2, cuts=0)
    with rnnserve.Client(proxy.address) as client:
        feed_all(client, [10, 30], proxy.freeze_now)
    proxy.close()


def test_a_line_that_dies_while_it_is_idle_is_replaced_before_it_is_needed(server):
    """By keepalive: the client's own question for a sign of life is asked only where an answer is due."""
    options = [("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_timeout_ms", 500), ("grpc.http2.ping_timeout_ms", 500)]
    proxy = CuttingProxy(server.port, seed=3, cuts=0)
    with rnnserve.Client(proxy.address, options=options) as client:
        with client.session(remembering(), outputs=["Y_h"]) as session:
            assert tape(session.feed(steps(1))["Y_h"]) == [1]
            proxy.wait_for_connection(1)
            proxy.freeze_now()
            proxy.wait_for_connection(60)
            assert tape(session.feed(steps(2))["Y_h"]) == [1, 2]
            assert session.repairs == {"reconnects": 1, "hand_overs": 0, "replays": 0, "takeovers": 0}
    proxy.close()


def test_a_server_that_computes_for_long_is_not_taken_for_dead(server, monkeypatch):
    monkeypatch.setattr(link, "SILENCE_SECONDS", 0.3)  # a busy machine answers the question for a sign of life within it
    monkeypatch.setattr(driver, "_WATCH_SECONDS", 0.02)
    with rnnserve.Client(server.address) as client:
        with client.session(remembering(), outputs=["Y_h"], engine="reference") as session:
            assert tape(session.feed(np.ones((80_000, 1, 1), np.float32))["Y_h"]) == [1] * H
            assert session.repairs["reconnects"] == 0


def test_the_state_is_carried_over_when_the_server_leaves():
    old, new = Server("--drain_timeout=60s"), Server()
    with rnnserve.Client(old.address, others=[new.address], load_balancing="pick_first") as client:
        idle = client.session(remembering())
        idle.feed(steps(7, 8))
        idle.checkpoint("eight")
        idle.feed(steps(9))
        feed_all(client, [20], old.drain)
        assert old.process.wait(timeout=60) == 0, "it need not wait for anything"
        assert log_of(idle) == [7, 8, 9]
        idle.rewind("eight")
        assert log_of(idle) == [7, 8] and idle.position == 2
        idle.close()
    old.stop()
    assert new.stop() == 0


def test_carried_over_with_operations_in_flight():
    old, new = Server("--drain_timeout=60s"), Server()
    with rnnserve.Client(old.address, others=[new.address], load_balancing="pick_first") as client:
        sessions = [client.session(remembering(), outputs=["Y_h"]) for _ in range(8)]
        drained = threading.Event()

        def run(session):
            futures = []
            for value in range(1, CHUNKS + 1):
                futures.append(session.feed_async(steps(value)))
                if value == 10 and session is sessions[0]:
                    old.drain()
                    drained.set()
            return [tape(future.result(120)["Y_h"]) for future in futures]

        with concurrent.futures.ThreadPoolExecutor(len(sessions)) as pool:
            for answers in pool.map(run, sessions):
                assert answers == [list(range(1, value + 1)) for value in range(1, CHUNKS + 1)]
        assert drained.is_set() and old.process.wait(timeout=60) == 0
        for session in sessions:
            assert session.link.address == new.address
            session.close()
    old.stop()
    assert new.stop() == 0


def test_the_same_name_leads_to_another_server():
    """As behind a load balancer: one address, and whoever answers there."""
    old, new = Server("--drain_timeout=60s"), Server()
    proxy = CuttingProxy(old.port, seed=1, cuts=0)

    def leave():
        proxy.target_port = new.port  # new connections only
        old.drain()

    with rnnserve.Client(proxy.address) as client:
        feed_all(client, [20], leave)
    assert old.stop() == 0 and new.stop() == 0
    proxy.close()


@pytest.mark.parametrize("every", [1, 8])
def test_a_killed_server_with_checkpoint_every(every):
    servers = [Server(), Server(), Server()]
    with rnnserve.Client(servers[0].address, others=[server.address for server in servers[1:]], load_balancing="pick_first") as client:
        left = iter(servers[:2])
        feed_all(client, [15, 35], lambda: next(left).kill(), checkpoint_every=every)
    for server in servers:
        server.stop()


def test_a_killed_server_that_comes_back_at_its_address():
    servers = [Server()]
    port = servers[0].port

    def restart():
        servers[-1].kill()
        servers.append(Server(port=port))

    with rnnserve.Client(servers[0].address) as client:
        feed_all(client, [15, 35], restart, checkpoint_every=10)
    assert servers[-1].stop() == 0


@pytest.mark.parametrize("end", [Server.drain, Server.kill])
def test_rows_names_and_forks_move_as_they_are_by_then(end):
    old, new = Server("--drain_timeout=60s"), Server()
    with rnnserve.Client(old.address, others=[new.address], load_balancing="pick_first") as client:
        with client.session(remembering(), name="beam", rows=1, checkpoint_every=2) as session:
            session.feed(steps(1))
            session.select_rows([0, 0, 0])
            session.feed(np.array([[[2], [3], [4]]], np.float32))
            session.select_rows([2, 1])
            forks = session.fork(2)
            session.feed(np.array([[[5], [6]]], np.float32))
            end(old)
            for one in (session, *forks):
                one.feed(np.array([[[7], [8]]], np.float32))
            assert [log_of(session, row) for row in range(2)] == [[1, 4, 5, 7], [1, 3, 6, 8]]
            for fork in forks:
                assert [log_of(fork, row) for row in range(2)] == [[1, 4, 7], [1, 3, 8]]
                fork.close()
            assert session.repairs["hand_overs" if end is Server.drain else "replays"] == 1
            assert session.link.address == new.address
    old.stop()
    assert new.stop() == 0


@pytest.mark.skipif(nginx.BINARY is None, reason="nginx is not installed")
def test_through_nginx_which_is_killed_and_then_the_server_behind_it():
    servers = [Server()]
    front = nginx.Nginx(servers[0].port)

    def disturb():
        if not disturbed:
            front.restart()
        else:
            servers[-1].kill()
            servers.append(Server(port=servers[0].port))
        disturbed.append(True)

    disturbed = []
    with rnnserve.Client(front.address) as client:
        feed_all(client, [20, 40], disturb, checkpoint_every=7)
        front.restart()
        feed_all(client, [30], front.restart)
    front.close()
    assert servers[-1].stop() == 0
    servers[0].stop()


def test_forks_survive_too():
    one, two = Server(), Server()
    with rnnserve.Client(one.address, others=[two.address], load_balancing="pick_first") as client:
        with client.session(remembering(), checkpoint_every=5) as session:
            for value in range(1, 8):
                session.feed(steps(value))
            fork = session.fork()
            session.feed(steps(8))
            one.kill()
            fork.feed(steps(100))
            assert log_of(fork) == [1, 2, 3, 4, 5, 6, 7, 100]
            assert log_of(session) == [1, 2, 3, 4, 5, 6, 7, 8]
            fork.close()
    one.stop()
    assert two.stop() == 0


def test_a_killed_server_without_is_data_loss_and_never_zeros():
    one = Server()
    with rnnserve.Client(one.address) as client:
        session = client.session(remembering())
        session.feed(steps(1, 2, 3))
        one.kill()
        two = Server(port=one.port)
        for _ in range(2):
            with pytest.raises(rnnserve.RnnServeError) as caught:
                session.feed(steps(4))
            assert caught.value.code == Code.DATA_LOSS and "checkpoint_every" in caught.value.message
        session.close()
    one.stop()
    assert two.stop() == 0


def test_nobody_answers_any_more():
    one = Server()
    with rnnserve.Client(one.address, patience=0.5) as client:
        session, kept = client.session(remembering()), client.session(remembering(), checkpoint_every=1)
        for each in (session, kept):
            each.feed(steps(1))
        one.kill()
        futures = [session.feed_async(steps(2)), kept.feed_async(steps(2))]
        assert [future.exception(timeout=60).code for future in futures] == [Code.DATA_LOSS] * 2
    one.stop()


def test_another_model_under_the_name_is_not_gone_on_with():
    old, new = Server("--drain_timeout=60s"), Server()
    with rnnserve.Client(new.address) as client:
        client.load("m", remembering(64))
    with rnnserve.Client(old.address, others=[new.address], load_balancing="pick_first", patience=2) as client:
        client.load("m", remembering())
        session = client.session("m")
        session.feed(steps(1))
        old.drain()
        with pytest.raises(rnnserve.RnnServeError) as caught:
            for value in range(10_000):
                session.feed(steps(value))
        assert caught.value.code == Code.DATA_LOSS
    old.stop()
    assert new.stop() == 0
