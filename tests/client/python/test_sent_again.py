# SPDX-License-Identifier: Apache-2.0
"""Calls and Opens that are sent again, over gRPC with a server of the test's. What is waited for is not waited here."""

import concurrent.futures
import contextlib
import socket
import threading
import time
import types

import fake_server
import grpc
import numpy as np
import pytest

import rnnserve

Code = grpc.StatusCode
X = np.ones((2, 1, 3), np.float32)
OP = rnnserve.gru(np.ones((1, 15, 3), np.float32), np.ones((1, 15, 5), np.float32))


class Pauses:
    """In place of those between two tries: takes no time, and does at each what the test says."""

    def __init__(self, client, *then):
        self.seconds = []
        self._then = list(then)
        client._driver.pause = self._pause

    async def _pause(self, seconds):
        self.seconds.append(seconds)
        if self._then:
            self._then.pop(0)()


@contextlib.contextmanager
def second_server(port=0):
    server = fake_server.FakeServer(port)
    try:
        yield server
    finally:
        server.stop()


def test_a_server_that_comes_back_on_its_port(server, client):
    client.infer(OP, {"X": X})
    server.stop()
    with contextlib.ExitStack() as stack:
        back = []

        def come_back():
            back.append(stack.enter_context(second_server(server.port)))
            grpc.channel_ready_future(client._channels[server.address, False]._channel).result(timeout=60)  # within a second, had the pauses their time

        Pauses(client, lambda: None, come_back)
        assert client.infer(OP, {"X": X}).engine == "formulas"
        assert [request.WhichOneof("target") for request in back[0].requests] == ["fingerprint", "operator"]


def test_another_server_is_asked_at_once_and_first_for_a_while(server):
    with second_server() as other, rnnserve.Client(server.address, others=[other.address], load_balancing="pick_first") as client:
        pauses = Pauses(client)
        client.infer(OP, {"X": X})
        server.refusals = [(Code.UNAVAILABLE, 600.0)] * 2
        for _ in range(3):
            assert client.infer(OP, {"X": X}).engine == "formulas"
        assert (len(server.requests), len(other.requests), pauses.seconds) == (2, 4, [])


def test_weights_go_once_to_each_server(server):
    with second_server() as other, rnnserve.Client([server.address, other.address]) as client:
        for _ in range(6):
            assert client.infer(OP, {"X": X}).engine == "formulas"
        kinds = sorted([request.WhichOneof("target") for request in each.requests] for each in (server, other))
        assert kinds == [["fingerprint", "operator", "fingerprint", "fingerprint"], ["operator", "fingerprint", "fingerprint"]]


def test_a_server_that_is_gone_gets_nothing_and_is_used_again(server):
    with second_server() as other, rnnserve.Client(f"{server.address},{other.address}") as client:
        client.load("m", OP)  # to the first
        with rnnserve.Client(other.address) as second:
            second.load("m", OP)
        pauses = Pauses(client)
        other.stop()
        for _ in range(8):
            assert client.infer("m", {"X": X}).engine == "formulas"
        assert len(server.requests) == 9 and pauses.seconds == []
        for _ in range(4):
            client.session(OP)
        assert len(server.opens) == 4 and pauses.seconds == []


def test_the_servers_own_time_is_kept(server, client):
    server.refusals = [(Code.UNAVAILABLE, 3.0), (Code.UNAVAILABLE, None), (Code.UNAVAILABLE, 0.7)]
    pauses = Pauses(client)
    client.infer(OP, {"X": X})
    told, own, again = pauses.seconds
    assert 3.0 <= told <= 3.6 and 0.08 <= own <= 0.12 and 0.7 <= again <= 0.84


def test_the_timeout_ends_it(server, client):
    client.infer(OP, {"X": X})
    server.refusals = [(Code.UNAVAILABLE, 4.0)] * 9
    pauses = Pauses(client)
    with pytest.raises(rnnserve.RnnServeError) as caught:
        client.infer(OP, {"X": X}, timeout=3.0)
    assert caught.value.message == "refused by the test" and pauses.seconds == [], "it would be over by then"
    server.stop()
    with pytest.raises(rnnserve.RnnServeError) as caught:
        client.infer(OP, {"X": X}, timeout=0.5)
    assert caught.value.code in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED) and " times in " in caught.value.message
    assert server.address in caught.value.message and len(pauses.seconds) > 1


