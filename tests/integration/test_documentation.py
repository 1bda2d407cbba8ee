# SPDX-License-Identifier: Apache-2.0
"""Every block of code in README, CONTRIBUTING and docs says above itself what runs it, in a comment of its own line:

<!-- run -->               this test runs it, in the order of the document, against one server
<!-- run: background -->   the server that the others call
<!-- run by: FILE, ... --> another test or script does
<!-- not run: REASON -->   nothing does
<!-- text: WHAT -->        it is no command: a format, a picture, a message

Commands within sentences name programs, words and flags that exist."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import grpc
import numpy as np
import pytest

import repository_files
import wire
from server_process import BINARY, Server

ROOT = wire.REPOSITORY
RNNCTL = pathlib.Path(os.environ.get("RNNSERVE_RNNCTL") or ROOT / "build/release/client/rnnctl/rnnctl").resolve()
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "client/python/README.md",
             *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"(?:^(?P<above>[^\n]*)\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
SCRIPT = re.compile(r"(?:\./)?((?:tests|client|deploy|server|engine)/[\w./-]*\.(?:py|sh|yaml|yml))(?=$| )")
INDENTED = re.compile(r"^\n(?: {4}|\t)(?! *(?:[-*]|\d+\.) )\S.*", re.M)
MARK = re.compile(r"<!-- (run: background|run by|run|not run|text)(?:: (.+))? -->")


def blocks(document: pathlib.Path):
    """(what runs it, of what, language, code) of each block; the first is None where nothing is said."""
    for found in FENCE.finditer(document.read_text()):
        mark = MARK.fullmatch((found["above"] or "").strip())
        yield (*(mark.groups() if mark else (None, None)), found["language"], found["code"])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_says_what_runs_it(document):
    for kind, of, _, code in blocks(document):
        assert kind, f"nothing says what runs this block of {document.name}:\n{code}"
        assert kind not in ("run", "run: background") or document == ROOT / "README.md", f"{document.name} is not run here"
        if kind in ("not run", "text"):
            assert of, f"{kind} without a reason:\n{code}"
        if kind == "run by":
            files = [word.split(" (")[0].strip() for word in re.split(r",\s*(?![^(]*\))", of)]
            for file in files:
                assert (ROOT / file).exists(), f"{document.name} names {file}, which does not exist"
    # Markdown also takes what is indented behind an empty line for code, where nothing can be said above it.
    assert not INDENTED.findall(FENCE.sub("", document.read_text())), f"{document.name} has blocks without a fence"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the README's reader has: the programs, a file with one node NAME, a repository with it, and arrays."""
    path = tmp_path_factory.mktemp("reader")
    for program in (BINARY, RNNCTL):
        link = path / "build/release" / ("server" if program == BINARY else "client/rnnctl") / program.name
        link.parent.mkdir(parents=True)
        link.symlink_to(program)
    case = repository_files.case("LSTM", 14)
    model = repository_files.model(case)
    model.graph.node[0].name = "NAME"
    for place in (path, path / "models/NAME/1"):
        repository_files.write(place, model)
    x = np.random.default_rng(0).standard_normal((40, 1, case.tensors["X"].shape[2]), np.float32)
    for name, value in (("x", x), ("w", case.tensors["W"]), ("r", case.tensors["R"])):
        np.save(path / f"{name}.npy", value)
    return path


def test_what_the_readme_says_to_run(folder, monkeypatch):
    told = list(blocks(ROOT / "README.md"))
    (command,) = [code for kind, _, _, code in told if kind == "run: background"]
    program, *flags = command.split()
    assert program == "build/release/server/rnnserve"
    monkeypatch.chdir(folder)
    server = Server(*(flag for flag in flags if not flag.startswith("--listen")))
    environment = {**os.environ, "RNNCTL_SERVER": server.address}
    runs = [(language, code) for kind, _, language, code in told if kind == "run"]
    assert len(runs) >= 3
    for language, code in runs:
        code = code.replace("127.0.0.1:50051", server.address)
        shell = [sys.executable, "-c", code] if language == "python" else ["bash", "-euo", "pipefail", "-c", code]
        done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
        for line in re.findall(r"print\(.*# (\(.*\)) ?\w*$", code, re.M):
            assert line in done.stdout, f"{code}\nprinted\n{done.stdout}"
    assert server.stop() == 0


def test_the_retry_policy_for_other_clients():
    """docs/operations.md has it for any gRPC library; here grpcio's own retries follow it, and nothing of our clients'."""
    (policy,) = [code for _, _, _, code in blocks(ROOT / "docs/operations.md") if "retryPolicy" in code]
    refused = []

    def answer(method):
        def refuse(_, context):
            refused.append(method)
            context.abort(grpc.StatusCode.UNAVAILABLE, "leaving")
        return grpc.method_handlers_generic_handler(
            method.rsplit("/", 1)[0], {method.rsplit("/", 1)[1]: grpc.unary_unary_rpc_method_handler(refuse)})

    tried = {"rnnserve.v1.Recurrent/Infer": 5, "rnnserve.v1.Sessions/Open": 5, "rnnserve.v1.Sessions/Apply": 1}
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([answer(method) for method in tried])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    # The policy's pauses take a tenth of their time here.
    policy = re.sub(r'"([\d.]+)s"', lambda found: f'"{float(found[1]) / 10:.3f}s"', policy)
    options = [("grpc.service_config", policy), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        for method in tried:
            with pytest.raises(grpc.RpcError):
                channel.unary_unary("/" + method)(b"", timeout=10)
    server.stop(None)
    assert {method: refused.count(method) for method in tried} == tried


def _flags_of(*command: str | pathlib.Path) -> set[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return set(re.findall(r"--([a-z][\w-]*)", done.stdout + done.stderr))


def test_commands_in_sentences_exist():
    words = set(re.findall(r"^\s+(?:rnnctl )?(\w+)", subprocess.run([RNNCTL, "--help"], capture_output=True, text=True,
                                                                  check=True).stdout, re.M))
    flags = _flags_of(BINARY, "--help")
    for document in DOCUMENTS:
        prose = FENCE.sub("", document.read_text())
        for code in re.findall(r"`([^`\n]+)`", prose):
            if found := re.match(r"rnnctl (\w+)", code):
                assert found[1] in words, f"{document.name}: `{code}`"
            if re.match(r"rnnserve( |$)", code):
                for flag in re.findall(r"--([a-z]\w*)", code):
                    assert flag in flags, f"{document.name}: `{code}` has --{flag}, which the server does not know"
            if found := SCRIPT.match(code):
                assert (ROOT / found[1]).exists(), f"{document.name}: `{code}`"
