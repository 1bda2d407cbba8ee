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


def test_go(server, tmp_path):
    _needs("go", "protoc", "protoc-gen-go")
    protos, package = tmp_path / "proto", tmp_path / "go/src/rnnservepb"
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
    shutil.copy(HERE / "caller.go", tmp_path)
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": f"{tmp_path}/go:/usr/share/gocode",
                   "GOCACHE": f"{tmp_path}/cache"}
    _run("go", "build", "-o", tmp_path / "caller", tmp_path / "caller.go", env=environment)
    assert _run(tmp_path / "caller", server.address) == SAID


def test_ruby(server, tmp_path):
    _needs("ruby", "protoc", "grpc_ruby_plugin")
    _run("protoc", f"-I{wire.REPOSITORY}/proto", f"--ruby_out={tmp_path}", f"--grpc_out={tmp_path}",
         f"--plugin=protoc-gen-grpc={shutil.which('grpc_ruby_plugin')}", *FILES)
    assert _run("ruby", f"-I{tmp_path}", HERE / "caller.rb", server.address) == SAID