def test_without_patience_each_is_asked_once(server):
    with second_server() as other, rnnserve.Client([server.address, other.address], patience=0) as client:
        server.refusals, other.refusals = [(Code.UNAVAILABLE, 0.001)], [(Code.UNAVAILABLE, 0.001)] * 2
        with pytest.raises(rnnserve.RnnServeError, match="refused by the test"):
            client.infer(OP, {"X": X})
        assert len(server.requests) == len(other.requests) == 1
        assert client.infer(OP, {"X": X}).engine == "formulas", "the other one refuses once more"


@pytest.mark.parametrize("code", [Code.RESOURCE_EXHAUSTED, Code.INTERNAL, Code.CANCELLED, Code.ABORTED, Code.UNKNOWN,
                                  Code.DEADLINE_EXCEEDED, Code.INVALID_ARGUMENT])
@pytest.mark.parametrize("seconds", [None, 0.001])
def test_other_codes_are_not_sent_again(server, client, code, seconds):
    server.refusals = [(code, seconds)]
    with pytest.raises(rnnserve.RnnServeError) as caught:
        client.infer(OP, {"X": X})
    assert (caught.value.code, caught.value.message) == (code, "refused by the test") and len(server.requests) == 1


def test_models_are_not_loaded_again(server, client):
    server.refusals = [(Code.UNAVAILABLE, 0.001)]
    with pytest.raises(rnnserve.RnnServeError, match="refused by the test"):
        client.load("m", OP)
    assert len(server.requests) == 1


def test_it_can_be_switched_off(server):
    with rnnserve.Client(server.address, patience=0) as client:
        client.infer(OP, {"X": X})
        server.refusals = [(Code.UNAVAILABLE, 0.001)] * 2
        with pytest.raises(rnnserve.RnnServeError, match="refused by the test"):
            client.infer(OP, {"X": X}, timeout=60)
        with pytest.raises(rnnserve.RnnServeError, match="refused by the test"):
            client.session(OP)
    assert len(server.requests) == 2 and len(server.opens) == 1


def test_an_address_where_nobody_ever_answered_is_soon_told():
    with socket.socket() as taken:  # bound and not listening: no other process takes the port meanwhile
        taken.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        with rnnserve.Client(address) as client:
            client._patience.end = lambda began, *more: type(client._patience).end(
                client._patience, began - 4.7, *more)
            for call in (lambda: client.infer(OP, {"X": X}), lambda: client.session(OP)):
                with pytest.raises(rnnserve.RnnServeError) as caught:
                    call()
                assert caught.value.code == Code.UNAVAILABLE and address in caught.value.message
                assert "is rnnserve running there?" in caught.value.message and "(tried " in caught.value.message


def test_where_the_first_is_dead_the_others_are_asked_whatever_that_took(server):
    with rnnserve.Client("127.0.0.1:1", others=[server.address], load_balancing="pick_first") as client:
        client._patience.end = lambda began, *more: type(client._patience).end(client._patience, began - 5.1, *more)
        assert client.infer(OP, {"X": X}).engine == "formulas"


def test_an_engine_out_of_service_is_asked_for_elsewhere_only(server):
    lost = (Code.UNAVAILABLE, None, "ENGINE_OUT_OF_SERVICE")
    with second_server() as other, rnnserve.Client(server.address, others=[other.address], load_balancing="pick_first") as client:
        pauses = Pauses(client)
        server.refusals = [lost] * 2
        client.infer(OP, {"X": X}, engine="cuda")
        client.session(OP, engine="cuda")
        assert (len(server.requests), len(other.requests), len(server.opens), len(other.opens)) == (1, 1, 1, 1)
        client.infer(OP, {"X": X})
        assert len(server.requests) > 1, "it takes other calls"

        server.refusals, other.refusals = [lost] * 9, [lost] * 9
        for call in (lambda: client.infer(OP, {"X": X}, engine="cuda"), lambda: client.session(OP, engine="cuda")):
            with pytest.raises(rnnserve.RnnServeError, match="tried 2 times") as caught:
                call()
            assert caught.value.reason == "ENGINE_OUT_OF_SERVICE"
        assert (len(server.refusals), len(other.refusals), pauses.seconds) == (7, 7, [])


