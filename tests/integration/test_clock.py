# SPDX-License-Identifier: Apache-2.0
"""The machine's clock set forward and back by a year (libfaketime) while the server runs: no session ends early, no
quota opens, calls with deadlines are served, and it leaves in good order."""

from __future__ import annotations

import glob
import pathlib
import time

import grpc
import pytest

import wire
from server_process import Server
from session_calls import Sessions
from test_admin import _metrics
from test_service import SECONDS, _case

LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), None)


class Clock:
    """The server's, as a file says it."""

    def __init__(self, file: pathlib.Path):
        self.file = file
        self.set("+0")
        self.environment = {"LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1",
                            "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def set(self, offset):
        unfinished = self.file.with_suffix(".next")
        unfinished.write_text(offset)
        unfinished.rename(self.file)


@pytest.mark.parametrize("offset", ["+1y", "-1y"])
def test_a_year_forward_or_back(tmp_path, offset):
    assert LIBRARY, "./setup.sh --tests installs faketime"
    clock = Clock(tmp_path / "clock")
    server = Server("--session_idle_timeout=1h", "--max_sessions=1", "--drain_timeout=2s",
                    environment=clock.environment)
    calls = Sessions(server.address)
    try:
        session = calls.open()
        calls.feed(session, 1, [1, 2])
        for number, when in [(2, offset), (3, "+0")]:
            clock.set(when)
            assert calls.log(session) == [*range(1, number + 1)], "it is all there"
            calls.feed(session, number, [number + 1])
            assert server.recurrent.Infer(wire.request(_case()), timeout=SECONDS).outputs
            refused = wire.refusal(calls.open)
            assert refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED and "sessions" in refused.text
            _let_it_sweep(server)
            samples = _metrics(server)
            assert samples['rnnserve_sessions_active{model="(inline)"}'] == 1
            assert samples['rnnserve_sessions_total{model="(inline)",event="expired"}'] == 0
    finally:
        calls.close()
        assert server.stop() == 0, server.log()


@pytest.mark.parametrize("offset", ["+1y", "-1y"])
def test_no_quota_opens(tmp_path, offset):
    clock = Clock(tmp_path / "clock")
    server = Server("--session_operations_per_second=0.001", "--drain_timeout=2s", environment=clock.environment)
    calls = Sessions(server.address)
    try:
        session = calls.open()  # one operation, and the next in a quarter of an hour
        for when in ["+0", offset, "+0"]:
            clock.set(when)
            assert wire.refusal(calls.feed, session, 1, [0]).code == grpc.StatusCode.RESOURCE_EXHAUSTED
    finally:
        calls.close()
        assert server.stop() == 0


def _let_it_sweep(server):
    """Until its threads have run for a while: sessions are swept every second."""
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        _metrics(server)
