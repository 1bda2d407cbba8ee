# SPDX-License-Identifier: Apache-2.0
"""Limits that a flag sets, each provoked at its edge: what just fits is served, what is just too much is refused in words
that say what is too much, and counted under its reason, and the server goes on."""

from __future__ import annotations

import contextlib
import functools
import struct
import time

import grpc
import numpy as np
import pytest
from google.protobuf import duration_pb2

import session_calls
import wire
from half_messages import DATA, HEADERS, PREFACE, SETTINGS, WINDOW_UPDATE, call_headers, frame
from operators import WEIGHTS, Case
from server_process import Server
from session_calls import Sessions, chunk, open_request, operation
from test_admin import _metrics
from test_connections import Frames, _connect
from test_service import SECONDS

pb = wire.sessions_pb2
Code = grpc.StatusCode
REASON = 'rnnserve_rejected_total{reason="%s"}'
PER_MODEL = 6144  # what a model counts for besides its weights
REPLY_BYTES = 256 << 10
KEPT_MODELS = 3
INLINE_SHARE = 6  # of --model_weight_bytes: a sixth of it is for weights that come inline


def _case(seed=1, steps=2, rows=1, hidden=8, inputs=2) -> Case:
    rng = np.random.default_rng(seed)
    shapes = {"X": (steps, rows, inputs), "W": (1, hidden, inputs), "R": (1, hidden, hidden)}
    return Case("RNN", {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()},
                {"hidden_size": hidden}, version=14)


def _weight_bytes(hidden=8, inputs=2) -> int:
    """W, R and both halves of B, which there are in any case."""
    return 4 * hidden * (inputs + hidden + 2)


def _weights(seed):
    return [wire.tensor(name, value) for name, value in _case(seed).tensors.items() if name in WEIGHTS]


def _request(engine="cpu", outputs=("Y_h",), priority=0, **case):
    request = wire.request(_case(**case), engine=engine, outputs=outputs)
    request.priority = priority
    return request


def _refused(server, reason, code, words, call, *arguments, **keywords) -> wire.Failure:
    """The failure of a call that is refused, and counted for `reason` alone."""
    before = _metrics(server)
    failure = wire.refusal(call, *arguments, timeout=SECONDS, **keywords)
    after = _metrics(server)
    assert failure.code == code and all(word in failure.text for word in words), failure
    counted = {name: after[name] - before[name] for name in after if name.startswith("rnnserve_rejected_total")}
    assert {name: count for name, count in counted.items() if count} == {REASON % reason: 1}
    return failure


def _until(server, condition):
    """Waits for what the server does by itself: `condition` looks at a scrape."""
    deadline = time.monotonic() + SECONDS
    while not condition(samples := _metrics(server)):
        assert time.monotonic() < deadline, samples
    return samples


# Bytes of request messages: one call that lasts as long as it is wanted, and others beside it.


@functools.cache
def _lasting():
    """4 MiB that take minutes."""
    return _request(engine="reference", steps=16384, rows=64, inputs=1, hidden=256)


def _quick(steps):
    """Steps of 256 bytes that take no time."""
    return _request(steps=steps, rows=64, inputs=1, hidden=1)


FITTING_STEPS = 20000


