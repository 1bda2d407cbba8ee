# SPDX-License-Identifier: Apache-2.0
"""rnnctl sessions ls, show, export, import, fork, close against the real server."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import grpc
import pytest

import wire
from server_process import Server
from session_calls import Sessions, remembering_operator, remembering_weights

RNNCTL = pathlib.Path(os.environ.get("RNNSERVE_RNNCTL") or wire.REPOSITORY / "build/release/client/rnnctl/rnnctl")
MODEL = "remember"


def load(server, name=MODEL, hidden=64):
    request = wire.models_pb2.LoadRequest(name=name)
    request.inline.operator.CopyFrom(remembering_operator(hidden))
    request.inline.weights.extend(remembering_weights(hidden))
    server.models.Load(request)


@pytest.fixture(scope="module")
def loaded(server):
    load(server)
    load(server, "other", hidden=32)
    return server


@pytest.fixture
def sessions(loaded):
    calls = Sessions(loaded.address)
    yield calls
    calls.close()


@pytest.fixture
def run(loaded):
    def run(*words, code=0, server=loaded, **options):
        done = subprocess.run([RNNCTL, "sessions", *map(str, words), f"--server={server.address}"], capture_output=True,
                              text=True, timeout=60, check=False, **options)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr
    return run


def open_fed(sessions, name="", values=(1, 2, 3)):
    key = sessions.open(model=wire.tensor_pb2.ModelRef(name=MODEL), name=name)
    sessions.feed(key, 1, values)
    return key


def test_ls_and_show(sessions, run):
    key = open_fed(sessions, "caller-1")
    table = run("ls").splitlines()
    assert table[0].split() == ["NAME", "MODEL", "ROWS", "NUMBER", "STEPS", "STATE", "IDLE", "EXPIRES", "KEY"]
    (row,) = [line.split() for line in table if line.startswith("caller-1 ")]
    assert row[1:5] == [MODEL, "1", "1", "3"] and row[-1] == key
    for word in ("caller-1", key, key[:50]):
        assert json.loads(run("show", "--json", word))["session"] == key
    assert "last number" in run("show", "caller-1")
    listed = json.loads(run("ls", "--json"))["sessions"]
    assert {"session": key, "name": "caller-1"}.items() <= next(s for s in listed if s["session"] == key).items()
    run("close", "caller-1")


def test_ls_has_a_limit(sessions, run):
    keys = [sessions.open(model=wire.tensor_pb2.ModelRef(name=MODEL)) for _ in range(5)]
    assert len(run("ls", "--limit=2").splitlines()) == 3
    assert len(json.loads(run("ls", "--json"))["sessions"]) >= 5
    run("close", *keys)


def test_an_empty_server_says_so(run):
    empty = Server()
    assert run("ls", server=empty) == "no live sessions\n"
    assert json.loads(run("ls", "--json", server=empty)) == {}
    assert empty.stop() == 0


def test_export_and_import_on_another_server(sessions, run, tmp_path):
    open_fed(sessions, "moving", [4, 5, 6])
    file = tmp_path / "moving.session"
    assert "after number 1 (3 steps)" in run("export", "moving", "-o", file)
    text = json.loads(file.read_text())
    assert text["number"] == "1" and text["position"] == "3" and len(text["fingerprint"]) == 64
    other = Server()
    assert "FINGERPRINT" in run("import", file, server=other, code=1), "it does not hold the operator"
    load(other, "under-another-name")
    there = Sessions(other.address)
    for flags in ([], ["--model=under-another-name", "--name=moved"]):
        key = run("import", file, *flags, server=other).strip()
        assert there.log(key) == [4, 5, 6]
        there.feed(key, 1, [7])
        assert there.log(key) == [4, 5, 6, 7]
    assert sessions.log(json.loads(run("show", "moving", "--json"))["session"]) == [4, 5, 6], "the first one goes on"
    there.close()
    run("close", "moving")
    other.stop()


def test_import_of_what_export_writes_to_a_pipe(sessions, run):
    key = open_fed(sessions)
    copy = run("import", "-", input=run("export", key, "--out=-")).strip()
    assert copy != key and sessions.log(copy) == [1, 2, 3]
    run("close", key, copy)


def test_import_refuses_another_operator_and_opens_nothing(sessions, run, tmp_path):
    key = open_fed(sessions)
    run("export", key, "-o", tmp_path / "s")
    before = len(json.loads(run("ls", "--json"))["sessions"])
    refused = run("import", tmp_path / "s", "--model=other", code=1)
    assert "another operator" in refused and "FINGERPRINT_MISMATCH" in refused
    assert len(json.loads(run("ls", "--json"))["sessions"]) == before
    run("close", key)


def test_import_refuses_damaged_files(sessions, run, tmp_path):
    key = open_fed(sessions)
    run("export", key, "-o", tmp_path / "s")
    good = (tmp_path / "s").read_text()
    state = json.loads(good)
    tensor = state["state"]["tensors"][0]
    tensor["raw"] = tensor["raw"].replace("A", "B", 1)
    for text, why in ((json.dumps(state), "damaged"), (good.replace('"number": "1"', '"number": "9"'), "damaged"),
                      (good[:100], "no session file"), ("", "no session file"), ("[" * 100_000, "no session file"),
                      (good.replace("session-1", "session-2"), "another format"),
                      (good.replace('"64"', '"65"'), "cannot be used")):
        (tmp_path / "bad").write_text(text)
        assert why in run("import", tmp_path / "bad", code=2), text[:200]
    run("close", key)


def test_fork(sessions, run):
    key = open_fed(sessions, "root")
    first = run("fork", "root").strip()
    left, right = run("fork", "root", "--name=left", "--name=right").split()
    many = json.loads(run("fork", key, "--count=3", "--json"))
    assert len(many["sessions"]) == 3 and many["number"] == "1"
    sessions.feed(key, 2, [9])
    for fork in (first, left, right, *many["sessions"]):
        assert sessions.log(fork) == [1, 2, 3]
    assert json.loads(run("show", "left", "--json"))["session"] == left
    run("fork", "root", "--count=2", "--name=one", code=2)
    run("close", key, first, left, "right", *many["sessions"])


def test_close(sessions, run):
    key = open_fed(sessions, "closing")
    other = open_fed(sessions)
    assert "SESSION_UNKNOWN" in run("close", "no-such", code=1)
    assert run("close", "closing", other) == f"closed closing\nclosed {other}\n"
    again = run("close", key, code=1)
    assert "SESSION_ENDED" in again and "closed" in again
    with pytest.raises(grpc.RpcError):
        sessions.state(key)


def test_mistakes(run):
    assert "KEY or NAME" in run("show", code=2)
    assert "--out" in run("export", "x", code=2)
    assert "cannot read" in run("import", "/no/such/file", code=2)
    assert "ls" in run(code=2), "which commands there are"
