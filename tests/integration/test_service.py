# SPDX-License-Identifier: Apache-2.0
"""What is served beside the numbers: health, reflection, the process's start and end."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_database, descriptor_pb2, descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

import random_operators
import wire
from operators import WEIGHTS, Case
from server_process import Server, run_to_end

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


def _reflect(server, package, **request):
    """The two packages have the same messages; grpcio-reflection has the older one alone."""
    call = server.channel.stream_stream(f"/{package}.ServerReflection/ServerReflectionInfo",
                                        reflection_pb2.ServerReflectionRequest.SerializeToString,
                                        reflection_pb2.ServerReflectionResponse.FromString)
    return next(call(iter([reflection_pb2.ServerReflectionRequest(**request)]), timeout=SECONDS))


@pytest.mark.parametrize("package", ["grpc.reflection.v1", "grpc.reflection.v1alpha"])
def test_reflection_lists_and_describes_what_is_served(server, package):
    names = {s.name for s in _reflect(server, package, list_services="").list_services_response.service}
    assert names == {"rnnserve.v1.Recurrent", "rnnserve.v1.Models", "rnnserve.v1.Sessions",
                     "inference.GRPCInferenceService", "grpc.health.v1.Health",
                     "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}
    for name in names:
        answer = _reflect(server, package, file_containing_symbol=name)
        assert not answer.HasField("error_response"), f"{name}: {answer.error_response}"
        files = descriptor_database.DescriptorDatabase()
        for file in answer.file_descriptor_response.file_descriptor_proto:
            files.Add(descriptor_pb2.FileDescriptorProto.FromString(file))
        assert descriptor_pool.DescriptorPool(files).FindServiceByName(name).methods, name


def test_generic_caller(server):
    """client/examples/generic_call.py knows only the address."""
    script = wire.REPOSITORY / "client/examples/generic_call.py"
    done = subprocess.run([sys.executable, script, server.address], capture_output=True, text=True, timeout=SECONDS,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert '"Y_h"' in done.stdout and '"engine"' in done.stdout, done.stdout


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


@pytest.mark.parametrize("flag", ["--workers=-1", "--max_message_bytes=0", "--log_level=loud", "--log_format=xml", "--no_such_flag=1",
                                  "--listen=", "--listen=nowhere.invalid:1", "--listen=127.0.0.1:99999",
                                  "--listen=localhost", "--max_call_duration=0s", "--drain_timeout=-1s", "rest"])
def test_a_wrong_flag_is_told(flag):
    done = run_to_end("--listen=127.0.0.1:0", flag)
    assert done.returncode == 1
    name = flag.lstrip("-").split("=")[0]
    assert name in done.stdout + done.stderr or "nowhere.invalid" in done.stdout + done.stderr


def test_help_and_version():
    done = run_to_end("--help")
    assert done.returncode == 0 and "--listen=0.0.0.0:50051" in done.stdout and "Exit codes" in done.stdout
    assert run_to_end("--version").returncode == 0