@functools.cache
def _request_bytes() -> int:
    """With which the two together are all that one caller may have: an eighth is kept for others."""
    both = _lasting().ByteSize() + _quick(FITTING_STEPS).ByteSize()
    return next(most for most in range(both, 2 * both) if most - most // 8 == both)


@pytest.fixture(scope="module")
def running():
    models = KEPT_MODELS * (_weight_bytes() + PER_MODEL)
    server = Server(f"--model_weight_bytes={INLINE_SHARE * models}",
                    f"--max_bytes_in_flight={_request_bytes()}", "--drain_timeout=1s")
    yield server
    assert server.alive(), f"the server died:\n{server.log()}"
    assert server.stop() == 0


@pytest.fixture
def brief():
    """A server of small replies, which callers have to take soon."""
    server = Server(f"--max_message_bytes={REPLY_BYTES}", "--max_call_duration=2s", "--drain_timeout=1s")
    yield server
    assert server.stop() == 0


@pytest.fixture
def narrow(running):
    """That serves afterwards what it has served before."""
    first = running.recurrent.Infer(_request(), timeout=SECONDS).outputs
    yield running
    assert running.recurrent.Infer(_request(), timeout=SECONDS).outputs == first


def test_bytes_of_a_reply(brief):
    steps = REPLY_BYTES // 8 - 1  # of eight bytes in Y, and Y_h has as many as one more
    long = {"inputs": 1, "hidden": 2, "outputs": ("Y", "Y_h")}
    served = brief.recurrent.Infer(_request(steps=steps, **long), timeout=SECONDS)
    assert sum(len(output.raw) for output in served.outputs) == REPLY_BYTES
    failure = _refused(brief, "too_large", Code.INVALID_ARGUMENT, [f"at most {REPLY_BYTES}", "leave Y out of `outputs`"],
                       brief.recurrent.Infer, _request(steps=steps + 1, **long))
    assert failure.fields == ["outputs"] and failure.reasons == ["LIMIT_EXCEEDED"]
    assert failure.infos[0].metadata == {"limit": str(REPLY_BYTES), "value": str(REPLY_BYTES + 8)}
    assert brief.recurrent.Infer(_request(steps=steps + 1, **long | {"outputs": ("Y_h",)}), timeout=SECONDS).outputs


def test_bytes_of_a_chunks_reply(brief):
    """A refused chunk takes no number."""
    with contextlib.closing(Sessions(brief.address)) as sessions:
        key = sessions.open(outputs=["Y"], window_operations=0)
        steps = REPLY_BYTES // 4 // session_calls.H

        def feed(number, count):
            return sessions.stub.Apply(pb.ApplyRequest(operation=operation(key, number, **chunk([1] * count))), timeout=SECONDS)

        assert sum(len(output.raw) for output in feed(1, steps).reply.outputs) == REPLY_BYTES
        failure = _refused(brief, "too_large", Code.INVALID_ARGUMENT, [f"at most {REPLY_BYTES}"],
                           lambda timeout: feed(2, steps + 1))
        assert failure.reasons == ["LIMIT_EXCEEDED"] and failure.infos[0].metadata["value"] == str(REPLY_BYTES + 256)
        feed(2, 1)
        sessions.apply(key, 3, close=pb.Close())


def _by_fingerprint(server, fingerprint):
    return server.recurrent.Infer(wire.request(_case(), engine="cpu", fingerprint=fingerprint), timeout=SECONDS)


def test_weights_kept_for_fingerprints(narrow):
    """The least recently used go; larger ones than all together are not kept, and nothing goes for them."""
    kept = [narrow.recurrent.Infer(_request(seed=seed), timeout=SECONDS).fingerprint for seed in range(1, KEPT_MODELS + 1)]
    for fingerprint in kept:
        assert _by_fingerprint(narrow, fingerprint).fingerprint == fingerprint
    large = narrow.recurrent.Infer(_request(hidden=64), timeout=SECONDS).fingerprint
    failure = _refused(narrow, "invalid", Code.NOT_FOUND, [large, "evicted", "send the operator with its weights again"],
                       lambda timeout: _by_fingerprint(narrow, large))
    assert failure.reasons == ["FINGERPRINT_EVICTED"]
    assert _by_fingerprint(narrow, kept[0]).fingerprint == kept[0]
    kept.append(narrow.recurrent.Infer(_request(seed=KEPT_MODELS + 1), timeout=SECONDS).fingerprint)
    _refused(narrow, "invalid", Code.NOT_FOUND, [kept[1]], lambda timeout: _by_fingerprint(narrow, kept[1]))
    for fingerprint in kept[:1] + kept[2:]:
        assert _by_fingerprint(narrow, fingerprint).fingerprint == fingerprint
    assert narrow.recurrent.Infer(_request(seed=2), timeout=SECONDS).fingerprint == kept[1], "sent again, it is served"


def _load(name, seed):
    request = wire.models_pb2.LoadRequest(name=name)
    request.inline.operator.CopyFrom(wire.operator(_case()))
    request.inline.weights.extend(_weights(seed))
    return request


def test_weights_of_loaded_models(narrow):
    def unload(name):
        narrow.models.Unload(wire.models_pb2.UnloadRequest(model=wire.tensor_pb2.ModelRef(name=name)), timeout=SECONDS)

    names = [f"limited-{seed}" for seed in range(INLINE_SHARE * KEPT_MODELS)]
    for seed, name in enumerate(names):
        narrow.models.Load(_load(name, seed), timeout=SECONDS)
    failure = _refused(narrow, "memory", Code.RESOURCE_EXHAUSTED, ["named models hold", "unload models", "--model_weight_bytes"],
                       narrow.models.Load, _load("one-more", 99))
    taken = [int(word) for word in failure.text.split() if word.isdecimal()]
    assert taken[1] == taken[2] == INLINE_SHARE * KEPT_MODELS * taken[0], failure
    assert {info.name for info in narrow.models.List(wire.models_pb2.ListModelsRequest()).models} == set(names)
    unload(names.pop())
    narrow.models.Load(_load("one-more", 99), timeout=SECONDS)
    request = wire.recurrent_pb2.InferRequest(model=wire.tensor_pb2.ModelRef(name="one-more"),
                                              inputs=[wire.tensor("X", _case().tensors["X"])])
    assert narrow.recurrent.Infer(request, timeout=SECONDS).outputs
    for name in [*names, "one-more"]:
        unload(name)


def test_packed_weights():
    """As many programs are kept as fit, and whoever asks for another one has it packed again."""
    most = 100_000
    packed = 'rnnserve_packed_weight_bytes{engine="cpu"}'
    server = Server(f"--packed_weight_bytes={most}")

    def infer(seed):
        request = _request(seed=seed, hidden=32, inputs=32)
        request.options.deterministic = True  # as many bytes on every CPU
        return server.recurrent.Infer(request, timeout=SECONDS).outputs

    try:
        first = infer(0)
        one = _metrics(server)[packed]
        fit = int(most // (one + _weight_bytes(32, 32) + PER_MODEL))
        assert one > 0 and fit >= 2
        for seed in range(1, 3 * fit):
            infer(seed)
            _until(server, lambda samples: samples[packed] == min(seed + 1, fit) * one)
        assert infer(0) == first
    finally:
        assert server.stop() == 0


def test_bytes_of_messages_in_flight(narrow):
    lasting = narrow.recurrent.Infer.future(_lasting())
    _until(narrow, lambda samples: samples["rnnserve_queue_sequences"] == 64)
    assert narrow.recurrent.Infer(_quick(FITTING_STEPS), timeout=SECONDS).outputs
    more = _quick(FITTING_STEPS + 1)
    _refused(narrow, "memory", Code.RESOURCE_EXHAUSTED,
             [f"holds {_lasting().ByteSize()} of {_request_bytes()} bytes of request messages",
              f"this one has {more.ByteSize()}"], narrow.recurrent.Infer, more)
    assert not lasting.done()
    lasting.cancel()
    _until(narrow, lambda samples: samples["rnnserve_requests_in_flight"] == 0)
    assert narrow.recurrent.Infer(more, timeout=SECONDS).outputs


class WindowOfZero:
    """A caller that lets no byte of the reply come until `take`."""

    def __init__(self, server, method, message):
        self.connection = _connect(server)
        self.frames = Frames(self.connection)
        body = struct.pack(">BI", 0, message.ByteSize()) + message.SerializeToString()
        assert len(body) <= 16384
        self.connection.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)) +
                                frame(HEADERS, 4, 1, call_headers(method)) + frame(DATA, 1, 1, body))

    def take(self):
        self.connection.sendall(frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 65535)))

    def end(self):
        """The bytes that came, and the headers that ended it."""
        came = b""
        while (found := self.frames.next())[0] != HEADERS or not found[1] & 1:
            came += found[2] if found[0] == DATA else b""
        return came, found[2]


