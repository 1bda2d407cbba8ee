# SPDX-License-Identifier: Apache-2.0
"""A device that fails for good while it serves: sessions on it are told DATA_LOSS, all else goes on without it.

Each test runs on the fake plugin and, where the toolkit's headers were there to build it, on the whole cuda plugin over
its fake device. A file that the test makes is what the device dies of.
"""

from __future__ import annotations

import dataclasses
import os

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import wire
from server_process import Server
from session_calls import Sessions, Stream, chunk, open_request, operation
from test_admin import _metrics
from test_routing import _lstm
from test_service import SECONDS

pb = wire.sessions_pb2
Code = grpc.StatusCode
Serving = health_pb2.HealthCheckResponse

_BUILT = wire.REPOSITORY / "build/release/tests/engine"


@dataclasses.dataclass(frozen=True)
class Device:
    engine: str
    library: str
    environment: dict[str, str]
    trigger: str  # the variable that names the file
    reason: str  # part of it

    def __str__(self):
        return self.engine


FAKE = Device("fake", os.environ.get("RNNSERVE_FAKE_PLUGIN_LIBRARY") or str(_BUILT / "plugin/fake_plugin.so"),
              {"RNNSERVE_FAKE_PLUGIN": "device_lost_later"}, "RNNSERVE_FAKE_PLUGIN_TRIGGER", "fell off the bus")
CUDA = Device("cuda",
              os.environ.get("RNNSERVE_FAKE_CUDA_LIBRARY") or str(_BUILT / "cuda/fake_cuda/fake_cuda_plugin.so"), {},
              "FAKE_CUDA_TRIGGER", "cudaErrorIllegalAddress")


class DyingServer(Server):
    """A server with a device in it, until `kill_device`."""

    def __init__(self, device, folder, *flags):
        self._file = folder / "device-is-dead"
        self.device = device
        # No client can fetch lost sessions, and hold up the leaving.
        super().__init__(f"--plugin={device.library}", "--drain_timeout=1s", *flags,
                         environment={**device.environment, device.trigger: str(self._file)})

    def kill_device(self):
        self._file.touch()

    def infer(self, engine=""):
        return self.recurrent.Infer(wire.request(_lstm(), engine=engine), timeout=SECONDS)

    def health(self, service):
        stub = health_pb2_grpc.HealthStub(self.channel)
        return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=SECONDS).status

    def failures_in_log(self):
        return [line for line in self.log().splitlines() if "is out of service until" in line]


@pytest.fixture(params=[FAKE, CUDA], ids=str)
def start(request, tmp_path):
    if not os.path.exists(request.param.library):
        pytest.skip(f"{request.param.library} is not built here: no CUDA toolkit, whose headers it needs")
    running = []

    def serve(*flags):
        running.append(DyingServer(request.param, tmp_path, *flags))
        return running[-1]

    yield serve
    for server in running:
        assert server.stop() == 0, "the server did not leave with status 0 on SIGTERM"


@pytest.fixture
def server(start):
    return start()


def _lost(call, *arguments, **keywords):
    failure = wire.refusal(call, *arguments, **keywords)
    assert failure.code == Code.DATA_LOSS, failure
    assert failure.reasons == ["SESSION_LOST"], failure
    return failure


def test_sessions_on_the_device_are_lost_and_the_others_go_on(server, sessions):
    name = server.device.engine
    on_device = sessions.open(engine=name)
    assert sessions.feed(on_device, 1, [1, 2, 3]).engine == name
    first = sessions.feed(on_device, 2, [4])
    fork = sessions.fork(on_device).sessions[0]
    sessions.checkpoint(on_device, "four")
    state = sessions.state(on_device)
    unused = sessions.open(engine=name)
    # A state that has come and not been computed with: it has not been on the device.
    imported = sessions.open(engine=name, state=state.state)
    elsewhere = sessions.open(engine="cpu")
    sessions.feed(elsewhere, 1, [7])

    server.kill_device()
    failure = _lost(sessions.feed, on_device, 3, [5])
    assert failure.infos[0].metadata["next_expected"] == "3", "nothing was applied"
    assert _metrics(server)['rnnserve_sessions_total{model="(inline)",event="lost"}'] == 1
    _lost(sessions.feed, on_device, 3, [5])
    again = sessions.feed(on_device, 2, [4])
    assert again.repeated_reply and again.outputs == first.outputs, "what was answered is still answered"
    for session in (on_device, fork):
        _lost(sessions.state, session)
    _lost(sessions.feed, fork, 3, [5])
    for change in ({"reset": pb.Reset()}, {"rewind": pb.Rewind(checkpoint="four")},
                   {"set_state": pb.SetState(state=state.state, fingerprint=state.fingerprint)},
                   {"close": pb.Close(return_state=True)}):
        _lost(sessions.apply, on_device, 3, **change)
    _lost(sessions.open, state_of_session=on_device)
    told = _lost(sessions.feed, unused, 1, [1])
    assert f'engine "{name}"' in str(told) and server.device.reason in str(told) and "open a new session" in str(told)
    _lost(sessions.feed, imported, 1, [5])

    # What had not got to the device can be read, and goes on elsewhere; so does a client that kept a state.
    for source in ({"state": sessions.state(imported).state}, {"state": state.state}, {"state_of_session": imported}):
        moved = sessions.open(**source)
        assert sessions.feed(moved, 1, [5]).engine != name
        assert sessions.log(moved) == [1, 2, 3, 4, 5]
    assert sessions.feed(sessions.open(), 1, [1]).engine != name
    sessions.feed(elsewhere, 2, [8])
    assert sessions.log(elsewhere) == [7, 8]
    refused = wire.refusal(sessions.stub.Open, open_request(engine=name))
    assert refused.code == Code.UNAVAILABLE and "out of service" in str(refused)
    assert refused.reasons == ["ENGINE_OUT_OF_SERVICE"] and "google.rpc.RetryInfo" not in refused.detail_types
    # Giving up a lost session is no error.
    sessions.apply(on_device, 3, close=pb.Close())

    assert server.health(f"engine/{name}") == Serving.NOT_SERVING
    assert server.health("engine/cpu") == server.health("") == Serving.SERVING
    samples = _metrics(server)
    assert samples[f'rnnserve_engine_in_service{{engine="{name}"}}'] == 0
    assert samples['rnnserve_engine_in_service{engine="cpu"}'] == 1
    assert len(server.failures_in_log()) == 1 and server.device.reason in server.failures_in_log()[0]


