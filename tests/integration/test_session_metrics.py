# SPDX-License-Identifier: Apache-2.0
"""What sessions and streams count, and what of them the log tells."""

from __future__ import annotations

import contextlib

import pytest

import wire
from server_process import Server
from session_calls import H, Sessions, Stream, chunk, operation
from test_admin import _metrics

INLINE = '{model="(inline)"'


@pytest.fixture
def counted():
    """A server of two sessions, calls to it, and how far a metric has moved."""
    server = Server("--max_sessions=2", "--session_idle_timeout=1h", "--drain_timeout=100ms")
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        calls = Sessions(server.address)
        stack.callback(calls.close)
        yield server, calls
        assert server.alive()


def _event(server, event, model="(inline)"):
    return _metrics(server)[f'rnnserve_sessions_total{{model="{model}",event="{event}"}}']


def test_the_life_of_sessions(counted):
    server, calls = counted
    samples = _metrics(server)
    for event in ["opened", "closed", "expired", "refused", "resumed", "lost"]:
        assert samples[f'rnnserve_sessions_total{INLINE},event="{event}"}}'] == 0, "known labels start at 0"
    first = calls.open()
    calls.feed(first, 1, [1, 2])
    charged = _metrics(server)["rnnserve_session_bytes"]
    state = 4 * H
    assert _metrics(server)[f"rnnserve_session_state_bytes{INLINE}}}"] >= state
    one = _metrics(server)[f"rnnserve_session_state_bytes{INLINE}}}"]
    calls.checkpoint(first, "here")
    assert _metrics(server)[f"rnnserve_session_state_bytes{INLINE}}}"] >= one + state
    calls.fork(first)
    samples = _metrics(server)
    assert samples[f"rnnserve_sessions_active{INLINE}}}"] == 2 and _event(server, "opened") == 2
    assert samples["rnnserve_session_bytes"] > charged

    refused = wire.refusal(calls.open)
    assert refused.code.name == "RESOURCE_EXHAUSTED" and _event(server, "refused") == 1
    assert _metrics(server)['rnnserve_rejected_total{reason="quota"}'] == 1

    calls.apply(first, 2, close=wire.sessions_pb2.Close())
    samples = _metrics(server)
    assert samples[f"rnnserve_sessions_active{INLINE}}}"] == 1 and _event(server, "closed") == 1
    assert samples[f"rnnserve_session_state_bytes{INLINE}}}"] == one


def test_repetitions(counted):
    server, calls = counted
    session = calls.open()
    calls.feed(session, 1, [1])
    before = _metrics(server)[f"rnnserve_operations_repeated_total{INLINE}}}"]
    slices = _metrics(server)['rnnserve_slices_total{model="(inline)",engine="cpu"}']
    calls.feed(session, 1, [1])
    assert _metrics(server)[f"rnnserve_operations_repeated_total{INLINE}}}"] == before + 1
    assert _metrics(server)['rnnserve_slices_total{model="(inline)",engine="cpu"}'] == slices, "no engine step"


def test_expiry(counted):
    server, calls = counted
    calls.open(idle_timeout={"nanos": 1000000})
    while _event(server, "expired") == 0:
        assert server.alive()
    assert _metrics(server)[f"rnnserve_sessions_active{INLINE}}}"] == 0
    assert _metrics(server)[f"rnnserve_session_state_bytes{INLINE}}}"] == 0


def test_streams_and_who_takes_over(counted):
    server, calls = counted
    session = calls.open()
    for number in [1, 2]:
        stream = Stream(calls)
        stream.send(operation(session, number, **chunk([number])))
        assert stream.receive().status.code == 0
        stream.send(operation(session, 9, **chunk([9])))
        assert stream.receive().status.code != 0
        stream.cancel()
    samples = _metrics(server)
    assert _event(server, "resumed") == 1, "the second stream went on with what the first one had"
    assert samples['rnnserve_requests_total{method="Recurrent.Stream.operation",code="OK"}'] == 2
    assert samples['rnnserve_requests_total{method="Recurrent.Stream.operation",code="OUT_OF_RANGE"}'] == 2
    assert samples['rnnserve_request_duration_seconds_count{method="Recurrent.Stream.operation"}'] == 4
    assert samples['rnnserve_rejected_total{reason="invalid"}'] == 2
    while _metrics(server)["rnnserve_requests_in_flight"] > 0:  # the answer leaves before its call is over
        assert server.alive()
    _await_streams(server, OK=2)


def _await_streams(server, **codes):
    """Streams that have ended, by code. They are counted once the server has heard so."""
    while True:
        metrics = _metrics(server)
        counted = {code: metrics[f'rnnserve_requests_total{{method="Recurrent.Stream",code="{code}"}}']
                   for code in ("OK", "CANCELLED", "UNKNOWN", "INTERNAL", "UNAVAILABLE")}
        if sum(counted.values()) >= sum(codes.values()):
            assert {code: count for code, count in counted.items() if count} == codes
            return
        assert server.alive()


def test_a_stream_that_its_caller_ends_is_no_error(counted):
    """However it does so, unless it leaves a reply behind."""
    server, calls = counted
    session = calls.open(engine="reference", outputs=["Y_h"])
    for end in [Stream.end, Stream.cancel]:
        stream = Stream(calls)
        stream.send(operation(session, None, **chunk([1])))
        assert stream.receive().status.code == 0
        end(stream)
    _await_streams(server, OK=2)
    stream = Stream(calls)
    stream.send(operation(session, None, **chunk([0.0] * 2_000_000)))
    operations = 'rnnserve_request_duration_seconds_count{method="Recurrent.Stream.operation"}'
    while (metrics := _metrics(server))["rnnserve_requests_in_flight"] == 0:
        assert server.alive() and metrics[operations] == 2
    stream.cancel()
    _await_streams(server, OK=2, CANCELLED=1)
    assert "CANCELLED" not in server.log()


def test_what_another_run_had_is_counted_and_logged(counted):
    server, calls = counted
    other = Server("--drain_timeout=100ms")
    theirs = Sessions(other.address)
    lost = theirs.open()
    theirs.close()
    assert other.stop() == 0
    stream = Stream(calls)
    one = operation(lost, 1, **chunk([1]))
    one.request_id = "asked-by-me"
    stream.send(one)
    assert stream.receive().status.code == 15  # DATA_LOSS
    assert _event(server, "lost", "(unknown)") == 1
    told = [line for line in server.log().splitlines() if "DATA_LOSS" in line]
    assert len(told) == 1 and "asked-by-me" in told[0] and "Recurrent.Stream.operation" in told[0]
    assert lost not in server.log(), "a key is a secret"
    stream.cancel()
