# SPDX-License-Identifier: Apache-2.0
"""rnnctl stream, and through it the C++ RnnStream: files, standard input, real time; servers that leave and that are
killed, connections that are cut. The cell remembers everything, so each line of output tells all that was applied."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import wave

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import wire
from server_process import Server
from session_calls import Sessions, remembering_weights
from test_admin import _metrics

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "client/sessions"))
from cutting_proxy import CuttingProxy  # noqa: E402  (that of the Python client's tests)

RNNCTL = pathlib.Path(os.environ.get("RNNSERVE_RNNCTL") or wire.REPOSITORY / "build/release/client/rnnctl/rnnctl")
H = 128  # remembers so many steps


def rnnctl(*words, **options) -> subprocess.CompletedProcess:
    return subprocess.run([RNNCTL, *map(str, words)], capture_output=True, timeout=120, check=False, **options)


def well(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def server():
    """In place of conftest's: some tests leave a session behind, for which a leaving server waits."""
    running = Server("--drain_timeout=1s")
    yield running
    assert running.alive(), f"the server died:\n{running.log()}"
    assert running.stop() == 0


@pytest.fixture(scope="module")
def cell(tmp_path_factory) -> list[str]:
    """Flags that say what to run: the remembering cell, inline, so that any server takes it."""
    folder = tmp_path_factory.mktemp("cell")
    for tensor in remembering_weights(H):
        np.save(folder / f"{tensor.name}.npy", wire.array(tensor))
    return ["--op=RNN", "--op-version=14", f"--attr=hidden_size={H}", "--attr=activations=Affine",
            "--attr=activation_alpha=1", "--attr=activation_beta=0", f"--tensor=W={folder}/W.npy",
            f"--tensor=R={folder}/R.npy"]


def values(message, name="Y_h") -> np.ndarray:
    (tensor,) = [output for output in message["outputs"] if output["name"] == name]
    return np.array(tensor["float_data"], np.float32).reshape([int(n) for n in tensor["shape"]])


def tape(message) -> list[float]:
    """What had been applied when this was answered, the oldest first."""
    slots = list(values(message).ravel())
    while slots and slots[-1] == 0:
        slots.pop()
    return [float(value) for value in reversed(slots)]


