# SPDX-License-Identifier: Apache-2.0
"""aio.Client against a server of the test's: what it does otherwise than Client, whose logic it shares."""

import asyncio

import fake_server
import grpc
import numpy as np
import pytest

import rnnserve
from rnnserve import aio, formulas

Code = grpc.StatusCode
X = np.ones((2, 1, 3), np.float32)


def make_operator(seed=0):
    rng = np.random.default_rng(seed)
    return rnnserve.gru(rng.standard_normal((1, 15, 3)).astype(np.float32),
                        rng.standard_normal((1, 15, 5)).astype(np.float32))


def run(body, server, **options):
    """body(client) on a loop of its own."""

    async def main():
        async with aio.Client(server.address, **{"timeout": 60, **options}) as client:
            return await body(client)

    return asyncio.run(main())


def test_infer_as_with_the_blocking_client(server):
    op = make_operator()

    async def body(client):
        first = await client.infer(op, {"X": X}, request_id="mine", outputs="Y_h")
        server.evict()
        again = await client.infer(op, {"X": X})
        return first, again

    first, again = run(body, server)
    assert first.request_id == "mine" and list(first.outputs) == ["Y_h"]
    np.testing.assert_allclose(again.outputs["Y"], formulas.run(op, {"X": X})["Y"], rtol=0, atol=1e-6)
    assert [request.WhichOneof("target") for request in server.requests] == ["operator", "fingerprint", "operator"]


def test_many_calls_at_once(server):
    operators = [make_operator(seed) for seed in range(4)]
    expected = [formulas.run(op, {"X": X})["Y"] for op in operators]

    async def body(client):
        return await asyncio.gather(*[client.infer(operators[k % 4], {"X": X}) for k in range(60)])

    for k, result in enumerate(run(body, server)):
        np.testing.assert_allclose(result.outputs["Y"], expected[k % 4], rtol=0, atol=1e-6)


def test_models_sessions_health_and_errors(server):
    server.sessions = 5

    async def body(client):
        loaded = await client.load("tagger", make_operator(), version=2)
        by_name = await client.infer(model="tagger", inputs={"X": X})
        listed = [info.session async for info in client.sessions(page_size=2)]
        assert await client.models() == [] and await client.repository_failures() == []
        with pytest.raises(rnnserve.RnnServeError) as caught:
            await client.infer(model="nobody", inputs={"X": X})
        with pytest.raises(rnnserve.RnnServeError) as unhealthy:
            await client.health()
        return loaded, by_name, listed, caught.value, unhealthy.value

    loaded, by_name, listed, error, unhealthy = run(body, server, token="t", metadata=[("x-tenant", "a")])
    assert (loaded.version, by_name.engine, error.reason) == (2, "formulas", "MODEL_UNKNOWN")
    assert listed == [f"key {k}" for k in range(5)]
    assert unhealthy.code == Code.UNIMPLEMENTED, "the test's server has no health service"
    assert all(sent["authorization"] == "Bearer t" and sent["x-tenant"] == "a" for sent in server.metadata)


def test_it_is_sent_again_and_to_another_server(server):
    other = fake_server.FakeServer()

    async def body(client):
        server.refusals = [(Code.UNAVAILABLE, 0.001), (Code.UNAVAILABLE, 600.0)]
        other.refusals = [(Code.UNAVAILABLE, 0.001)]
        for _ in range(2):
            assert (await client.infer(make_operator(), {"X": X})).engine == "formulas"

    try:
        run(body, server, others=[other.address], load_balancing="pick_first")
        assert server.refusals == other.refusals == [] and (len(server.requests), len(other.requests)) == (2, 3)
    finally:
        other.stop()


def test_a_call_that_is_cancelled_ends_alone(server):
    async def body(client):
        server.refusals = [(Code.UNAVAILABLE, 3600.0)]
        waiting = asyncio.create_task(client.infer(make_operator(), {"X": X}, timeout=7200))
        while server.refusals:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return await client.infer(make_operator(), {"X": X})

    assert run(body, server).engine == "formulas"


def test_closing_ends_what_is_under_way(server):
    async def body(client):
        session = await client.session(make_operator())
        feeding = asyncio.create_task(session.feed(X))  # the test's server opens sessions and answers nothing on them
        server.refusals = [(Code.UNAVAILABLE, 3600.0)]
        waiting = asyncio.create_task(client.infer(make_operator(), {"X": X}, timeout=7200))
        while server.refusals:
            await asyncio.sleep(0)
        await client.close()
        ended = await asyncio.gather(feeding, waiting, return_exceptions=True)
        with pytest.raises(rnnserve.RnnServeError, match="the client was closed"):
            await client.models()
        return ended

    for error in run(body, server):
        assert isinstance(error, rnnserve.RnnServeError) and error.code == Code.CANCELLED


def test_a_client_may_be_made_before_the_loop_runs(server):
    client = aio.Client(server.address, timeout=60)

    async def main():
        async with client:
            return await client.infer(make_operator(), {"X": X})

    assert asyncio.run(main()).engine == "formulas"


def test_a_server_that_is_not_there_is_named(server):
    server.stop()

    async def body(client):
        with pytest.raises(rnnserve.RnnServeError, match="is rnnserve running there") as caught:
            await client.models()
        return caught.value

    error = run(body, server)
    assert error.code == Code.UNAVAILABLE and server.address in error.message


def test_slips_are_told(server):
    client = aio.Client(server.address, timeout=60)

    async def main():
        with pytest.raises(AttributeError, match="await client.session"):
            client.session(make_operator()).feed(X)
        return await client.infer(make_operator(), {"X": X})

    asyncio.run(main())
    with pytest.raises(RuntimeError, match="make one for each loop"):
        asyncio.run(main())
