# SPDX-License-Identifier: Apache-2.0
"""Leaving in good order: who is told, who is still served, how long it takes, and the exit code."""

from __future__ import annotations

import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import subprocess

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2

import repository_files
import wire
from server_process import BINARY, STOP_SECONDS, Server, run_to_end
from test_service import NOT_SERVING, SECONDS, SERVING, _case, _health, _load

FOREVER = "--drain_timeout=1h"


def _watch(server, name=""):
    watch = _health(server).Watch(health_pb2.HealthCheckRequest(service=name), timeout=SECONDS)
    assert next(watch).status == SERVING
    return watch


def _long_call(server):
    """A call that runs until it is cancelled, for all this test cares; it is inside when this returns."""
    request = wire.request(_case(steps=20000, rows=64, hidden=128), engine="reference")
    request.outputs.append("Y_h")
    long = server.recurrent.Infer.future(request)
    while _gauge(server, "rnnserve_queue_sequences") < 1:  # in flight is sooner: a large message is still to be parsed
        assert not long.done(), long.exception()
    return long


def _gauge(server, name) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))


def test_calls_are_served_during_the_delay_and_watchers_know():
    server = Server("--drain_delay=1h", FOREVER)
    _load(server, "watched")
    watches = [_watch(server, name) for name in ["", "rnnserve.v1.Recurrent", "rnnserve.v1.Models", "watched"]]
    server.process.send_signal(signal.SIGTERM)
    for watch in watches:
        assert next(watch).status == NOT_SERVING
        watch.cancel()
    assert server.recurrent.Infer(wire.request(_case()), timeout=SECONDS).outputs
    _load(server, "late")
    check = _health(server).Check(health_pb2.HealthCheckRequest(service="watched"), timeout=SECONDS)
    assert check.status == NOT_SERVING
    server.process.send_signal(signal.SIGTERM)  # skips the wait
    assert server.process.wait(timeout=SECONDS) == 0
    server.stop()


def test_new_calls_are_told_to_go_elsewhere_and_old_ones_finish():
    server = Server(FOREVER)
    long = _long_call(server)
    watch = _watch(server)
    server.process.send_signal(signal.SIGTERM)
    assert next(watch).status == NOT_SERVING
    watch.cancel()
    failure = None
    while failure is None:  # between the news and the refusals calls are still served
        try:
            server.recurrent.Infer(wire.request(_case()), timeout=SECONDS)
        except grpc.RpcError as error:
            failure = error
    assert failure.code() == grpc.StatusCode.UNAVAILABLE
    trailers = dict(failure.trailing_metadata())
    assert int(trailers["grpc-retry-pushback-ms"]) > 0
    assert error_details_pb2.RetryInfo.DESCRIPTOR.full_name.encode() in trailers["grpc-status-details-bin"]
    assert not long.done(), "it goes on"
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=SECONDS) == 0
    assert long.exception().code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    server.stop()


def test_the_timeout_ends_what_is_left():
    server = Server("--drain_timeout=100ms")
    long = _long_call(server)
    assert server.stop() == 0
    assert long.exception().code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def test_the_delay_is_part_of_the_timeout():
    assert Server("--drain_delay=1h", "--drain_timeout=100ms").stop() == 0


def test_a_request_to_read_files_again_ends_nothing():
    server = Server()
    server.process.send_signal(signal.SIGHUP)
    assert server.recurrent.Infer(wire.request(_case()), timeout=SECONDS).outputs
    assert server.stop() == 0


def test_healthcheck():
    server = Server("--drain_delay=1h", FOREVER)
    admin = f"--admin_listen=127.0.0.1:{server.admin_port}"
    assert run_to_end("healthcheck", admin).returncode == 0
    assert run_to_end("healthcheck", "", admin).returncode == 0
    assert run_to_end("healthcheck", "ready", admin).returncode == 0
    watch = _watch(server)
    server.process.send_signal(signal.SIGTERM)
    assert next(watch).status == NOT_SERVING
    watch.cancel()
    assert run_to_end("healthcheck", admin).returncode == 0
    done = run_to_end("healthcheck", "ready", admin)
    assert done.returncode == 1 and "503" in done.stdout
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=SECONDS) == 0
    assert run_to_end("healthcheck", admin).returncode == 1
    server.stop()


def _healthcheck(binary, *flags):
    """Its exit code and what it says."""
    done = subprocess.run([binary, "healthcheck", *flags], capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode, done.stdout.strip()


@pytest.fixture
def alone(tmp_path):
    """A copy of the program: servers of the same program are told apart from those of other tests."""
    return shutil.copy(BINARY, tmp_path / "rnnserve")


def test_healthcheck_finds_the_port_that_the_server_has(alone, tmp_path):
    """As the image's HEALTHCHECK, which knows none of the flags that follow the image's name."""
    config = tmp_path / "rnnserve.textproto"
    config.write_text('admin_listen: "127.0.0.1:0"\n')
    for flags in [[], [f"--config={config}"]]:
        server = Server("--drain_timeout=100ms", *flags, admin_listen="127.0.0.1:0", binary=alone)
        assert server.admin_port != 9464
        for words in [[], ["ready"], [f"--config={config}"], ["--admin_listen=0.0.0.0:0"]]:
            assert _healthcheck(alone, *words) == (0, "ok"), words
        second = Server("--drain_timeout=100ms", binary=alone)
        code, told = _healthcheck(alone)
        assert code == 1 and all(f"process {one.process.pid} at 127.0.0.1:{one.admin_port}" in told
                                 for one in (server, second)) and "--admin_listen" in told
        assert _healthcheck(alone, f"--admin_listen=127.0.0.1:{second.admin_port}") == (0, "ok")
        assert second.stop() == 0
        assert server.stop() == 0
        assert _healthcheck(alone, "--admin_listen=0.0.0.0:0")[0] == 1


def test_healthcheck_of_a_server_without_an_admin_port(alone):
    server = Server("--drain_timeout=100ms", admin_listen="", binary=alone)
    code, told = _healthcheck(alone)
    assert code == 1 and f"process {server.process.pid}, has no admin port" in told and "--admin_listen" in told
    assert server.stop() == 0


@pytest.mark.parametrize("arguments", [["healthcheck", "--admin_listen="], ["healthcheck", "well"],
                                       ["healthcheck", "twice"]])
def test_a_wrong_healthcheck_is_told(arguments):
    assert run_to_end(*arguments).returncode == 1


def _takes_signals(process) -> bool:
    """Whether it has come to where SIGTERM is not the end of it any more. While a thread is made, all are blocked."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    blocked = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk:"))
    return bool(blocked >> signal.SIGTERM - 1 & 1) and not blocked >> signal.SIGUSR1 - 1 & 1


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_start_is_left_at_once(tmp_path, told):
    """A thousand models of 4 MiB take seconds to read."""
    first = repository_files.write(tmp_path / "m000" / "1", repository_files.model(_case(hidden=512), opset=14))
    for k in range(1, 1000):
        folder = tmp_path / f"m{k:03}" / "1"
        folder.mkdir(parents=True)
        os.link(first, folder / "model.onnx")
    process = subprocess.Popen([BINARY, "--listen=127.0.0.1:0", "--admin_listen=", f"--models={tmp_path}",
                                f"--port_file={tmp_path}/port"], stderr=subprocess.PIPE, text=True)
    while not _takes_signals(process):
        assert process.poll() is None
    process.send_signal(told)
    _, log = process.communicate(timeout=STOP_SECONDS)
    assert process.returncode == 0
    assert "told to leave before anything was served" in log and "model m" not in log and "listening" not in log
    assert not (tmp_path / "port").exists()