class Fed:
    """An rnnctl stream that is fed by hand, a step at a time."""

    def __init__(self, servers: str, cell, *flags):
        self.process = subprocess.Popen(
            [RNNCTL, "stream", "--format=raw", *cell, "--json", "--chunk=1", "--outputs=Y_h", f"--server={servers}", *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.fed: list[float] = []
        self.seen = 0

    def feed(self, count):
        first = len(self.fed) + 1
        self.fed += [float(value) for value in range(first, first + count)]
        self.process.stdin.write(np.array(self.fed[first - 1:], np.float32).tobytes())
        self.process.stdin.flush()

    def check(self, count):
        """So many more answers, each of which has everything before it, once, in order."""
        for _ in range(count):
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read().decode()
            message = json.loads(line)
            self.seen += 1
            assert tape(message) == self.fed[:self.seen]
            assert int(message["number"]) == self.seen and int(message["position"]) == self.seen

    def end(self) -> dict:
        self.process.stdin.close()
        self.check(len(self.fed) - self.seen)
        summary = json.loads(self.process.stdout.readline())["summary"]
        assert self.process.wait(timeout=60) == 0, self.process.stderr.read().decode()
        assert summary["chunks"] == len(self.fed)
        return summary

    def failure(self) -> str:
        """It gave up."""
        self.process.stdin.close()
        rest = [json.loads(line) for line in self.process.stdout]
        assert not rest, rest
        assert self.process.wait(timeout=60) == 1
        return self.process.stderr.read().decode()


# --- nothing goes wrong


@pytest.fixture(scope="module")
def lstm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lstm")
    random = np.random.default_rng(1)
    np.save(folder / "x.npy", random.standard_normal((37, 2, 3), dtype=np.float32))
    np.save(folder / "W.npy", random.standard_normal((1, 20, 3), dtype=np.float32) / 2)
    np.save(folder / "R.npy", random.standard_normal((1, 20, 5), dtype=np.float32) / 2)
    return folder


def lstm_flags(folder, *attributes):
    return ["--op=LSTM", "--opset=14", f"--tensor=W={folder}/W.npy", f"--tensor=R={folder}/R.npy", "--engine=reference",
            *attributes]


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_chunks_make_the_whole(server, lstm, tmp_path, chunk):
    flags = [*lstm_flags(lstm), f"--server={server.address}"]
    well(rnnctl("infer", *flags, f"--tensor=X={lstm}/x.npy", f"--out={tmp_path}/whole"))
    text = well(rnnctl("stream", lstm / "x.npy", *flags, f"--chunk={chunk}", f"--out={tmp_path}/parts"))
    assert "Y_h[1, 2, 5]" in text and "37 steps" in text
    for name in ("Y", "Y_h", "Y_c"):
        np.testing.assert_array_equal(np.load(tmp_path / f"whole/{name}.npy"), np.load(tmp_path / f"parts/{name}.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "parts/initial_c.npy"), np.load(tmp_path / "whole/Y_c.npy"))


def test_batch_first_and_a_model_and_the_state_goes_on(server, lstm, tmp_path):
    flags = ["--engine=reference", f"--server={server.address}"]
    well(rnnctl("models", "load", "batch-first", *lstm_flags(lstm, "--attr=layout=1"), f"--server={server.address}"))
    x = np.load(lstm / "x.npy").swapaxes(0, 1)
    for name, part in (("all", x), ("first", x[:, :20]), ("rest", x[:, 20:])):
        np.save(tmp_path / f"{name}.npy", np.ascontiguousarray(part))
    well(rnnctl("stream", tmp_path / "all.npy", "--model=batch-first", *flags, f"--out={tmp_path}/all"))
    well(rnnctl("stream", tmp_path / "first.npy", "--model=batch-first", *flags, f"--out={tmp_path}/1"))
    well(rnnctl("stream", tmp_path / "rest.npy", "--model=batch-first", *flags, f"--out={tmp_path}/2",
                f"--tensor=initial_h={tmp_path}/1/initial_h.npy", f"--tensor=initial_c={tmp_path}/1/initial_c.npy"))
    whole, parts = (np.load(tmp_path / "all/Y.npy"),
                    np.concatenate([np.load(tmp_path / f"{n}/Y.npy") for n in (1, 2)], axis=1))
    np.testing.assert_array_equal(whole, parts)


def test_tokens_of_a_whole_model(server, tmp_path):
    random = np.random.default_rng(2)
    weights = {"embedding": (9, 3), "W": (1, 5, 3), "R": (1, 5, 5)}
    nodes = [helper.make_node("Gather", ["embedding", "tokens"], ["embedded"]),
             helper.make_node("RNN", ["embedded", "W", "R"], ["Y"], hidden_size=5, layout=1)]
    graph = helper.make_graph(
        nodes, "tagger", [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["N", "T"])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["N", "T", 1, 5])],
        [numpy_helper.from_array(random.standard_normal(shape).astype("f"), name) for name, shape in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]), tmp_path / "tagger.onnx")
    tokens = random.integers(0, 9, (2, 11))
    np.save(tmp_path / "tokens.npy", tokens)
    flags = ["--engine=reference", f"--server={server.address}"]
    well(rnnctl("models", "load", "tagger", tmp_path / "tagger.onnx", f"--server={server.address}"))
    well(rnnctl("infer", "--model=tagger", *flags, f"--tensor=tokens={tmp_path}/tokens.npy", f"--out={tmp_path}/whole"))
    well(rnnctl("stream", tmp_path / "tokens.npy", "--model=tagger", *flags, "--chunk=4", f"--out={tmp_path}/parts"))
    np.testing.assert_array_equal(np.load(tmp_path / "whole/Y.npy"), np.load(tmp_path / "parts/Y.npy"))


def test_standard_input_is_npy_or_raw_and_so_is_the_output(server, lstm):
    flags = [*lstm_flags(lstm), f"--server={server.address}", "--outputs=Y", "--out=-"]
    npy = rnnctl("stream", *flags, input=(lstm / "x.npy").read_bytes())
    raw = rnnctl("stream", "-", "--format=raw", "--rows=2", *flags, input=np.load(lstm / "x.npy").tobytes())
    assert npy.returncode == raw.returncode == 0, raw.stderr
    assert npy.stdout == raw.stdout and len(raw.stdout) == 37 * 2 * 5 * 4
    assert b"37 steps" in raw.stderr


@pytest.mark.parametrize("channels, rows, size", [(1, 1, None), (3, 1, None), (2, 2, None), (1, 1, 0x80000000)])
def test_a_wav_recording_is_read_as_samples(server, lstm, tmp_path, channels, rows, size):
    """16-bit PCM, as a file and through a pipe, with the size that arecord writes there; against the same samples as an
    array. Read with its header, as float32, the numbers were others."""
    pcm = np.random.default_rng(channels).integers(-2**15, 2**15, 240 * channels, np.int16)
    with wave.open(str(tmp_path / "x.wav"), "wb") as file:
        file.setparams((channels, 2, 16000, 0, "NONE", ""))
        file.writeframes(pcm.tobytes())
    recording = (tmp_path / "x.wav").read_bytes()
    if size:
        recording = recording[:40] + struct.pack("<I", size) + recording[44:]
    samples = (pcm / np.float32(2**15)).astype(np.float32)
    per_channel = samples.reshape(-1, channels)
    array = {(1, 1): samples.reshape(-1, 1, 3), (3, 1): per_channel.reshape(-1, 1, 3),
             (2, 2): per_channel.reshape(-1, 3, 2).swapaxes(1, 2)}[channels, rows]
    np.save(tmp_path / "x.npy", np.ascontiguousarray(array))
    flags = [*lstm_flags(lstm), f"--server={server.address}", "--outputs=Y", "--out=-"]
    expected = rnnctl("stream", tmp_path / "x.npy", *flags)
    assert expected.returncode == 0 and len(expected.stdout) == len(array) * rows * 5 * 4
    piped = rnnctl("stream", f"--rows={rows}", "--sample-rate=16000", *flags, input=recording)
    assert piped.stdout == expected.stdout, piped.stderr
    assert f"WAV, 16000 Hz, {channels} channel" in piped.stderr.decode()
    if not size:
        assert rnnctl("stream", tmp_path / "x.wav", f"--rows={rows}", *flags).stdout == expected.stdout
    mistake = rnnctl("stream", "--sample-rate=8000", f"--rows={rows}", *flags, input=recording)
    assert mistake.returncode == 2 and "--sample-rate" in mistake.stderr.decode() and not mistake.stdout
    if rows == 1:
        mistake = rnnctl("stream", "--realtime=16001", *flags, input=recording)
        assert mistake.returncode == 2 and "--realtime=wav" in mistake.stderr.decode() and not mistake.stdout


def test_real_time_keeps_its_pace(server, lstm):
    done = well(rnnctl("stream", lstm / "x.npy", *lstm_flags(lstm), "--chunk=10", "--realtime=100", "--json",
                       f"--server={server.address}"))
    summary = json.loads(done.splitlines()[-1])["summary"]
    assert summary["steps"] == 37 and summary["seconds"] >= 0.37 and summary["real_time_factor"] >= 1


@pytest.mark.parametrize("flags,code,text", [
    (["--model=no-such"], 1, "MODEL_UNKNOWN"),
    (["--chunk=0"], 2, "--chunk"),
    (["--realtime=fast"], 2, "--realtime"),
    (["--attach"], 2, "--name"),
    (["--format=raw", "--rows=2"], 2, "ends within a step"),
    (["--format=flac"], 2, "npy, wav or raw"),
    (["--rows=2"], 2, "--format=raw"),
    (["--realtime=wav", "--format=raw"], 2, "--realtime=wav"),
    (["--format=wav"], 2, "RIFF"),
])
def test_mistakes_are_told(server, lstm, flags, code, text):
    target = [] if "--model" in flags[0] else lstm_flags(lstm)
    done = rnnctl("stream", "-", *target, *flags, f"--server={server.address}", input=b"12345678" * 9 + b"12")
    assert done.returncode == code and text in done.stderr.decode(), done.stderr


def test_no_server(lstm):
    done = rnnctl("stream", lstm / "x.npy", *lstm_flags(lstm), "--server=127.0.0.1:1")
    assert done.returncode == 3, done.stderr


# --- something does


def test_an_interrupted_stream_closes_its_session(server, cell):
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    before = len(sessions.List(wire.sessions_pb2.ListSessionsRequest()).sessions)
    for signal_ in (signal.SIGINT, signal.SIGTERM):
        fed = Fed(server.address, cell)
        fed.feed(3)
        fed.check(3)
        fed.process.send_signal(signal_)
        assert json.loads(fed.process.stdout.readline())["summary"]["chunks"] == 3
        assert fed.process.wait(timeout=60) == 0, fed.process.stderr.read().decode()
        assert len(sessions.List(wire.sessions_pb2.ListSessionsRequest()).sessions) == before


def with_session_first(one, other):
    """Streams without a name are spread over the servers: the one that has the session, and the other."""
    table = well(rnnctl("sessions", "ls", f"--server={one.address}"))
    return (one, other) if len(table.splitlines()) > 1 else (other, one)


def test_a_server_that_leaves_hands_over(cell):
    old, new = Server("--drain_timeout=60s"), Server()
    fed = Fed(f"{old.address},{new.address}", cell)
    fed.feed(20)
    fed.check(20)
    old, new = with_session_first(old, new)
    old.process.send_signal(signal.SIGTERM)
    fed.feed(20)
    assert old.process.wait(timeout=30) == 0, "the state was fetched, so it need not wait"
    summary = fed.end()
    assert summary["hand_overs"] == 1 and summary["server"] == new.address
    old.stop()
    assert new.stop() == 0


def test_an_idle_stream_is_handed_over_too_and_to_the_same_address(cell):
    old = Server("--drain_timeout=60s")
    fed = Fed(old.address, cell)
    fed.feed(3)
    fed.check(3)
    old.process.send_signal(signal.SIGTERM)
    assert old.process.wait(timeout=30) == 0
    new = Server(listen=old.address)
    fed.feed(3)
    assert fed.end()["hand_overs"] == 1
    old.stop()
    assert new.stop() == 0


@pytest.mark.parametrize("seed", range(4))
def test_connections_cut_in_the_middle_of_messages(server, cell, seed):
    well(rnnctl("models", "load", "remember", *cell, f"--server={server.address}"))  # a short Open: cuts come later
    proxy = CuttingProxy(server.port, seed, cuts=12, least=4000, most=9000)
    fed = Fed(proxy.address, ["--model=remember"], f"--in-flight={1 + 3 * seed}")
    fed.feed(100)
    assert fed.end()["reconnects"] >= 3
    assert proxy.cut >= 3, "it was not cut"
    proxy.close()


def test_connections_that_have_reached_their_age(cell):
    server = Server("--max_connection_age=1s", "--max_call_duration=1s", "--drain_timeout=100ms")
    fed = Fed(server.address, cell)
    for handed_over in (0, 1, 2):
        while _metrics(server).get('rnnserve_requests_total{method="Recurrent.Stream",code="UNAVAILABLE"}', 0) < handed_over:
            assert server.alive()
        fed.feed(5)
        fed.check(5)
    assert fed.end()["reconnects"] >= 2
    assert server.stop() == 0


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_a_killed_server_is_survived_with_checkpoints(cell, every):
    first = Server()
    fed = Fed(first.address, cell, f"--checkpoint-every={every}")
    for boot in range(3):
        fed.feed(20)
        fed.check(15)  # the rest is on its way, or not
        first.process.kill()
        first.process.wait()
        first.stop()
        first = Server(listen=first.address)
        fed.feed(5)
        fed.check(10)
        assert fed.seen == 25 * (boot + 1)
    assert fed.end()["replays"] == 3
    assert first.stop() == 0


def test_a_killed_server_is_survived_on_another(cell):
    first, second = Server(), Server()
    fed = Fed(f"{first.address},{second.address}", cell, "--checkpoint-every=8")
    fed.feed(30)
    fed.check(30)
    first, second = with_session_first(first, second)
    first.process.kill()
    fed.feed(30)
    summary = fed.end()
    assert summary["replays"] == 1 and summary["server"] == second.address
    first.process.wait()
    first.stop()
    assert second.stop() == 0


def test_a_killed_server_without_checkpoints_is_data_loss(cell):
    first = Server()
    fed = Fed(first.address, cell)
    fed.feed(20)
    fed.check(20)
    first.process.kill()
    first.process.wait()
    first.stop()
    second = Server(listen=first.address)
    fed.feed(1)
    assert "DATA_LOSS" in fed.failure()
    assert second.stop() == 0


def test_a_server_that_does_not_come_back_is_data_loss(cell):
    first = Server()
    fed = Fed(first.address, cell, "--timeout=1s")
    fed.feed(2)
    fed.check(2)
    first.process.kill()
    fed.feed(1)
    assert "DATA_LOSS" in fed.failure()
    first.process.wait()
    first.stop()


def test_another_owner_ends_the_stream(server, cell):
    """Whoever attaches last owns the session; the older stream says so and does not fight."""
    fed = Fed(server.address, cell, "--name=contested")
    fed.feed(2)
    fed.check(2)
    calls = Sessions(server.address)
    (key,) = [info.session for info in calls.stub.List(wire.sessions_pb2.ListSessionsRequest()).sessions
              if info.name == "contested"]
    calls.feed(key, 3, [7])
    fed.feed(1)
    assert "ABORTED" in fed.failure()
    calls.close()
