# SPDX-License-Identifier: Apache-2.0
"""Each reason of rnnserve_rejected_total, provoked: the code and text that the caller gets, and what is counted."""

from __future__ import annotations

import json
import signal

import grpc
import pytest
from google.protobuf import duration_pb2

import wire
from server_process import Server
from session_calls import Sessions, chunk, open_request, operation
from test_admin import _metrics
from test_service import SECONDS, _case
from test_shutdown import _long_call

REASON = 'rnnserve_rejected_total{reason="%s"}'


@pytest.fixture(scope="module")
def tight():
    running = Server("--queue_sequences=8", "--max_sessions=1", "--max_bytes_in_flight=67108864",
                     "--drain_timeout=1h", "--log_format=json")
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
    failure = _refused(tight, "too_large", "INVALID_ARGUMENT", "at most 67108864", lambda: infer(wire.request(_case(steps=70000, rows=1, inputs=1, hidden=256))))
    assert failure.reasons == ["LIMIT_EXCEEDED"] and failure.fields
    _refused(tight, "invalid", "NOT_FOUND", "session key", lambda: sessions.feed("x", 1, [1]))
    _refused(tight, "quota", "RESOURCE_EXHAUSTED", "close some", sessions.open)
    _refused(tight, "deadline", "DEADLINE_EXCEEDED", "timeout passed",
             lambda: sessions.apply(key, 1, **chunk([1]), timeout=duration_pb2.Duration(nanos=1)))
    long = _long_call(tight)
    while _metrics(tight)["rnnserve_queue_sequences"] < 8:
        assert not long.done()
    _refused(tight, "queue_full", "RESOURCE_EXHAUSTED", "of 8 sequences", lambda: infer(wire.request(_case(rows=8))))
    _refused(tight, "memory", "RESOURCE_EXHAUSTED", "bytes", lambda: infer(wire.request(_case(steps=4000, rows=8, hidden=500))))
    tight.process.send_signal(signal.SIGTERM)
    while True:  # between the signal and the drain calls are still served, or find no room
        try:
            sessions.open()
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                break
    assert _metrics(tight)[REASON % "draining"] == 1
    _refused(tight, "draining", "UNAVAILABLE", "another", lambda: infer(wire.request(_case())))
    long.cancel()
    sessions.close()
    events = [json.loads(line) for line in tight.log().splitlines()]
    assert "error" not in {event["level"] for event in events}
    told = [event["message"].split(":")[0] for event in events if "refused" in event["message"]]
    assert told == ["Recurrent.Infer refused", "Sessions.Apply refused"], "overload is an answer, not an event"


def _attempts(server, metadata, key):
    """A stranger's, bob's and alice's: what each kind of refusal is told as, and a call that provokes it."""
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    infer, load = server.recurrent.Infer, server.models.Load
    apply = wire.sessions_pb2.ApplyRequest(operation=operation(key, 1, request_id="id \"7\"\n", **chunk([1])))
    return {
        "Recurrent.Infer refused: UNAUTHENTICATED": lambda: infer(wire.request(_case()), metadata=metadata("stranger")),
        "Models.Load refused: PERMISSION_DENIED": lambda: load(_named("m"), metadata=metadata("bob")),
        "Sessions.Apply refused: NOT_FOUND": lambda: sessions.Apply(apply, metadata=metadata("bob")),
        "Recurrent.Infer refused: INVALID_ARGUMENT": lambda: infer(wire.request(_case(steps=999, inputs=1, hidden=32)),
                                                                   metadata=metadata("bob")),
        "Models.Load refused: INVALID_ARGUMENT": lambda: load(_named("../../etc"), metadata=metadata("alice")),
        "Recurrent.Infer broke off": lambda: infer(wire.request(_case(steps=999, rows=100)), metadata=metadata("bob")),
    }


def _named(name):
    return wire.models_pb2.LoadRequest(name=name, repository=True)


def test_attempts_are_told_once(tmp_path):
    """Each kind for itself, whatever the others do; with who it was, and nothing secret."""
    tokens = {name: f"token-of-{name}-0123456789" for name in ("alice", "bob", "stranger")}
    (tmp_path / "tokens").write_text(f"alice {tokens['alice']} models\nbob {tokens['bob']}\n")
    (tmp_path / "models").mkdir()
    server = Server(f"--tokens_file={tmp_path}/tokens", f"--models={tmp_path}/models", "--max_message_bytes=100000", "--log_format=json", "--drain_timeout=100ms")
    try:
        def metadata(name):
            return [("authorization", f"Bearer {tokens[name]}")]

        key = wire.sessions_grpc.SessionsStub(server.channel).Open(open_request(), metadata=metadata("alice")).session
        attempts = _attempts(server, metadata, key)
        for _ in range(30):
            for text, call in attempts.items():
                failure = wire.refusal(call)
                assert failure.code.name in text or "broke off" in text, failure
            assert wire.refusal(server.recurrent.Infer, wire.request(_case(), engine="none"), metadata=metadata("bob"))
        log = server.log()
        events = [json.loads(line) for line in log.splitlines()]
        for text, tenant in zip(attempts, ["", "", "bob", "bob", "alice", "bob"]):
            told = [event for event in events if event["message"].startswith(text)]
            assert 0 < len(told) < 15 and told[0].get("tenant", "") == tenant, (text, log)
            assert "broke off" in text or told[0]["peer"].startswith("ipv4:127.0.0.1:"), "it is gone"
            assert "suppressed_before" not in told[0] and all(int(event["suppressed_before"]) > 0 for event in told[1:])
        assert [event["request_id"] for event in events if "Apply" in event["message"]][0] == "id \"7\"\n"
        told = [event["message"] for event in events if "refused" in event["message"] or "broke off" in event["message"]]
        assert all(message.startswith(tuple(attempts)) for message in told), told
        assert all("at most 100000" in message for message in told if message.startswith("Recurrent.Infer refused: INV"))
        assert key not in log and not any(token in log for token in tokens.values())
    finally:
        assert server.stop() == 0


def test_a_callers_mistakes_are_told_to_who_wants_to_know():
    server = Server("--log_level=debug")
    try:
        for _ in range(30):
            wire.refusal(server.recurrent.Infer, wire.request(_case(), engine="none"))
        told = [line for line in server.log().splitlines() if "Recurrent.Infer refused: " in line]
        assert 0 < len(told) < 15 and all(" debug " in line and " peer=ipv4:" in line for line in told), told
    finally:
        assert server.stop() == 0
