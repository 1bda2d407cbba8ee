# SPDX-License-Identifier: Apache-2.0
"""Durable sessions on three replicas with a Redis: whoever dies or drains, the client's three lines of code go on."""

import os
import pathlib
import shutil
import socket
import subprocess

import pytest
from conftest import log_of, remembering, steps, tape
from server_process import BINARY, Server

import rnnserve

CHUNKS = 60
REDIS = shutil.which("redis-server")
HAS_STORE = b"--store" in subprocess.run([BINARY, "--help"], capture_output=True, check=False).stdout
pytestmark = pytest.mark.skipif(REDIS is None or not HAS_STORE, reason="no redis-server, or a server without --store")


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = subprocess.Popen([REDIS, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir",
                                tmp_path_factory.mktemp("redis")], stdout=subprocess.PIPE)
    while b"ready to accept connections" not in (line := running.stdout.readline()).lower():
        assert line, "redis-server has ended"
    yield f"redis://127.0.0.1:{port}"
    running.kill()
    running.wait()


@pytest.fixture
def replicas(redis, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(os.urandom(32).hex().encode())
    secret.chmod(0o600)
    flags = (f"--store={redis}", f"--session_secret_file={secret}", "--drain_timeout=5s")
    running = [Server(*flags) for _ in range(3)]
    for server in running:
        with rnnserve.Client(server.address) as client:
            client.load("remember", remembering())
    yield running
    for server in running:
        server.drain()
    for server in running:
        server.stop()


@pytest.mark.parametrize("end", [Server.kill, Server.drain])
@pytest.mark.parametrize("durability", ["sync", "interval"])
def test_sessions_keep_their_keys(replicas, durability, end):
    with rnnserve.Client([server.address for server in replicas]) as client:
        sessions = [client.session("remember", outputs=["Y_h"], durability=durability) for _ in range(6)]
        keys = [session.key for session in sessions]
        moved = [session for session in sessions if session.link.address == replicas[0].address]
        for value in range(1, CHUNKS + 1):
            futures = [session.feed_async(steps(value)) for session in sessions]
            if value == 25:
                end(replicas[0])
            for future in futures:
                assert tape(future.result(60)["Y_h"]) == list(range(1, value + 1))
        assert moved and [session.key for session in sessions] == keys
        for session in sessions:
            assert log_of(session) == list(range(1, CHUNKS + 1)) and session.position == CHUNKS
            assert session.repairs["takeovers"] == (session in moved)
            assert session.repairs["replays"] == session.repairs["hand_overs"] == 0
            session.close()


def test_rnnctl_streams_one(replicas):
    """The C++ client, over the same servers; its session's replica is killed in the middle."""
    rnnctl = pathlib.Path(os.environ.get("RNNCTL_BINARY") or BINARY.parents[1] / "client/rnnctl/rnnctl")
    if not rnnctl.exists():
        pytest.skip("rnnctl is not built")
    command = [rnnctl, "stream", "--model=remember", "--format=raw", "--json", "--chunk=1", "--outputs=Y_h",
               "--durability=sync", "--server=" + ",".join(server.address for server in replicas)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stream:
        for value in range(1, CHUNKS + 1):
            stream.stdin.write(steps(value).tobytes())
            stream.stdin.flush()
            assert b'"error"' not in (line := stream.stdout.readline()) and line
            if value == 25:
                owner = next(server for server in replicas if _sessions_of(server))
                owner.kill()
        stream.stdin.close()
        summary = stream.stdout.read()
    assert b'"takeovers": 1' in summary and b'"replays": 0' in summary and stream.returncode == 0, summary


def _sessions_of(server):
    with rnnserve.Client(server.address) as client:
        return list(client.sessions())