def test_no_session_is_adopted_after_close(server, client):
    session = client.session(OP)
    link = session.link
    client.close()
    with pytest.raises(rnnserve.RnnServeError, match="the client was closed"), client._driver.changing():
        client._driver.adopt(session, link)
    assert session.link is link, "no new connection"


def test_a_link_that_is_given_up_takes_no_other_along(server, client):
    driver = client._driver
    with driver._link(server.address) as newer:
        pass
    older = types.SimpleNamespace(address=server.address, sessions=set(), attempts=0,
                                  down_since=time.monotonic() - 3600.0)
    with driver.changing():
        driver.broken(older, None, final=False)
    assert driver._links == {server.address: newer} and not newer.closed


@pytest.mark.parametrize("closes", [False, True])
def test_an_open_under_way_outlives_anothers_refusal(server, client, closes):
    client.infer(OP, {"X": X})
    arrived, refused = threading.Event(), threading.Event()

    def hold(request):
        if request.name == "first":
            arrived.set()
            refused.wait(60)

    server.on_open = hold
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.session, OP, name="first")
        assert arrived.wait(60)
        link = client._driver._links[server.address]
        server.refusals = [(Code.UNAVAILABLE, 0.001)]
        client.session(OP, name="second")
        stayed = link.retired and not link.closed
        if closes:
            client.close()
            ended = first.exception(60)
        refused.set()
        assert stayed
        if closes:
            assert ended.code == Code.CANCELLED
        else:
            assert first.result().link.sessions and link.closed
    assert [request.name for request, _ in server.opens].count("first") == 1


def test_a_client_that_is_closed_waits_no_longer(server, client):
    server.refusals = [(Code.UNAVAILABLE, 600.0)]
    client._patience.seconds = 3600.0
    pause = client._driver.pause

    async def closed_meanwhile(_):
        client.close()

    async def close_in_the_middle(seconds):
        client._driver._closed.wait = closed_meanwhile
        await pause(seconds)

    client._driver.pause = close_in_the_middle
    with pytest.raises(rnnserve.RnnServeError, match="the client was closed"):
        client.infer(OP, {"X": X}, timeout=3600)


def test_a_refused_open_is_sent_on_another_route(server, client):
    server.refusals = [(Code.UNAVAILABLE, 1.0)] * 3
    pauses = Pauses(client)
    client.session(OP)
    requests, routes = zip(*server.opens)
    assert len(set(routes)) == 4, "behind a proxy each may be another server"
    assert len({request.request_id for request in requests}) == 1
    assert len(pauses.seconds) == 3 and all(seconds <= 0.24 for seconds in pauses.seconds), "it says: elsewhere"


def test_an_open_whose_reply_was_lost_meets_itself(server, client):
    server.refusals = [(Code.UNAVAILABLE, None)] * 8  # as a proxy says it; more than are repeated without a pause
    pauses = Pauses(client)
    client.session(OP)
    assert len(server.opens) == 9 and len(pauses.seconds) == 1
    assert len({(request.request_id, route) for request, route in server.opens}) == 1, "it may have been opened there"


def test_a_session_is_opened_at_another_server_at_once(server):
    with second_server() as other, rnnserve.Client(server.address, others=[other.address], load_balancing="pick_first") as client:
        server.refusals = [(Code.UNAVAILABLE, 600.0)]
        pauses = Pauses(client)
        client.session(OP)
        assert (len(server.opens), len(other.opens), pauses.seconds) == (1, 1, [])


def test_a_session_that_others_refuse_is_not_opened_again(server, client):
    server.refusals = [(Code.RESOURCE_EXHAUSTED, 0.001)]
    with pytest.raises(rnnserve.RnnServeError) as caught:
        client.session(OP)
    assert caught.value.code == Code.RESOURCE_EXHAUSTED and len(server.opens) == 1
