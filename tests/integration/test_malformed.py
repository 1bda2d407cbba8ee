# SPDX-License-Identifier: Apache-2.0
"""Every request of malformed_requests.py is refused with the right code and field, and disturbs nobody."""

from __future__ import annotations

import grpc
import numpy as np
import pytest

import wire
from malformed_changes import CASES, base_request, method
from malformed_requests import NO_MESSAGE, REQUESTS, Refused

MEMORY_ROUNDS = 20
MEMORY_SLACK_KIB = 6144  # under a kilobyte for each request


def _bytes(base, change) -> bytes:
    request = base_request(base)
    changed = change(request)
    return changed if isinstance(changed, bytes) else request.SerializeToString()


@pytest.fixture(scope="module")
def good(server):
    """A good request and its reply's tensors, bit by bit."""
    load = base_request("Load")
    load.name = "lstm"
    server.models.Load(load)
    rng = np.random.default_rng(8)
    request = wire.request(CASES["biLSTM"].changed(X=rng.standard_normal((3, 2, 3)).astype(np.float32)), engine="cpu")
    first = server.recurrent.Infer(request)
    return request, [t.SerializeToString() for t in first.outputs]


def _call(server, name):
    return server.channel.unary_unary(name, request_serializer=lambda b: b, response_deserializer=lambda b: b)


def test_base_requests_are_good(server, good):
    del good
    for base in [*CASES, "model", "Get"]:
        _call(server, method(base))(base_request(base).SerializeToString())


@pytest.mark.parametrize("what, base, change, where", REQUESTS, ids=[r[0] for r in REQUESTS])
def test_refused(server, good, what, base, change, where):
    expected = where if isinstance(where, Refused) else Refused(field=where)
    request, reply = good
    beside = server.recurrent.Infer.future(request)
    failure = wire.refusal(_call(server, method(base)), _bytes(base, change), timeout=60)
    same = [t.SerializeToString() for t in beside.result(timeout=60).outputs]
    assert same == reply, "another caller's numbers changed"
    assert failure.code == expected.code, f"{what}: {failure}"
    if expected.field is not None:
        assert failure.fields == [expected.field], f"{what}: {failure}"
        assert all(failure.descriptions), f"{what}: {failure}"
    if expected.reason is not None:
        assert failure.reasons == [expected.reason], f"{what}: {failure}"
    if expected.reason == "LIMIT_EXCEEDED":
        assert int(failure.infos[0].metadata["value"]) > int(failure.infos[0].metadata["limit"])
    if expected is NO_MESSAGE:
        assert failure.fields == [], f"{what}: {failure}"
    assert len(failure.text) > 10 and len(failure.text) <= 2048, f"{what}: {failure}"
    assert "RetryInfo" not in " ".join(failure.detail_types), f"{what} will not be better later: {failure}"


def test_the_table_is_long_and_has_no_line_twice():
    names = [r[0] for r in REQUESTS]
    assert len(names) >= 150
    assert len(set(names)) == len(names), sorted(n for n in names if names.count(n) > 1)
    contents = [(method(r[1]), _bytes(r[1], r[2])) for r in REQUESTS]
    assert len(set(contents)) == len(contents), [r[0] for k, r in enumerate(REQUESTS) if contents[k] in contents[:k]]


def test_memory_does_not_grow(server, good, capsys):
    request, reply = good
    calls = [(_call(server, method(r[1])), _bytes(r[1], r[2])) for r in REQUESTS]

    def one_round():
        for call, data in calls:
            beside = server.recurrent.Infer.future(request)
            wire.refusal(call, data, timeout=60)
            assert [t.SerializeToString() for t in beside.result(timeout=60).outputs] == reply

    for _ in range(4):  # until the allocators have what they need
        one_round()
    before = server.resident_kib()
    for _ in range(MEMORY_ROUNDS):
        one_round()
    after = server.resident_kib()
    with capsys.disabled():
        print(f"\n{len(calls)} malformed requests, {MEMORY_ROUNDS} rounds: resident {before} -> {after} KiB")
    assert after - before < MEMORY_SLACK_KIB, "the server's memory grows with requests it refuses"


def test_unknown_methods(server):
    for name in ("/rnnserve.v1.Recurrent/Nothing", "/rnnserve.v1.Nobody/Infer", "/rnnserve.v1.Recurrent/infer", "/x"):
        assert wire.refusal(_call(server, name), b"").code == grpc.StatusCode.UNIMPLEMENTED
