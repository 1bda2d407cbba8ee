# SPDX-License-Identifier: Apache-2.0
"""Callers in Go and Ruby with code generated from proto/ here and now: a unary call and a session each."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

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
    _needs("go", "protoc", "protoc-gen-go")
    folder = tmp_path_factory.mktemp("go")
    protos, package = folder / "proto", folder / "go/src/rnnservepb"
    package.mkdir(parents=True)
    for file in FILES:
        # Debian 12's generator does not know proto3's `optional`; without it zeros are not sent, which is the same here.
        text = re.sub(r"^( *)optional ", r"\1", (wire.REPOSITORY / "proto" / file).read_text(), flags=re.MULTILINE)
        (protos / file).parent.mkdir(parents=True, exist_ok=True)
        (protos / file).write_text(text)
    same_package = "".join(f",M{file}=rnnservepb" for file in FILES)
    same_package += "".join(f",Mgoogle/protobuf/{name}.proto=github.com/golang/protobuf/ptypes/{name}"
                            for name in ("any", "duration", "timestamp"))
    _run("protoc", f"-I{protos}", f"--go_out=plugins=grpc,import_path=rnnservepb{same_package}:{package}", *FILES)
    for file in package.rglob("*.go"):
        file.rename(package / file.name)
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": f"{folder}/go:/usr/share/gocode",
                   "GOCACHE": f"{folder}/cache"}

    def build(name):
        _run("go", "build", "-o", folder / name, HERE / f"{name}.go", HERE / "remembering.go", env=environment)
        return folder / name

    return build


def test_go(server, go):
    assert _run(go("caller"), server.address) == SAID


def test_go_and_connections_of_an_age(go, tell):
    """grpc-go hides that a connection is told to go from unary calls; streams are handed over."""
    server = Server("--max_connection_age=1s", "--max_connection_age_grace=1s", "--drain_timeout=100ms")
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
