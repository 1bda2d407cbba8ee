# SPDX-License-Identifier: Apache-2.0
"""The server's policies as callers of the Open Inference Protocol meet them, by an unmodified tritonclient: TLS, tokens and
tenants, limits, deadlines, leaving, metrics."""

from __future__ import annotations

import concurrent.futures
import itertools
import queue
import signal

import numpy as np
import pytest
import tritonclient.grpc as triton

import repository_files
import wire
from server_process import Server
from session_calls import Sessions
from test_admin import _metrics
from test_kserve import CASE, NAME, _data, _expected, _inputs, _refused, _step, _whole, _x
from test_security import Authority, _put, _tls_flags
from test_service import SECONDS
from test_shutdown import _long_call

TOKENS = {tenant: f"token-of-{tenant}-0123456789" for tenant in ("alice", "bob", "carol")}
HEADERS = {tenant: {"authorization": f"Bearer {token}"} for tenant, token in TOKENS.items()}
REJECTED = 'rnnserve_rejected_total{reason="%s"}'
LIVE = f'rnnserve_sessions_active{{model="{NAME}"}}'
WHOLE = _inputs(_data())
FILE = repository_files.model(CASE).SerializeToString()


@pytest.fixture
def serve(tmp_path):
    """Starts servers of a repository with the model, which have to leave with 0 at the end."""
    repository_files.write(tmp_path / "models" / NAME / "1", repository_files.model(CASE))
    started = []

    def start(*flags):
        started.append(Server(f"--models={tmp_path / 'models'}", *flags))
        return started[-1]

    yield start
    assert [running.stop() for running in started] == [0] * len(started)


class Stream:
    """ModelStreamInfer of one client: a request, and its answer."""

    def __init__(self, address, **options):
        self.client = triton.InferenceServerClient(address)
        self.arrived = queue.Queue()
        self.client.start_stream(callback=lambda result, error: self.arrived.put((result, error)), **options)

    def answer(self, inputs=WHOLE, **fields):
        """Y, or the error."""
        self.client.async_stream_infer(NAME, inputs, **fields)
        result, error = self.arrived.get(timeout=SECONDS)
        return error if result is None else result.as_numpy("Y")

    def step(self, x, at, sequence_id, **fields):
        return self.answer(_inputs({"X": x[at:at + 1]}), sequence_id=sequence_id, **fields)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream(cancel_requests=True)
        self.client.close()


def _counts(running, reason, call, *arguments, **fields):
    """The failure of a call that is counted as refused for `reason` alone."""
    before = _metrics(running)
    failure = call(*arguments, **fields)
    after = _metrics(running)
    counted = {name: after[name] - before[name] for name in after if name.startswith("rnnserve_rejected_total")}
    assert {name: count for name, count in counted.items() if count} == {REJECTED % reason: 1}, failure
    return failure


@pytest.mark.parametrize("mutual", [False, True])
def test_tls(serve, tmp_path, mutual):
    authority = Authority(tmp_path, "authority")
    for name, serial in (("server", 1), ("client", 2)):
        for kind, content in zip(("crt", "key"), authority.sign(name, serial)):
            _put(tmp_path / f"{name}.{kind}", content)
    flags = [flag.replace("tls.", "server.") for flag in _tls_flags(tmp_path)]
    running = serve(*flags, *([f"--tls_client_ca={authority.certificate}"] if mutual else []))
    address = f"localhost:{running.port}"
    trust = {"ssl": True, "root_certificates": str(authority.certificate)}
    pair = {"private_key": str(tmp_path / "client.key"), "certificate_chain": str(tmp_path / "client.crt")}
    with triton.InferenceServerClient(address, **trust, **(pair if mutual else {})) as client:
        np.testing.assert_allclose(client.infer(NAME, WHOLE).as_numpy("Y"), _expected()["Y"], rtol=1e-5, atol=1e-6)
        arrived = queue.Queue()
        client.start_stream(callback=lambda result, error: arrived.put((result, error)))
        client.async_stream_infer(NAME, WHOLE)
        assert arrived.get(timeout=SECONDS)[1] is None
        client.stop_stream()
    for wrong in [{}] + ([trust] if mutual else []):
        with triton.InferenceServerClient(address, **wrong) as client:
            assert "UNAVAILABLE" in _refused(client.is_server_live).status()


