# SPDX-License-Identifier: Apache-2.0
"""feed(timeout=...) ends by then, whether a server answers or not. Each of these would wait for ten minutes otherwise."""

import asyncio

import grpc
import numpy as np
import pytest
from conftest import log_of, remembering, steps
from cutting_proxy import CuttingProxy
from server_process import Server

import rnnserve
from rnnserve import aio

PATIENCE = 600


def reason(call):
    with pytest.raises(rnnserve.RnnServeError) as caught:
        call()
    assert caught.value.code == grpc.StatusCode.DEADLINE_EXCEEDED
    return caught.value.reason


def test_a_server_that_computes_for_too_long_says_so_itself(server):
    with rnnserve.Client(server.address, patience=PATIENCE) as client:
        with client.session(remembering(), engine="reference", timeout=None) as session:
            session.feed(steps(1), timeout=60)
            told = reason(lambda: session.feed(np.ones((2_000_000, 1, 1), np.float32), outputs="Y_h", timeout=1.0))
            assert told != "NOT_SENT", "the server's own reason, or OUTCOME_UNKNOWN where this machine is too busy"
            assert log_of(session) == [1], "the state is as it was"


def test_a_server_that_is_gone():
    one = Server()
    with rnnserve.Client(one.address, patience=PATIENCE) as client:
        session = client.session(remembering())
        session.feed(steps(1))
        one.kill()
        while session.link.down_since is None:
            reason(lambda: session.feed(steps(2), timeout=0.01))
        for call in (lambda: session.feed(steps(2), timeout=0.3), lambda: session.feed_async(steps(2), timeout=0.3).result(60),
                     lambda: asyncio.run(session.afeed(steps(2), timeout=0.3))):
            # Unknown for the blink of an eye in which a connection is being tried.
            assert any(reason(call) == "NOT_SENT" for _ in range(20))
    one.stop()


def test_a_line_that_is_dead_and_what_counts_in_the_end(server):
    proxy = CuttingProxy(server.port, seed=1, cuts=0)
    with rnnserve.Client(proxy.address, patience=PATIENCE) as client:
        with client.session(remembering(), max_in_flight=2) as session:
            session.feed(steps(1))
            proxy.freeze_now()
            assert reason(lambda: session.feed(steps(2), timeout=0.2)) == "OUTCOME_UNKNOWN"
            assert reason(lambda: session.feed(steps(3), timeout=0.2)) == "OUTCOME_UNKNOWN"
            assert reason(lambda: session.feed(steps(4), timeout=0.2)) == "NOT_SENT", "two are in flight"
            proxy.cut_now()
            assert log_of(session) == [1, 2, 3] and session.position == 3
            session.feed(steps(5), timeout=60)
            assert log_of(session) == [1, 2, 3, 5]
    proxy.close()


def test_asyncio(server):
    proxy = CuttingProxy(server.port, seed=1, cuts=0)

    async def body():
        async with aio.Client(proxy.address, patience=PATIENCE) as client, client.session(remembering()) as session:
            await session.feed(steps(1), timeout=60)
            proxy.freeze_now()
            with pytest.raises(rnnserve.RnnServeError) as caught:
                await session.feed(steps(2), timeout=0.2)
            assert caught.value.reason == "OUTCOME_UNKNOWN"
            proxy.cut_now()
            await session.state()
            assert session.position == 2

    asyncio.run(asyncio.wait_for(body(), 60))
    proxy.close()
