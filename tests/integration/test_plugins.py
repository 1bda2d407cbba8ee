# SPDX-License-Identifier: Apache-2.0
"""Engines from shared libraries: what the log, health and metrics say of them, and who serves once a device fails."""

from __future__ import annotations

import os

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import wire
from server_process import Server, run_to_end
from test_admin import _metrics
from test_service import SECONDS, _case

PLUGIN = os.environ.get("RNNSERVE_FAKE_PLUGIN_LIBRARY") or str(
    wire.REPOSITORY / "build/release/tests/engine/plugin/fake_plugin.so")
# The real one, over the real CUDA runtime, and a driver that will not do.
CUDA = os.environ.get("RNNSERVE_CUDA_LIBRARY") or str(wire.REPOSITORY / "build/release/engine/cuda/librnnserve_cuda.so")
FAKE_DRIVER = os.environ.get("RNNSERVE_FAKE_CUDA_DRIVER") or str(
    wire.REPOSITORY / "build/release/tests/engine/cuda/driver")


def _infer(server, engine):
    return server.recurrent.Infer(wire.request(_case(), engine=engine), timeout=SECONDS)


def _refusal(server, engine):
    return wire.refusal(server.recurrent.Infer, wire.request(_case(), engine=engine), timeout=SECONDS).code


def _health(server, service):
    stub = health_pb2_grpc.HealthStub(server.channel)
    return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=SECONDS).status


@pytest.fixture
def serve():
    """Servers with flags and a fault of the plugin."""
    running = []

    def start(*flags, fault="", **environment):
        running.append(Server(*flags, environment={"RNNSERVE_FAKE_PLUGIN": fault, **environment}))
        return running[-1]

    yield start
    for server in running:
        assert server.stop() == 0, "the server did not leave with status 0 on SIGTERM"


def test_a_plugin_serves(serve):
    server = serve(f"--plugin={PLUGIN}")
    reply = _infer(server, "fake")
    assert reply.engine == "fake"
    other = _infer(server, "reference")
    for got, want in zip(reply.outputs, other.outputs, strict=True):
        assert wire.array(got) == pytest.approx(wire.array(want), abs=1e-5)
    assert _health(server, "engine/fake") == health_pb2.HealthCheckResponse.SERVING
    samples = _metrics(server)
    assert samples['rnnserve_engine_in_service{engine="fake"}'] == 1
    assert samples['rnnserve_device_memory_bytes{engine="fake",kind="limit"}'] == 1 << 20
    assert "Fake device, driver 1.2, may use 1 of 1 MiB" in server.log()


def test_a_failed_device_is_told_and_the_cpu_serves(serve):
    server = serve(f"--plugin={PLUGIN}", fault="device_lost")
    assert _refusal(server, "fake") == grpc.StatusCode.UNAVAILABLE
    for _ in range(3):
        assert _infer(server, "auto").engine not in ("", "fake")
    assert _refusal(server, "fake") == grpc.StatusCode.UNAVAILABLE
    assert _health(server, "engine/fake") == health_pb2.HealthCheckResponse.NOT_SERVING
    assert _health(server, "engine/cpu") == _health(server, "") == health_pb2.HealthCheckResponse.SERVING
    samples = _metrics(server)
    assert samples['rnnserve_engine_in_service{engine="fake"}'] == 0
    assert samples['rnnserve_engine_in_service{engine="cpu"}'] == 1
    told = [line for line in server.log().splitlines() if "is out of service until" in line]
    assert len(told) == 1 and "the fake device fell off the bus" in told[0]


@pytest.mark.parametrize("plugin,fault,words", [
    (PLUGIN, "version", "it speaks version 2 of the engine ABI, expected 1"),
    (PLUGIN, "open", "there is no fake device"),
    ("/nowhere/librnnserve_cuda.so", "", "cannot be loaded"),
])
def test_a_plugin_that_cannot_serve_costs_one_line(serve, plugin, fault, words):
    server = serve(f"--plugin={plugin}", fault=fault)
    assert _infer(server, "auto").engine != ""
    told = [line for line in server.log().splitlines() if plugin in line]
    assert len(told) == 1 and words in told[0] and told[0].endswith("; serving without it")
    assert _refusal(server, "fake") == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("environment,words", [
    ({}, "no NVIDIA driver is installed here"),
    ({"LD_LIBRARY_PATH": FAKE_DRIVER, "FAKE_CUDA_DRIVER_VERSION": "12040"}, "the NVIDIA driver here is for CUDA 12.4"),
    ({"LD_LIBRARY_PATH": FAKE_DRIVER}, "the NVIDIA driver finds no device"),
], ids=["no_driver", "old_driver", "no_device"])
def test_the_cuda_plugin_without_a_device_costs_one_line(serve, environment, words):
    if not os.path.exists(CUDA):
        pytest.skip(f"{CUDA} is not built here: no CUDA toolkit")
    server = serve(f"--plugin={CUDA}", **environment)
    told = [line for line in server.log().splitlines() if CUDA in line]
    if not environment and words not in told[0]:
        pytest.skip(f"there is a driver here: {told[0]}")
    assert len(told) == 1 and words in told[0] and told[0].endswith("; serving without it")
    assert _infer(server, "auto").engine not in ("", "cuda")
    assert _health(server, "") == health_pb2.HealthCheckResponse.SERVING
    assert _refusal(server, "cuda") == grpc.StatusCode.INVALID_ARGUMENT


def test_flags_that_cannot_be():
    for flag in ["--plugin_memory_bytes=-1"]:
        done = run_to_end("--listen=127.0.0.1:0", flag)
        assert done.returncode == 1 and "expected at least 0" in done.stderr
