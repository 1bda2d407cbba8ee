# SPDX-License-Identifier: Apache-2.0
"""Tokens against the server's binary: on calls, on Open and on the stream of sessions."""

import asyncio

import grpc
import pytest
from conftest import log_of, remembering, steps
from server_process import Server

import rnnserve
from rnnserve import aio

ALICE, BOB = "token-of-alice-0001", "token-of-bob-000002"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"alice {ALICE}\nbob {BOB}\n")
    server = Server(f"--tokens_file={tokens}", "--drain_timeout=1s")
    yield server
    assert server.stop() == 0


def refused(call):
    with pytest.raises(rnnserve.RnnServeError) as caught:
        call()
    return caught.value.code


def test_with_and_without(guarded, tmp_path):
    file = tmp_path / "token"
    file.write_text(ALICE + "\n")
    with rnnserve.Client(guarded.address, token=file.read_text) as alice, rnnserve.Client(guarded.address, token=BOB) as bob:
        with alice.session(remembering(), name="mine") as session:
            session.feed(steps(1, 2))
            assert log_of(session) == [1, 2]
            assert [info.name for info in alice.sessions()] == ["mine"] and list(bob.sessions()) == []
            assert refused(lambda: bob.session(remembering(), rows=0)) == grpc.StatusCode.INVALID_ARGUMENT
    for token in (None, "wrong"):
        with rnnserve.Client(guarded.address, token=token) as stranger:
            for call in (stranger.models, lambda: stranger.infer(remembering(), {"X": steps(1)}),
                         lambda: stranger.session(remembering())):
                assert refused(call) == grpc.StatusCode.UNAUTHENTICATED


def test_asyncio(guarded):
    async def main():
        async with aio.Client(guarded.address, token=ALICE) as client, client.session(remembering()) as session:
            await session.feed(steps(3))
            return [info.position async for info in client.sessions()]

    assert asyncio.run(main()) == [1]


def test_sessions_listed_page_by_page(server):
    with rnnserve.Client(server.address) as client:
        before = len(list(client.sessions()))
        sessions = [client.session(remembering(), name=f"page {k}") for k in range(5)]
        sessions[2].feed(steps(1, 2, 3))
        listed = list(client.sessions(page_size=2))
        assert len(listed) == before + 5
        info, = (info for info in listed if info.name == "page 2")
        assert (info.session, info.position, info.last_applied, info.rows) == (sessions[2].key, 3, 1, 1)
        assert info.fingerprint == sessions[2].fingerprint and 0 <= info.idle < 60 < info.expires_in and info.state_bytes > 0
        for session in sessions:
            session.close()