CANCELLED = b"grpc-status\x011"


def test_replies_that_nobody_takes(brief):
    """Taken before its time is over, a reply is there whole; else the call is broken off, of a stream as well."""
    answered = 'rnnserve_requests_total{method="%s",code="OK"}'
    before = _metrics(brief)
    stream = pb.StreamRequest(operations=[operation("", open=open_request(operator=wire.operator(_case()), weights=_weights(1)))])
    with contextlib.ExitStack() as stack:
        def call(method, message):
            caller = WindowOfZero(brief, method, message)
            stack.callback(caller.connection.close)
            return caller

        late, never = (call("/rnnserve.v1.Recurrent/Infer", _request()) for _ in range(2))
        never_streaming = call("/rnnserve.v1.Recurrent/Stream", stream)
        infer = answered % "Recurrent.Infer"
        _until(brief, lambda samples: samples[infer] >= before[infer] + 2)
        late.take()
        came, status = late.end()
        assert CANCELLED not in status and wire.recurrent_pb2.InferResponse.FromString(came[5:]).outputs
        for caller in (never, never_streaming):
            came, status = caller.end()
            assert not came and CANCELLED in status
        _until(brief, lambda samples: samples["rnnserve_requests_in_flight"] == 0)


def _seconds(duration) -> float:
    return duration.seconds + duration.nanos / 1e9