@pytest.fixture
def tenants(serve, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("".join(f"{tenant} {token}{'' if tenant == 'carol' else ' models'}\n" for tenant, token in TOKENS.items()))
    file.chmod(0o600)
    share = (len(FILE) + 8192) / (16 << 20)  # room for one model: it counts its file, its weights and 4 KiB
    return serve(f"--tokens_file={file}", "--max_sessions=1", f"--model_weight_bytes={16 << 20}", f"--max_tenant_share={share}",
                 "--drain_timeout=1s"), file


def test_calls_without_a_token(tenants):
    running, _ = tenants
    with triton.InferenceServerClient(running.address) as client:
        for call in (client.is_server_live, client.get_model_repository_index, lambda: client.infer(NAME, WHOLE),
                     lambda: client.load_model(NAME), lambda: client.infer(NAME, WHOLE, headers={"authorization": "Bearer x"})):
            assert "UNAUTHENTICATED" in _refused(call).status()
        assert "PERMISSION_DENIED" in _refused(client.load_model, NAME, headers=HEADERS["carol"]).status()
        assert "PERMISSION_DENIED" in _refused(client.unload_model, NAME, headers=HEADERS["carol"]).status()
        client.infer(NAME, WHOLE, headers=HEADERS["carol"])
    with Stream(running.address) as stream:
        assert "UNAUTHENTICATED" in stream.arrived.get(timeout=SECONDS)[1].status()


def test_sequences_of_tenants(tenants):
    """Of one id, side by side; one more than a tenant may have is refused until it ends one."""
    running, _ = tenants
    x, z = _x(), _x(seed=4)
    alice, bob = HEADERS["alice"], HEADERS["bob"]
    with triton.InferenceServerClient(running.address) as client:
        _step(client, x, 0, sequence_start=True, headers=alice)
        for fields in ({}, {"sequence_end": True}):
            assert "START" in _refused(_step, client, z, 1, headers=bob, **fields).message()
        _step(client, z, 0, sequence_start=True, headers=bob)
        steps = [_step(client, tensor, 1, headers=headers) for tensor, headers in ((x, alice), (z, bob))]
        np.testing.assert_allclose(steps, [_whole(x)[1:2], _whole(z)[1:2]], rtol=1e-5, atol=1e-6)
        refused = _counts(running, "quota", _refused, _step, client, x, 0, 8, sequence_start=True, headers=alice)
        assert "RESOURCE_EXHAUSTED" in refused.status() and "live sessions" in refused.message(), refused
        with Stream(running.address, headers=alice) as stream:
            assert "live sessions" in stream.step(x, 0, 8, sequence_start=True).message()
            np.testing.assert_allclose(stream.step(x, 2, 7, sequence_end=True), _whole(x)[2:3], rtol=1e-5, atol=1e-6)
            stream.step(x, 0, 8, sequence_start=True, sequence_end=True)
        np.testing.assert_allclose(_step(client, z, 0, sequence_start=True, headers=bob), _whole(z)[:1], rtol=1e-5, atol=1e-6)
        _step(client, z, 1, sequence_end=True, headers=bob)


def test_models_of_tenants(tenants):
    running, _ = tenants
    files = {"file:1/model.onnx": FILE}
    alice, bob = HEADERS["alice"], HEADERS["bob"]
    with triton.InferenceServerClient(running.address) as client:
        client.load_model("mine", files=files, headers=alice)

        def seen(headers):
            return {model.name for model in client.get_model_repository_index(headers=headers).models}

        assert (seen(alice), seen(bob)) == ({NAME, "mine"}, {NAME})
        assert not client.is_model_ready("mine", headers=bob)
        for call in (client.get_model_metadata, client.get_model_config, client.get_inference_statistics, client.unload_model):
            assert "NOT_FOUND" in _refused(call, "mine", headers=bob).status()
        assert "NOT_FOUND" in _refused(client.infer, "mine", WHOLE, headers=bob).status()
        client.infer("mine", WHOLE, headers=alice)
        refused = _counts(running, "quota", _refused, client.load_model, "more", files=files, headers=alice)
        assert "RESOURCE_EXHAUSTED" in refused.status()
        client.load_model("mine", files=files, headers=bob)
        client.unload_model("mine", headers=bob)
        client.infer("mine", WHOLE, headers=alice)


def test_a_stream_ends_with_its_token(tenants):
    running, file = tenants
    x = _x()
    with Stream(running.address, headers=HEADERS["bob"]) as stream, Stream(running.address, headers=HEADERS["alice"]) as other:
        stream.step(x, 0, 7, sequence_start=True)
        other.step(x, 0, 7, sequence_start=True)
        file.write_text(f"alice {TOKENS['alice']} models\n")
        assert "CANCELLED" in stream.arrived.get(timeout=SECONDS)[1].status()
        assert "UNAUTHENTICATED" in _refused(_step, other.client, x, 1, headers=HEADERS["bob"]).status()
        np.testing.assert_allclose(other.step(x, 1, 7, sequence_end=True), _whole(x)[1:2], rtol=1e-5, atol=1e-6)


def test_bytes_of_messages(serve):
    """Bytes of a request and of a reply; a stream goes on after a reply that was refused."""
    width, hidden = CASE.tensors["X"].shape[2], CASE.tensors["R"].shape[2]
    most = 100_000
    running = serve(f"--max_message_bytes={most}", "--drain_timeout=100ms")

    def of(steps, rows=1):
        return _inputs({"X": np.zeros((steps, rows, width), np.float32)})

    assert hidden > width, "a reply is longer than its request"
    wide = of(most // (4 * width) + 1)
    long = of(most // (4 * hidden) + 1)
    with triton.InferenceServerClient(running.address) as client, Stream(running.address) as stream:
        def both(reason, code, text, inputs):
            refused = _counts(running, reason, _refused, client.infer, NAME, inputs)
            assert code in refused.status() and text in refused.message(), refused
            assert text in _counts(running, reason, stream.answer, inputs).message()
            np.testing.assert_allclose(stream.answer(), _expected()["Y"], rtol=1e-5, atol=1e-6)

        both("too_large", "INVALID_ARGUMENT", f"at most {most}", long)
        assert "RESOURCE_EXHAUSTED" in _refused(client.infer, NAME, wide).status()
    with Stream(running.address) as stream:
        stream.client.async_stream_infer(NAME, wide)
        assert "RESOURCE_EXHAUSTED" in stream.arrived.get(timeout=SECONDS)[1].status()


def test_a_full_queue(serve):
    running = serve("--queue_sequences=8", "--drain_timeout=100ms")
    rows = _inputs({"X": np.zeros((1, 8, CASE.tensors["X"].shape[2]), np.float32)})
    with triton.InferenceServerClient(running.address) as client, Stream(running.address) as stream:
        first = _long_call(running)
        while _metrics(running)["rnnserve_queue_sequences"] < 8:
            assert not first.done()
        refused = _counts(running, "queue_full", _refused, client.infer, NAME, rows)
        assert "RESOURCE_EXHAUSTED" in refused.status() and "of 8 sequences" in refused.message()
        assert "of 8 sequences" in _counts(running, "queue_full", stream.answer, rows).message()
        first.cancel()
        while _metrics(running)["rnnserve_queue_sequences"]:
            assert running.alive()
        for answer in (client.infer(NAME, rows).as_numpy("Y"), stream.answer(rows)):
            assert answer.shape[2] == 8


def test_deadlines(serve):
    """A request whose time is over is not applied."""
    running = serve("--drain_timeout=100ms")
    x = _x()
    with triton.InferenceServerClient(running.address) as client, Stream(running.address) as stream:
        assert "DEADLINE_EXCEEDED" in _counts(running, "deadline", _refused, client.infer, NAME, WHOLE, timeout=1).status()
        assert "deadline" in _counts(running, "deadline", stream.answer, timeout=1).message()
        _step(client, x, 0, sequence_start=True)
        refused = _counts(running, "deadline", _refused, _step, client, x, 1, timeout=1)
        assert "DEADLINE_EXCEEDED" in refused.status()
        assert "timeout" in _counts(running, "deadline", stream.step, x, 1, 7, timeout=1).message()
        np.testing.assert_allclose(_step(client, x, 1), _whole(x)[1:2], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(stream.step(x, 2, 7, sequence_end=True), _whole(x)[2:3], rtol=1e-5, atol=1e-6)


def _await_drain(running, client):
    """Until what is new is refused; returns how."""
    running.process.send_signal(signal.SIGTERM)
    x = _x(1)
    while True:
        try:
            _step(client, x, 0, 99, sequence_start=True, sequence_end=True)
        except triton.InferenceServerException as error:
            return error


def test_sequences_that_have_begun_are_served_to_their_end(serve):
    """The protocol has no call that would take their states to another server."""
    running = serve("--drain_timeout=1h")
    x = _x(3)
    with triton.InferenceServerClient(running.address) as client, Stream(running.address) as stream:
        steps = [[_step(client, x, 0, 1, sequence_start=True)], [stream.step(x, 0, 2, sequence_start=True)]]
        refused = _await_drain(running, client)
        assert "UNAVAILABLE" in refused.status() and "leaving" in refused.message()
        assert client.is_server_live() and not client.is_server_ready() and not client.is_model_ready(NAME)
        assert "UNAVAILABLE" in _counts(running, "draining", _refused, client.infer, NAME, WHOLE).status()
        assert "another" in _counts(running, "draining", stream.answer).message()
        assert "leaving" in _counts(running, "draining", stream.step, x, 0, 3, sequence_start=True).message()
        for k in (1, 2):
            steps[0].append(_step(client, x, k, 1, sequence_end=k == 2))
            steps[1].append(stream.step(x, k, 2, sequence_end=k == 2))
        for each in steps:
            np.testing.assert_allclose(np.concatenate(each), _whole(x), rtol=1e-5, atol=1e-6)
        assert running.alive(), "the stream is open"
    assert running.process.wait(timeout=SECONDS) == 0


def test_the_timeout_ends_streams_and_sequences(serve):
    running = serve("--drain_timeout=100ms")
    with Stream(running.address) as stream:
        stream.step(_x(1), 0, 2, sequence_start=True)
        running.process.send_signal(signal.SIGTERM)
        error = stream.arrived.get(timeout=SECONDS)[1]
        assert any(code in error.status() for code in ("UNAVAILABLE", "CANCELLED")), error
        assert running.process.wait(timeout=SECONDS) == 0


def test_metrics(serve):
    """Calls, operations of streams and sequences count as the native ones do."""
    running = serve("--drain_timeout=100ms")
    x = _x()
    with triton.InferenceServerClient(running.address) as client, Stream(running.address) as stream:
        client.infer(NAME, WHOLE)
        _refused(client.infer, NAME, _inputs({"X": x[:, :, :1]}))
        _step(client, x, 0, sequence_start=True)
        stream.step(x, 1, 7)
        samples = _metrics(running)
        name = "rnnserve_requests_total{method=\"GRPCInferenceService.%s\",code=\"%s\"}"
        assert samples[name % ("ModelInfer", "OK")] == 2 and samples[name % ("ModelInfer", "INVALID_ARGUMENT")] == 1
        assert samples[name % ("ModelStreamInfer.operation", "OK")] == 1
        assert samples[LIVE] == 1 and samples["rnnserve_session_bytes"] > 0
        stream.step(x, 2, 7, sequence_end=True)
        # The session ends as its last answer leaves.
        assert any(_metrics(running)[LIVE] == 0 for _ in range(1000))
    assert not [name for name in samples if name.startswith("nv_")], "only with --triton_metrics"


def test_metrics_under_tritons_names(serve):
    running = serve("--triton_metrics", "--drain_timeout=1s")
    with triton.InferenceServerClient(running.address) as client:
        client.infer(NAME, WHOLE)
        _refused(client.infer, NAME, _inputs({"X": _x()[:, :, :1]}))
    samples = _metrics(running)
    told = {name.split("{")[0]: value for name, value in samples.items()
            if name.startswith("nv_") and f'model="{NAME}"' in name}
    assert told["nv_inference_request_success"] == 1 and told["nv_inference_request_failure"] == 1
    assert told["nv_inference_exec_count"] >= 1
    for part in ("request", "queue", "compute_infer"):
        assert told[f"nv_inference_{part}_duration_us"] > 0, part
    assert told["nv_inference_request_duration_us"] == pytest.approx(
        1e6 * samples[f'rnnserve_model_request_duration_seconds_sum{{model="{NAME}"}}'])


@pytest.mark.parametrize("stateful", [False, True])
def test_dialects_share_batches(serve, stateful):
    """One caller of each dialect, of one request of two rows at a time: a slice of more rows has both."""
    running = serve("--workers=1", "--max_batch_delay=20ms", "--drain_timeout=100ms")
    x = _x(1)
    native = Sessions(running.address)
    model, step = wire.tensor_pb2.ModelRef(name=NAME), {"inputs": [wire.tensor("X", x)], "outputs": ["Y"]}
    chunk = wire.sessions_pb2.Chunk(override_outputs=True, **step)
    if stateful:
        session = native.open(model=model, rows=x.shape[1])
        numbers = itertools.count(1)

    def other():
        if stateful:
            return native.apply(session, next(numbers), chunk=chunk).outputs
        return native.recurrent.Infer(wire.recurrent_pb2.InferRequest(model=model, **step), timeout=SECONDS).outputs

    sequence = {"sequence_id": 5} if stateful else {}
    whole = _whole(x)
    with triton.InferenceServerClient(running.address) as client, concurrent.futures.ThreadPoolExecutor() as pool:
        def rows_and_slices():
            samples = _metrics(running)
            return [samples[f'rnnserve_slice_sequences_{what}{{model="{NAME}",engine="cpu"}}'] for what in ("sum", "count")]

        client.infer(NAME, _inputs({"X": x}), sequence_start=stateful, **sequence)
        other()
        assert rows_and_slices() == [4, 2], "alone"
        for _ in range(1000):
            answers = pool.submit(other), pool.submit(client.infer, NAME, _inputs({"X": x}), **sequence)
            ours, theirs = wire.array(answers[0].result()[0]), answers[1].result().as_numpy("Y")
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
            if not stateful:
                np.testing.assert_allclose(theirs, whole, rtol=1e-5, atol=1e-6)
            rows, slices = rows_and_slices()
            if rows > x.shape[1] * slices:
                return
    pytest.fail("a thousand pairs of requests, and none shared a slice")
