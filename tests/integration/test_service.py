# SPDX-License-Identifier: Apache-2.0
"""What is served beside the numbers: health, reflection, the process's start and end, the fields of a reply."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import formulas
import random_operators
import wire
from operators import WEIGHTS, Case
from server_process import Server, run_to_end
from test_onnxruntime import excess

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
SECONDS = 60


def _case(steps=4, rows=2, inputs=3, hidden=5, **attributes) -> Case:
    rng = np.random.default_rng(1)
    tensors = random_operators.tensors(rng, "LSTM", steps, rows, inputs, hidden, 1, bias=True, peephole=False,
                                       lengths=False, initial_h=False, initial_c=False)
    return Case("LSTM", tensors, {"hidden_size": hidden, **attributes}, version=14)


def _load(server, name):
    request = wire.models_pb2.LoadRequest(name=name)
    request.inline.operator.CopyFrom(wire.operator(_case()))
    request.inline.weights.extend(wire.tensor(k, v) for k, v in _case().tensors.items() if k in WEIGHTS)
    server.models.Load(request)


def _health(server):
    return health_pb2_grpc.HealthStub(server.channel)


def _check(server, name):
    return _health(server).Check(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS).status


# Health.


@pytest.mark.parametrize("name", ["", "rnnserve.v1.Recurrent", "rnnserve.v1.Models"])
def test_health_check(server, name):
    assert _check(server, name) == SERVING


def test_health_of_the_unknown(server):
    failure = wire.refusal(_check, server, "nobody")
    assert failure.code == grpc.StatusCode.NOT_FOUND


def test_health_of_a_model(server):
    watch = _health(server).Watch(health_pb2.HealthCheckRequest(service="watched"), timeout=SECONDS)
    assert next(watch).status == SERVICE_UNKNOWN
    _load(server, "watched")
    assert next(watch).status == SERVING
    assert _check(server, "watched") == SERVING
    server.models.Unload(wire.models_pb2.UnloadRequest(model=wire.tensor_pb2.ModelRef(name="watched")))
    assert next(watch).status in (NOT_SERVING, SERVICE_UNKNOWN)
    watch.cancel()


def test_a_model_with_a_version_left_stays_serving(server):
    for version in (1, 2):
        request = wire.models_pb2.LoadRequest(name="two-versions", version=version)
        request.inline.operator.CopyFrom(wire.operator(_case()))
        request.inline.weights.extend(wire.tensor(k, v) for k, v in _case().tensors.items() if k in WEIGHTS)
        server.models.Load(request)
    unload = wire.models_pb2.UnloadRequest(model=wire.tensor_pb2.ModelRef(name="two-versions", version=2))
    server.models.Unload(unload)
    assert _check(server, "two-versions") == SERVING
    unload.model.version = 1
    server.models.Unload(unload)
    try:
        assert _check(server, "two-versions") != SERVING
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND


# Reflection.


def _reflect(server, **request):
    stub = reflection_pb2_grpc.ServerReflectionStub(server.channel)
    return next(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(**request)]), timeout=SECONDS))


def test_reflection_lists_what_is_served(server):
    names = {s.name for s in _reflect(server, list_services="").list_services_response.service}
    assert {"rnnserve.v1.Recurrent", "rnnserve.v1.Models", "grpc.health.v1.Health"} <= names
    assert "rnnserve.v1.Sessions" not in names, "not served yet, so not registered"


def test_reflection_describes_infer(server):
    answer = _reflect(server, file_containing_symbol="rnnserve.v1.Recurrent")
    from google.protobuf import descriptor_pb2
    files = [descriptor_pb2.FileDescriptorProto.FromString(f)
             for f in answer.file_descriptor_response.file_descriptor_proto]
    methods = [m.name for f in files for s in f.service if s.name == "Recurrent" for m in s.method]
    assert "Infer" in methods


def test_generic_caller(server):
    """client/examples/generic_call.py knows only the address."""
    script = wire.REPOSITORY / "client/examples/generic_call.py"
    done = subprocess.run([sys.executable, script, server.address], capture_output=True, text=True, timeout=SECONDS,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert '"Y_h"' in done.stdout and '"engine"' in done.stdout, done.stdout


def test_streams_and_sessions_are_not_served_yet(server):
    stream = server.recurrent.Stream(iter([wire.recurrent_pb2.StreamRequest()]), timeout=SECONDS)
    with pytest.raises(grpc.RpcError) as error:
        next(stream)
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    from rnnserve.v1 import sessions_pb2
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    assert wire.refusal(sessions.Open, sessions_pb2.OpenRequest()).code == grpc.StatusCode.UNIMPLEMENTED


# The fields of a reply.


@pytest.mark.parametrize("engine", ["cpu", "reference", "auto", ""])
def test_reply_fields(server, engine):
    request = wire.request(_case(), engine=engine)
    request.request_id = "an id, ä"
    reply = server.recurrent.Infer(request)
    assert reply.request_id == "an id, ä"
    assert reply.engine == engine if engine in ("cpu", "reference") else reply.engine
    assert len(reply.fingerprint) == 64 and reply.largest_batch >= 2
    assert reply.compute_time.ToNanoseconds() > 0 and reply.queue_time.ToNanoseconds() >= 0
    assert [t.name for t in reply.outputs] == ["Y", "Y_h", "Y_c"]


def test_outputs_come_in_the_operators_order(server):
    reply = server.recurrent.Infer(wire.request(_case(), outputs=["Y_c", "Y"]))
    assert [t.name for t in reply.outputs] == ["Y", "Y_c"]


def test_y_is_left_out_by_default_where_output_sequence_is_0(server):
    """Section 4: versions that have the attribute."""
    case = _case()
    case.version = 1
    assert [t.name for t in server.recurrent.Infer(wire.request(case)).outputs] == ["Y_h", "Y_c"]
    assert [t.name for t in server.recurrent.Infer(wire.request(case, outputs=["Y"])).outputs] == ["Y"]
    assert [t.name for t in server.recurrent.Infer(wire.request(case.with_attributes(output_sequence=1))).outputs] == [
        "Y", "Y_h", "Y_c"]
    case.version, case.opset = None, 6
    assert [t.name for t in server.recurrent.Infer(wire.request(case)).outputs] == ["Y_h", "Y_c"]


def test_a_request_read_otherwise_elsewhere_is_answered_with_a_warning(server):
    case = _case(activations=["Elu", "Tanh", "Tanh"], activation_alpha=[0.5, 0.6, 0.7])
    assert any("activation_alpha" in w for w in server.recurrent.Infer(wire.request(case)).warnings)
    assert not server.recurrent.Infer(wire.request(_case())).warnings


@pytest.mark.parametrize("steps, rows, inputs", [(0, 2, 3), (4, 0, 3), (4, 2, 0), (0, 0, 0)])
def test_zero_sizes(server, steps, rows, inputs):
    """Section 12."""
    case = _case()
    rng = np.random.default_rng(3)
    case = case.changed(X=rng.standard_normal((steps, rows, inputs)).astype(np.float32),
                        W=rng.standard_normal((1, 20, inputs)).astype(np.float32))
    case.tensors["initial_h"] = rng.standard_normal((1, rows, 5)).astype(np.float32)
    for engine in ("cpu", "reference", ""):
        for state in ("zeros", "initial"):
            case.empty_row_state = state
            reply = server.recurrent.Infer(wire.request(case, engine=engine))
            assert not excess(wire.results(reply), formulas.run(case))[1]


def test_nan_in_padding_and_in_another_row_disturbs_nobody(server):
    case = _case(steps=5, rows=3)
    case.tensors["sequence_lens"] = np.array([5, 2, 5], np.int32)
    expected = formulas.run(case)
    dirty = case.changed()
    dirty.tensors["X"][2:, 1] = np.nan
    dirty.tensors["X"][1, 2] = np.nan
    for engine in ("cpu", "reference", ""):
        got = wire.results(server.recurrent.Infer(wire.request(dirty, engine=engine)))
        for name, value in got.items():
            rows = value.take([0, 1], axis=-2)
            assert not excess({name: rows}, {name: expected[name].take([0, 1], axis=-2)})[1]
        assert np.isnan(got["Y_h"][0, 2]).any()


def test_expired_deadline(server):
    case = _case(steps=2000, rows=8, hidden=64)
    failure = wire.refusal(server.recurrent.Infer, wire.request(case, engine="reference"), timeout=0.001)
    assert failure.code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert server.recurrent.Infer(wire.request(_case()), timeout=SECONDS).outputs


def test_cancelled_calls_leave_the_others_alone(server):
    request = wire.request(_case())
    reply = server.recurrent.Infer(request)
    long = wire.request(_case(steps=2000, rows=8, hidden=64), engine="reference")
    calls = [server.recurrent.Infer.future(long) for _ in range(20)]
    for call in calls:
        call.cancel()
    assert server.recurrent.Infer(request, timeout=SECONDS).outputs == reply.outputs


def test_the_same_bits_when_deterministic(server):
    """Whatever shares the batch: the same request among many others."""
    rng = np.random.default_rng(4)
    case = _case(steps=9, rows=5, inputs=17, hidden=33)
    request = wire.request(case, engine="cpu")
    request.options.deterministic = True
    alone = server.recurrent.Infer(request).outputs
    others = []
    for _ in range(40):
        other = wire.request(case.changed(X=rng.standard_normal(case.tensors["X"].shape).astype(np.float32)))
        others.append(server.recurrent.Infer.future(other))
        others.append(server.recurrent.Infer.future(request))
    for call in others[1::2]:
        assert call.result(timeout=SECONDS).outputs == alone
    for call in others[::2]:
        call.result(timeout=SECONDS)


def test_many_callers_at_once(server):
    """Each gets its own numbers."""
    failures = []

    def caller(seed):
        rng = np.random.default_rng([50, seed])
        for k in range(20):
            case = random_operators.draw_for_onnxruntime(rng, ("LSTM", "GRU", "RNN")[k % 3])
            exact = random_operators.tame(case)
            if exact is None:
                continue
            beyond = excess(wire.results(server.recurrent.Infer(wire.request(case), timeout=SECONDS)), exact)[1]
            if beyond:
                failures.append(f"{beyond}: {case}")

    threads = [threading.Thread(target=caller, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:5]


# The process.


@pytest.mark.parametrize("with_signal", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_with_0(with_signal):
    server = Server()
    assert server.recurrent.Infer(wire.request(_case())).outputs
    assert server.stop(with_signal) == 0


def test_health_turns_not_serving_and_calls_finish_on_sigterm():
    server = Server()
    watch = _health(server).Watch(health_pb2.HealthCheckRequest(service=""), timeout=SECONDS)
    assert next(watch).status == SERVING
    long = server.recurrent.Infer.future(wire.request(_case(steps=1500, rows=16, hidden=64), engine="reference"))
    reply = server.recurrent.Infer(wire.request(_case()))  # the server has read the long call by now or soon
    server.process.send_signal(signal.SIGTERM)
    assert next(watch).status == NOT_SERVING
    watch.cancel()
    try:
        assert long.result(timeout=SECONDS).outputs
    except grpc.RpcError as error:  # it came too late to be let in
        assert error.code() == grpc.StatusCode.UNAVAILABLE
    assert reply.outputs
    assert server.process.wait(timeout=SECONDS) == 0
    server.stop()


def test_a_port_in_use_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_to_end(f"--listen=127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stdout + done.stderr


def test_two_servers_do_not_share_a_port(server):
    assert run_to_end(f"--listen={server.address}").returncode == 1


def test_unix_socket(tmp_path):
    running = Server(listen=f"127.0.0.1:0,unix:{tmp_path}/s")
    try:
        channel = wire.channel(f"unix:{tmp_path}/s")
        assert wire.recurrent_grpc.RecurrentStub(channel).Infer(wire.request(_case()), timeout=SECONDS).outputs
        channel.close()
    finally:
        assert running.stop() == 0


@pytest.mark.parametrize("flag", ["--workers=-1", "--max_message_bytes=0", "--log_level=loud", "--no_such_flag=1",
                                  "--listen=", "--listen=nowhere.invalid:1", "rest"])
def test_a_wrong_flag_is_told(flag):
    done = run_to_end("--listen=127.0.0.1:0", flag)
    assert done.returncode == 1
    name = flag.lstrip("-").split("=")[0]
    assert name in done.stdout + done.stderr or "nowhere.invalid" in done.stdout + done.stderr


def test_models_folder_that_is_not_there(tmp_path):
    """The server starts, and says so in its list."""
    running = Server(f"--models={tmp_path}/nothing")
    try:
        failures = running.models.List(wire.models_pb2.ListModelsRequest()).failures
        assert len(failures) == 1 and "nothing" in failures[0].path
    finally:
        assert running.stop() == 0


def test_help_and_version():
    done = run_to_end("--help")
    assert "--listen" in done.stdout and "Exit codes" in done.stdout
    assert run_to_end("--version").returncode == 0
