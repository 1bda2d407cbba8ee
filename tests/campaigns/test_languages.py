# SPDX-License-Identifier: Apache-2.0
"""Callers with code generated from proto/ here and now: in Go and Ruby a unary call and a session each, in Java messages."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

import wire
from server_process import Server

HERE = pathlib.Path(__file__).resolve().parent / "languages"
FILES = [f"rnnserve/v1/{name}.proto" for name in ("tensor", "recurrent", "models", "sessions")]
SAID = "unary [3 2 1 0]\nsession 0 [1 0 0 0]\nsession 0 [3 2 1 0]\n"


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
    _run("protoc", f"-I{wire.REPOSITORY}/proto", f"--go_out={folder}/src", f"--go-grpc_out={folder}/src", *FILES)
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": f"{folder}:/usr/share/gocode",
                   "GOCACHE": f"{folder}/cache"}

    def build(name):
        _run("go", "build", "-o", folder / name, HERE / f"{name}.go", HERE / "remembering.go", env=environment)
        return folder / name

    return build


def test_go(server, go):
    assert _run(go("caller"), server.address) == SAID


def test_go_and_connections_of_an_age(go, tell):
    """grpc-go hides that a connection is told to go from unary calls; streams are handed over."""
    server = Server("--max_connection_age=1s", "--max_call_duration=1s", "--drain_timeout=100ms")
    said = _run(go("aged"), server.address)
    assert server.stop() == 0
    calls, failed, streams, chunks = map(int, re.findall(r"\d+", said))
    assert (failed, streams) == (0, 3) and calls > 100 and chunks > 3
    tell(f"Go, connections told to go after 1 s: {calls} unary calls, {failed} failed; {streams} streams handed over, "
         f"{chunks} chunks")


def test_ruby(server, tmp_path):
    _needs("ruby", "protoc", "grpc_ruby_plugin")
    _run("protoc", f"-I{wire.REPOSITORY}/proto", f"--ruby_out={tmp_path}", f"--grpc_out={tmp_path}",
         f"--plugin=protoc-gen-grpc={shutil.which('grpc_ruby_plugin')}", *FILES)
    assert _run("ruby", f"-I{tmp_path}", HERE / "caller.rb", server.address) == SAID


def test_java(server, tmp_path):
    """grpc-java is in no registry here: what Java writes and reads travels by Python's gRPC."""
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
