# SPDX-License-Identifier: Apache-2.0
"""Each reason of rnnserve_rejected_total, provoked: the code and text that the caller gets, and what is counted."""

from __future__ import annotations

import signal

import grpc
import pytest
from google.protobuf import duration_pb2

import wire
from server_process import Server
from session_calls import Sessions, chunk
from test_admin import _metrics
from test_service import SECONDS, _case
from test_shutdown import _long_call

REASON = 'rnnserve_rejected_total{reason="%s"}'


@pytest.fixture(scope="module")
def tight():
    running = Server("--queue_sequences=8", "--max_sessions=1", "--max_steps=20000", "--max_output_bytes_in_flight=1048576",
                     "--drain_timeout=1h")
    yield running
    for _ in range(2):  # the second one skips the waits
        running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(timeout=SECONDS) == 0
    running.stop()


def _refused(server, reason, code, text, call):
    before = _metrics(server)
    failure = wire.refusal(call)
    assert failure.code.name == code and text in failure.text, failure
    after = _metrics(server)
    counted = {name for name in after if name.startswith("rnnserve_rejected_total") and after[name] > before[name]}
    assert counted == {REASON % reason} and after[REASON % reason] == before[REASON % reason] + 1
    return failure


def test_every_reason(tight):
    sessions = Sessions(tight.address)
    key = sessions.open()
    infer = tight.recurrent.Infer
    failure = _refused(tight, "too_large", "INVALID_ARGUMENT", "at most 20000", lambda: infer(wire.request(_case(steps=20001))))
    assert failure.reasons == ["LIMIT_EXCEEDED"] and failure.fields
    _refused(tight, "invalid", "NOT_FOUND", "session key", lambda: sessions.feed("x", 1, [1]))
    _refused(tight, "quota", "RESOURCE_EXHAUSTED", "close some", sessions.open)
    _refused(tight, "deadline", "DEADLINE_EXCEEDED", "timeout passed",
             lambda: sessions.apply(key, 1, **chunk([1]), timeout=duration_pb2.Duration(nanos=1)))
    long = _long_call(tight)
    while _metrics(tight)["rnnserve_queue_sequences"] < 8:
        assert not long.done()
    _refused(tight, "queue_full", "RESOURCE_EXHAUSTED", "of 8 sequences", lambda: infer(wire.request(_case(rows=8))))
    _refused(tight, "memory", "RESOURCE_EXHAUSTED", "bytes", lambda: infer(wire.request(_case(steps=4000, rows=8, hidden=64))))
    tight.process.send_signal(signal.SIGTERM)
    while True:  # between the signal and the closed door calls are still served, or find no room
        try:
            sessions.stub.List(wire.sessions_pb2.ListSessionsRequest(), timeout=SECONDS)
            sessions.open()
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                break
    assert _metrics(tight)[REASON % "draining"] == 1
    _refused(tight, "draining", "UNAVAILABLE", "another", lambda: infer(wire.request(_case())))
    long.cancel()
    sessions.close()
    tight_log = tight.log()
    assert "error" not in tight_log and len(tight_log.splitlines()) < 10, "refusals are answers, not events"
