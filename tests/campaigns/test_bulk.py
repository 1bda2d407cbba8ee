# SPDX-License-Identifier: Apache-2.0
"""client/examples/bulk with Ray: a corpus through two replicas, while one of them, a worker of Ray, or the whole run is killed.
Every row is there once, with the same bits as in a run without faults. Ray's environment is made below build/."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import rnnserve
from server_process import Server

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BULK = ROOT / "client" / "examples" / "bulk"
ROWS = int(os.environ.get("RNNSERVE_ROWS", "4000"))
PARTS = 40
sys.path.insert(0, str(BULK.parent / "g2p"))
import files  # noqa: E402


@pytest.fixture(scope="module")
def python():
    """Of an environment with ray, pyarrow and our package as it is now: about 20 s and 600 MB where it is new."""
    made = ROOT / "build" / "venv-bulk" / "bin" / "python"
    if not made.exists():
        subprocess.run([sys.executable, "-m", "venv", made.parents[1]], check=True)
    subprocess.run([made, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--force-reinstall", "--no-deps",
                    ROOT / "client" / "python"], check=True)
    subprocess.run([made, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", BULK / "requirements.txt",
                    ROOT / "client" / "python"], check=True)
    return made


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(1)
    weights = {"enc_emb": rng.uniform(-1, 1, (29, 64)), "enc_w_ih": rng.uniform(-.1, .1, (768, 64)),
               "enc_w_hh": rng.uniform(-.1, .1, (768, 256)), "enc_b_ih": rng.uniform(-.1, .1, 768),
               "enc_b_hh": rng.uniform(-.1, .1, 768)}
    (folder / "speller" / "1").mkdir(parents=True)
    (folder / "speller" / "1" / "model.onnx").write_bytes(
        files.encoder({name: value.astype(np.float32) for name, value in weights.items()}))
    return folder


@pytest.fixture
def replicas(repository):
    running = [Server(f"--models={repository}") for _ in range(2)]
    yield running
    for server in running:
        server.stop()


class Work:
    """One corpus and the runs over it."""

    def __init__(self, python, folder):
        self._python, self.corpus = python, folder / "corpus"
        self._corpus_program("make", self.corpus, str(ROWS))

    def _corpus_program(self, *words):
        return subprocess.run([self._python, HERE / "bulk_corpus.py", *words], check=True, capture_output=True, text=True).stdout

    def command(self, replicas, results, *more):
        return [self._python, BULK / "score.py", "--servers", ",".join(server.address for server in replicas), "--model",
                "speller", "--column", "letters", "--outputs", "Y_h", "--deterministic", "--results", results, *more, self.corpus]

    def run(self, replicas, results):
        done = subprocess.run(self.command(replicas, results), capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == "", "nothing but the counts in a pipe"
        return json.loads(done.stdout)

    def compare(self, results, expected):
        assert json.loads(self._corpus_program("compare", results, expected)) == {
            "rows": ROWS, "ids": ROWS, "same": True, "scored": ROWS}


@pytest.fixture(scope="module")
def work(python, tmp_path_factory):
    return Work(python, tmp_path_factory.mktemp("bulk"))


@pytest.fixture(scope="module")
def faultless(work, repository, tmp_path_factory):
    """Through one server that nothing happens to."""
    results, server = tmp_path_factory.mktemp("faultless") / "results", Server(f"--models={repository}")
    assert work.run([server], results) == {"rows": ROWS, "before": 0, "scored": ROWS, "errors": 0}
    server.stop()
    return results


def finished(results):
    return len([file for file in results.glob("*.parquet")]) if results.exists() else 0


@contextlib.contextmanager
def under_way(command, results, parts):
    """The process of a run, once it has finished as many parts."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while finished(results) < parts:
            try:
                process.wait(timeout=0.02)  # the pause between two looks, which ends early with the run
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(f"the run ended early:\n{process.communicate()}")
        assert finished(results) < PARTS
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def workers_of(process):
    """Ray's workers of a run that call PartScorer."""
    found, above = [], {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            above[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if "PartScorer" in (folder / "cmdline").read_text():
                found.append(int(folder.name))
    def below(pid):
        return pid == process.pid or (pid in above and below(above[pid]))
    return [pid for pid in found if below(pid)]


def test_a_replica_is_killed(work, replicas, faultless, tmp_path, tell):
    results = tmp_path / "results"
    with under_way(work.command(replicas, results), results, PARTS // 4) as process:
        with rnnserve.Client(replicas[0].address) as client:
            assert client.health() == "SERVING"
        replicas[0].process.kill()
        left = PARTS - finished(results)
        stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 0 and stderr == "", stderr
    assert json.loads(stdout) == {"rows": ROWS, "before": 0, "scored": ROWS, "errors": 0}
    work.compare(results, faultless)
    tell(f"bulk: {ROWS} rows in {PARTS} parts; a replica was killed with {left} parts left: all rows once, the same bits")


def test_a_worker_of_ray_is_killed(work, replicas, faultless, tmp_path):
    results = tmp_path / "results"
    with under_way(work.command(replicas, results), results, PARTS // 4) as process:
        killed, *_ = workers_of(process)
        os.kill(killed, signal.SIGKILL)
        stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["errors"] == 0
    assert finished(results) == PARTS
    for file in results.glob(".*"):  # what the killed worker had begun
        file.unlink()
    work.compare(results, faultless)


def test_a_run_that_was_killed_is_gone_on_with(work, replicas, faultless, tmp_path):
    results = tmp_path / "results"
    with under_way(work.command(replicas, results), results, PARTS // 4) as process:
        workers = workers_of(process)
        os.killpg(process.pid, signal.SIGKILL)
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        process.wait()
    for file in results.glob(".*"):
        file.unlink()
    told = work.run(replicas, results)
    assert 0 < told["before"] < ROWS and told["before"] + told["scored"] == ROWS
    work.compare(results, faultless)
    assert work.run(replicas, results) == {"rows": ROWS, "before": ROWS, "scored": 0, "errors": 0}


def test_a_terminal_sees_how_far_it_is(work, replicas, tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(work.command(replicas, tmp_path / "results"), stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # a terminal's other side has gone
        while piece := os.read(ours, 65536):
            seen += piece
    assert process.wait(timeout=60) == 0, seen
    assert f"{ROWS:,} of {ROWS:,} rows".encode() in seen


def test_what_is_wrong_is_said(work, replicas, tmp_path):
    for wrong, text in (("--model=none", "none"), ("--column=none", "no column none"), ("--outputs=none", "no output none"),
                        ("--servers=127.0.0.1:1", "127.0.0.1:1")):
        command = work.command(replicas, tmp_path / wrong[2:4], wrong, "--patience", "1")
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 2 and text in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_the_pipeline_of_the_page(work, python, replicas):
    page = (BULK / "README.md").read_text(encoding="utf-8")
    code, = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for written, here in (("gpu-1:50051,gpu-2:50051", ",".join(server.address for server in replicas)), ("tagger", "speller"),
                          ("tokens", "letters")):
        code, replaced = re.subn(written, here, code)
        assert replaced == 1
    done = subprocess.run([python, "-c", code], cwd=work.corpus.parent, env={**os.environ, "PYTHONPATH": str(BULK)},
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and f"{ROWS} rows scored" in done.stdout, done.stdout + done.stderr