@pytest.mark.parametrize("default, longest", [(600, 86400), (172800, 172800)])
def test_idleness_that_sessions_ask_for(default, longest):
    """A day at most, or what all sessions have that ask for none."""
    server = Server(f"--session_idle_timeout={default}s")
    with contextlib.closing(Sessions(server.address)) as sessions:
        asked = [duration_pb2.Duration(seconds=longest - 1), duration_pb2.Duration(seconds=longest),
                 duration_pb2.Duration(seconds=longest, nanos=1), None]
        opened = [sessions.stub.Open(open_request(idle_timeout=idle)) for idle in asked]
        assert [_seconds(reply.idle_timeout) for reply in opened] == [longest - 1, longest, longest, default]
        for reply in opened:
            sessions.apply(reply.session, 1, close=pb.Close())
    assert server.stop() == 0


def test_bytes_of_a_tenants_sessions(tmp_path):
    """States, windows and checkpoints of one tenant; another one has as many."""
    most = 100_000
    tokens = {name: f"{name}-0123456789abcdef" for name in ["alice", "bob"]}
    (tmp_path / "tokens").write_text("".join(f"{name} {token}\n" for name, token in tokens.items()))
    server = Server(f"--tokens_file={tmp_path}/tokens", f"--session_bytes={2 * most}", "--max_tenant_share=0.5",
                    "--drain_timeout=1s")
    stub = wire.sessions_grpc.SessionsStub(server.channel)

    def call(method, request, tenant="alice", timeout=SECONDS):
        return getattr(stub, method)(request, timeout=timeout, metadata=[("authorization", f"Bearer {tokens[tenant]}")])

    def with_window(size):
        return open_request(window_operations=1, window_bytes=size)

    try:
        first = call("Open", with_window(0)).session
        bare = int(_metrics(server)["rnnserve_session_bytes"])
        rest = most - 2 * bare
        failure = _refused(server, "quota", Code.RESOURCE_EXHAUSTED,
                           [f"this tenant's sessions take {bare} of {most} bytes", f"needs {most - bare + 1} more"],
                           call, "Open", with_window(rest + 1))
        assert failure.reasons == ["QUOTA_EXCEEDED"] and "google.rpc.QuotaFailure" in failure.detail_types
        second = call("Open", with_window(rest)).session
        assert _metrics(server)["rnnserve_session_bytes"] == most
        checkpoint = pb.CheckpointRequest(session=first, name="c")
        _refused(server, "quota", Code.RESOURCE_EXHAUSTED, [f"take {most} of {most} bytes"], call, "Checkpoint", checkpoint)
        _refused(server, "quota", Code.RESOURCE_EXHAUSTED, [f"take {most} of {most} bytes"], call, "Open", with_window(0))
        call("Open", with_window(rest), "bob")
        call("Apply", pb.ApplyRequest(operation=operation(second, 1, close=pb.Close())))
        call("Checkpoint", checkpoint)
        call("Open", with_window(0))
    finally:
        assert server.stop() == 0
