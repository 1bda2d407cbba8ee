# SPDX-License-Identifier: Apache-2.0
"""rnnctl bench --sessions against the real server."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest

import wire

RNNCTL = pathlib.Path(os.environ.get("RNNSERVE_RNNCTL") or wire.REPOSITORY / "build/release/client/rnnctl/rnnctl")
SMALL = ["--hidden=8", "--outputs=Y", "--warm-up=0s"]


def bench(server, *flags, code=0):
    done = subprocess.run([RNNCTL, "bench", f"--server={server.address}", "--json", *SMALL, *flags], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


def left(server):
    return list(wire.sessions_grpc.SessionsStub(server.channel).List(wire.sessions_pb2.ListSessionsRequest()).sessions)


def test_closed_loop_many_operations_a_message(server):
    for flags in ([], ["--operations=8"], ["--operations=8", "--streams=3"]):
        report = bench(server, "--sessions=1,20", "--requests=400", "--chunk=1:5", "--check=exact", "--deterministic",
                       *flags)
        for level, sessions in zip(report["levels"], (1, 20)):
            assert level["sessions"] == sessions
            assert level["calls"] >= 400 and level["failed"] == 0, level["codes"]
            assert level["wrong"] == 0 and level["same"] == level["calls"]
            assert level["steps_per_second"] > level["calls_per_second"]
        assert [level["opened"] for level in report["levels"]] == [1, 19]
    assert left(server) == []


def test_sessions_that_end_are_replaced(server):
    level = bench(server, "--sessions=4", "--life=5", "--requests=200")["levels"][0]
    assert level["failed"] == 0 and level["opened"] >= 200 // 5
    assert left(server) == []


def test_open_loop_and_search(server):
    level = bench(server, "--sessions=10", "--cadence=20ms", "--arrivals=random", "--duration=500ms")["levels"][0]
    assert level["failed"] == 0 and level["calls"] > 0
    assert 0 < level["real_time_factor"]
    report = bench(server, "--sessions=1", "--cadence=100ms", "--find=1us", "--duration=100ms")
    assert report["held_sessions"] == 0  # no server answers within a microsecond
    assert left(server) == []


def test_narrow_weights(server):
    level = bench(server, "--sessions=3", "--requests=30", "--allow-reduced-precision", "--weight-type=int8",
                  "--engine=cpu")["levels"][0]
    assert level["failed"] == 0 and level["calls"] >= 30
    assert "weight_type" in bench(server, "--sessions=1", "--weight-type=int8", code=1)


def test_what_the_server_refuses_is_told(server):
    assert "engine" in bench(server, "--sessions=2", "--engine=none", code=1)
    assert "--store" in bench(server, "--sessions=2", "--durability=sync", code=1)


@pytest.mark.parametrize("kind", [[], ["--sessions=1"]])
def test_no_proxy_is_asked_for_this_machine(server, monkeypatch, kind):
    """As no other command of rnnctl asks it."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert bench(server, "--requests=10", *kind)
