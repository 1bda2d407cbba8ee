# SPDX-License-Identifier: Apache-2.0
"""Callers with code generated from proto/ here and now: a unary call and a session in Go and Ruby, messages of the native
services in Java, and the Open Inference Protocol in Go and Java."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import grpc
import numpy as np
import pytest

import repository_files
import wire
from operators import Case
from server_process import Server

HERE = pathlib.Path(__file__).resolve().parent / "languages"
FILES = [f"rnnserve/v1/{name}.proto" for name in ("tensor", "recurrent", "models", "sessions")]
KSERVE = "inference/grpc_service.proto"
SAID = "unary [3 2 1 0]\nsession 0 [1 0 0 0]\nsession 0 [3 2 1 0]\n"


KSERVE_SAID = ("model remembering READY\nunary [3 2 1 0]\nsequence [1 0 0 0]\nsequence [3 2 1 0]\n"
               f"ended {grpc.StatusCode.INVALID_ARGUMENT.value[0]}\n")
JARS = [pathlib.Path(f"/usr/share/java/{name}.jar") for name in (
    "protobuf", "guava", "geronimo-annotation-1.3-spec", "perfmark-api",
    *(f"grpc-{part}" for part in ("api", "context", "core", "netty", "protobuf", "protobuf-lite", "stub")),
    *(f"netty-{part}" for part in ("buffer", "codec", "codec-http", "codec-http2", "codec-socks", "common", "handler",
                                   "handler-proxy", "resolver", "transport")))]


def _run(*arguments, **options):
    done = subprocess.run([str(word) for word in arguments], capture_output=True, text=True, check=False, timeout=300,
                          **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _needs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: ./setup.sh --campaigns installs them")


@pytest.fixture(scope="module")
def server():
    running = Server("--drain_timeout=100ms")  # the session stays behind
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def go(tmp_path_factory):
    """Builds one of the callers."""
    _needs("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc")
    folder = tmp_path_factory.mktemp("go")
    (folder / "src").mkdir()
    # Where the packages lie and what they are called is the protos' own matter (go_package).
    _run("protoc", f"-I{wire.REPOSITORY}/proto", f"--go_out={folder}/src", f"--go-grpc_out={folder}/src", *FILES, KSERVE)
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": f"{folder}:/usr/share/gocode",
                   "GOCACHE": f"{folder}/cache"}

    def build(name, *beside):
        _run("go", "build", "-o", folder / name, *(HERE / f"{file}.go" for file in (name, *beside)), env=environment)
        return folder / name

    return build


def test_go(server, go):
    assert _run(go("caller", "remembering"), server.address) == SAID


def test_go_and_connections_of_an_age(go, tell):
    """grpc-go hides that a connection is told to go from unary calls; streams are handed over."""
    server = Server("--max_connection_age=1s", "--max_call_duration=1s", "--drain_timeout=100ms")
    said = _run(go("aged", "remembering"), server.address)
    assert server.stop() == 0
    calls, failed, streams, chunks = map(int, re.findall(r"\d+", said))
    assert (failed, streams) == (0, 3) and calls > 100 and chunks > 3
    tell(f"Go, connections told to go after 1 s: {calls} unary calls, {failed} failed; {streams} streams handed over, "
         f"{chunks} chunks")


@pytest.fixture(scope="module")
def kserve(tmp_path_factory):
    """A server of a cell whose state is the last inputs, the newest first."""
    shift = np.eye(4, k=-1, dtype=np.float32)[None]
    first = np.eye(4, 1, dtype=np.float32)[None]
    case = Case("RNN", {"X": np.zeros((1, 1, 1), np.float32), "W": first, "R": shift}, {"hidden_size": 4}, opset=14)
    model = repository_files.model(case, activations=["Affine"], activation_alpha=[1.0], activation_beta=[0.0])
    folder = tmp_path_factory.mktemp("models")
    repository_files.write(folder / "remembering/1", model)
    running = Server(f"--models={folder}")
    yield running
    assert running.stop() == 0


def test_go_and_the_open_inference_protocol(kserve, go):
    assert _run(go("kserve"), kserve.address, "of Go") == KSERVE_SAID


def test_java_and_the_open_inference_protocol(kserve, tmp_path):
    _needs("javac", "protoc", "grpc_java_plugin")
    if missing := [str(jar) for jar in JARS if not jar.exists()]:
        pytest.skip(f"no {', '.join(missing)}: ./setup.sh --campaigns installs them")
    _run("protoc", f"-I{wire.REPOSITORY}/proto", f"--java_out={tmp_path}", f"--grpc-java_out={tmp_path}",
         f"--plugin=protoc-gen-grpc-java={shutil.which('grpc_java_plugin')}", KSERVE)
    path = ":".join(map(str, [*JARS, tmp_path]))
    _run("javac", "-proc:none", "-cp", path, "-d", tmp_path, *tmp_path.rglob("*.java"), HERE / "Kserve.java")
    assert _run("java", "-cp", path, "Kserve", kserve.address, "of Java") == KSERVE_SAID


def test_ruby(server, tmp_path):
    _needs("ruby", "protoc", "grpc_ruby_plugin")
    _run("protoc", f"-I{wire.REPOSITORY}/proto", f"--ruby_out={tmp_path}", f"--grpc_out={tmp_path}",
         f"--plugin=protoc-gen-grpc={shutil.which('grpc_ruby_plugin')}", *FILES)
    assert _run("ruby", f"-I{tmp_path}", HERE / "caller.rb", server.address) == SAID


def test_java(server, tmp_path):
    """What Java writes and reads travels by Python's gRPC."""
    jar = pathlib.Path("/usr/share/java/protobuf.jar")
    _needs("javac", "protoc")
    if not jar.exists():
        pytest.skip("no libprotobuf-java: ./setup.sh --campaigns installs it")
    _run("protoc", f"-I{wire.REPOSITORY}/proto", f"--java_out={tmp_path}", *FILES)
    _run("javac", "-cp", jar, "-d", tmp_path, *tmp_path.rglob("*.java"), HERE / "Caller.java")

    def java(what, given=b""):
        done = subprocess.run(["java", "-cp", f"{jar}:{tmp_path}", "Caller", what], input=given, capture_output=True,
                              check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    infer = server.channel.unary_unary("/rnnserve.v1.Recurrent/Infer")  # bytes
    assert java("reply", infer(java("request"), timeout=60)).decode() == SAID.splitlines(keepends=True)[0]

    pb = wire.sessions_pb2
    state = pb.StateTensors(tensors=[wire.tensor("initial_h", np.arange(4, dtype=np.float32).reshape(1, 1, 4))])
    operations = pb.StreamRequest(operations=[
        pb.Operation(request_id="ä", session="s", number=2**64 - 1, priority=-5, owner_epoch=0, chunk=pb.Chunk(
            inputs=[wire.tensor("X", np.ones((2, 1, 1), np.float16))], outputs=["Y_h"], override_outputs=True)),
        pb.Operation(number=0, set_state=pb.SetState(state=state, fingerprint="f", force=True)),
        pb.Operation(select_rows=pb.SelectRows(rows=[3, 0])), pb.Operation(rewind=pb.Rewind(checkpoint="c")),
        pb.Operation(open=pb.OpenRequest(rows=3, state=state, durability=pb.OpenRequest.SYNC))])
    operations.operations[0].timeout.FromMilliseconds(1500)
    assert pb.StreamRequest.FromString(java("again", operations.SerializeToString())) == operations