def test_on_a_stream_the_first_is_lost_and_what_follows_is_not_computed(server, sessions):
    name = server.device.engine
    stream = Stream(sessions)
    session, other = sessions.open(engine=name), sessions.open(engine="cpu")
    stream.send(operation(session, 1, **chunk([1, 2])))
    assert stream.receive().engine == name
    server.kill_device()
    stream.send(operation(session, 2, **chunk([3])), operation(session, 3, **chunk([4])),
                operation(other, 1, **chunk([5])))
    replies = stream.receive_many(3)
    codes = sorted(reply.status.code for reply in replies)
    lost, aborted = Code.DATA_LOSS.value[0], Code.ABORTED.value[0]
    # The third may come after the second has failed, and is then judged by itself.
    assert codes in ([0, aborted, lost], [0, Code.OUT_OF_RANGE.value[0], lost]), replies
    assert stream.end() == []


def test_calls_without_a_session_go_to_the_cpu(start):
    server = start("--engine=cpu")
    name = server.device.engine
    before = wire.results(server.infer(name))
    server.kill_device()
    first = wire.refusal(server.infer, name)
    assert first.code == Code.UNAVAILABLE and "send it again" in str(first)
    for engine in ("", "auto", "auto"):
        reply = server.infer(engine)
        assert reply.engine != name
        for output, values in wire.results(reply).items():
            np.testing.assert_allclose(values, before[output], atol=1e-5)
    refused = wire.refusal(server.infer, name)
    assert refused.code == Code.UNAVAILABLE and "out of service" in str(refused)


def test_a_server_whose_own_engine_fails_serves_on(start, request):
    name = request.node.callspec.params["start"].engine
    server = start(f"--engine={name}")
    sessions = Sessions(server.address)
    assert server.infer().engine == name
    session = sessions.open()
    assert sessions.feed(session, 1, [1]).engine == name
    server.kill_device()
    first = wire.refusal(server.infer)
    assert first.code == Code.UNAVAILABLE and "send it again" in str(first)
    assert server.infer().engine not in ("", name)
    _lost(sessions.feed, session, 2, [2])
    # One opened alike: nothing of what the lost one ran on is used again.
    another = sessions.open()
    assert sessions.feed(another, 1, [1]).engine not in ("", name)
    assert sessions.log(another) == [1]
    sessions.close()


def test_a_device_that_dies_in_a_trial_costs_no_call(start):
    server = start("--log_level=debug")
    server.kill_device()
    assert server.infer("auto").engine not in ("", server.device.engine)
    assert len(server.failures_in_log()) == 1


def test_auto_measures_the_device_among_the_others(start):
    server = start("--log_level=debug")
    name = server.device.engine
    assert server.infer("auto").engine != ""
    trials = [line for line in server.log().splitlines() if "routing: LSTM of 8 to 16 in float32, 4 rows" in line]
    assert trials and f" {name} " in trials[0] and " cpu " in trials[0], server.log()


def test_verify_compares_the_device_with_the_cpu(start, request):
    name = request.node.callspec.params["start"].engine
    server = start(f"--engine={name}", "--verify_share=1")
    assert server.infer().engine == name
    samples = _metrics(server)
    assert samples['rnnserve_verified_total{outcome="agreed"}'] == 1
    assert samples["rnnserve_verify_largest_difference"] < 1e-5
    server.kill_device()
    assert wire.refusal(server.infer).code == Code.UNAVAILABLE
    assert server.infer().engine != name
