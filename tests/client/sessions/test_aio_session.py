# SPDX-License-Identifier: Apache-2.0
"""Sessions of aio.Client against the server's binary: the same driver and journal as Client's, on another way to wait."""

import asyncio

import grpc
import numpy as np
import pytest
from conftest import remembering, steps, tape
from cutting_proxy import CuttingProxy
from server_process import Server

import rnnserve
from rnnserve import aio
from rnnserve.sessions import link

Code = grpc.StatusCode
CHUNKS = 60


def run(body, address, **options):
    async def main():
        async with aio.Client(address, **options) as client:
            return await body(client)

    return asyncio.run(asyncio.wait_for(main(), 240))


async def log_of(session, row=0):
    return tape((await session.state())["initial_h"], row)


async def feed_all(client, doing=None, stop_at=(), **options):
    """The user's code; `doing` happens after each chunk in stop_at. Checks every output on the way."""
    async with client.session(remembering(), outputs=["Y_h"], **options) as session:
        for value in range(1, CHUNKS + 1):
            assert tape((await session.feed(steps(value)))["Y_h"]) == list(range(1, value + 1))
            if value in stop_at:
                doing()
        assert await log_of(session) == list(range(1, CHUNKS + 1)) and session.position == CHUNKS
        return session


def test_everything_that_changes_a_session(server):
    async def body(client):
        session = await client.session(remembering())
        await session.feed(steps(1, 2))
        await session.checkpoint("two")
        await session.feed({"X": steps(3)}, outputs="Y")
        fork = await session.fork()
        await session.rewind("two")
        assert await log_of(session) == [1, 2] and session.position == 2
        await session.reset()
        assert await log_of(session) == []
        await session.set_state(await fork.state())
        await session.select_rows([0, 0])
        assert await log_of(session, 1) == [1, 2, 3]
        first, second = await fork.fork(2)
        await first.feed(steps(8))
        assert [await log_of(one) for one in (first, second)] == [[1, 2, 3, 8], [1, 2, 3]]
        for one in (fork, first, second):
            await one.close()
        assert tape((await session.close(return_state=True))["initial_h"], 1) == [1, 2, 3]
        await session.close()
        with pytest.raises(rnnserve.RnnServeError) as caught:
            await session.feed(steps(1))
        assert caught.value.reason == "SESSION_CLOSED"

    run(body, server.address)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_replies_of_a_source_of_chunks(server, asynchronous):
    async def body(client):
        async with client.session(remembering(), outputs=["Y_h"], max_in_flight=3) as session:
            most = 0

            def plain():
                nonlocal most
                for value in range(1, 31):
                    yield steps(value)
                    most = max(most, value - len(seen))

            async def awaited():
                for chunk in plain():
                    await asyncio.sleep(0)
                    yield chunk

            seen = []
            async for outputs in session.replies(awaited() if asynchronous else plain()):
                seen.append(tape(outputs["Y_h"]))
            assert seen == [list(range(1, count + 1)) for count in range(1, 31)] and 1 < most <= 4

    run(body, server.address)


def test_a_reply_comes_before_the_next_chunk_is_there(server):
    """As with a microphone: the source waits for what the reply to its last chunk says."""

    async def body(client):
        async with client.session(remembering(), outputs=["Y_h"]) as session:
            heard = asyncio.Semaphore(1)

            async def microphone():
                for value in range(1, 6):
                    await heard.acquire()
                    yield steps(value)

            count = 0
            async for _ in session.replies(microphone()):
                count += 1
                heard.release()
            assert count == session.position == 5

    run(body, server.address)


def test_what_a_source_raises_and_what_is_refused_end_the_loop(server):
    async def body(client):
        async with client.session(remembering()) as session:
            def failing():
                yield steps(1)
                raise OSError("no microphone")

            with pytest.raises(OSError, match="no microphone"):
                async for _ in session.replies(failing()):
                    pass
            with pytest.raises(rnnserve.RnnServeError) as caught:
                async for _ in session.replies([steps(2), np.zeros((1, 1, 5), np.float32), steps(3)]):
                    pass
            assert caught.value.code == Code.INVALID_ARGUMENT
            async for _ in session.replies(steps(value) for value in range(4, 40)):
                break
            assert (await log_of(session))[:3] in ([1, 2, 4], [1, 2, 3])

    run(body, server.address)


@pytest.mark.parametrize("seed", range(2))
def test_connections_cut_in_the_middle_of_messages(server, seed):
    with rnnserve.Client(server.address) as client:
        client.load("remember", remembering())  # a short Open, so that the cuts come later
    proxy = CuttingProxy(server.port, seed, cuts=8, least=1000, most=6000)

    async def body(client):
        async with client.session("remember", outputs=["Y_h"]) as session:
            count = 0
            async for outputs in session.replies(steps(value) for value in range(1, CHUNKS + 1)):
                count += 1
                assert tape(outputs["Y_h"]) == list(range(1, count + 1)), f"seed {seed}"
            return count, session.repairs

    count, repairs = run(body, proxy.address)
    assert count == CHUNKS and repairs["reconnects"] >= 1 and repairs["replays"] == 0
    proxy.close()


def test_a_line_that_is_dead_and_does_not_say_so(server, monkeypatch):
    monkeypatch.setattr(link, "SILENCE_SECONDS", 0.3)
    proxy = CuttingProxy(server.port, seed=2, cuts=0)
    run(lambda client: feed_all(client, proxy.freeze_now, [10, 30]), proxy.address)
    proxy.close()


def test_carried_over_and_replayed():
    servers = [Server("--drain_timeout=60s"), Server(), Server()]
    ends = iter([servers[0].drain, servers[1].kill])

    async def body(client):
        return await feed_all(client, lambda: next(ends)(), [15, 35], checkpoint_every=8)

    session = run(body, servers[0].address, others=[server.address for server in servers[1:]], load_balancing="pick_first")
    assert session.repairs["hand_overs"] == 1 and session.repairs["replays"] == 1
    assert [servers[0].stop(), servers[2].stop()] == [0, 0]
    servers[1].stop()


def test_a_killed_server_without_is_data_loss():
    one = Server()

    async def body(client):
        session = await client.session(remembering())
        await session.feed(steps(1))
        one.kill()
        with pytest.raises(rnnserve.RnnServeError) as caught:
            await session.feed(steps(2))
        return caught.value.code

    assert run(body, one.address, patience=0.5) == Code.DATA_LOSS
    one.stop()


def test_a_feed_that_is_cancelled_keeps_its_turn(server):
    async def body(client):
        async with client.session(remembering()) as session:
            feeding = [asyncio.create_task(session.feed(steps(value))) for value in (1, 2, 3)]
            await asyncio.sleep(0)
            feeding[1].cancel()
            await asyncio.gather(*feeding, return_exceptions=True)
            assert feeding[1].cancelled() and await log_of(session) == [1, 2, 3]

    run(body, server.address)
