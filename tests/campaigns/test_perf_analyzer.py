# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's perf_analyzer, unchanged, against this server: every way of sending of docs/coming-from.md ends without an error,
and it counts no more answers than the server has given. It comes in tritonclient's wheel of PyPI."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

import kserve_models
from server_process import Server
from test_admin import _metrics
from test_kserve_clients import VERSION

CUDA_RUNTIME = "nvidia-cuda-runtime-cu12"
# The options beside model and address, whether the answers come on streams, and whether in sequences.
WAYS = {
    "concurrency": (["--concurrency-range", "1:3:2"], False, False),
    "asynchronous": (["--concurrency-range", "4", "--async"], False, False),
    "request rate": (["--request-rate-range", "200"], False, False),
    "a rate of Poisson": (["--request-rate-range", "200", "--request-distribution", "poisson"], False, False),
    "batches": (["--concurrency-range", "2", "-b", "4"], False, False),
    "zeros": (["--concurrency-range", "2", "--input-data", "zero"], False, False),
    "data of a file": (["--concurrency-range", "2", "--input-data"], False, False),
    "streaming": (["--concurrency-range", "2", "--streaming"], True, False),
    "sequences": (["--concurrency-range", "2", "--sequence-length", "10"], False, True),
    "sequences, streaming": (["--concurrency-range", "4", "--sequence-length", "10", "--streaming"], True, True),
    "sequences, request rate": (["--request-rate-range", "200", "--sequence-length", "10", "--num-of-sequences", "4"], False, True),
}


@pytest.fixture(scope="module")
def perf_analyzer(tmp_path_factory):
    """The program, and the environment that it needs."""
    folder = tmp_path_factory.mktemp("perf_analyzer")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder,
                    f"tritonclient=={VERSION}", CUDA_RUNTIME], check=True, timeout=300)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder / "nvidia/cuda_runtime/lib")}
    program = folder / "bin/perf_analyzer"
    program.chmod(0o755)
    missing = subprocess.run(["ldd", program], env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    if "libb64.so.0d => not found" in missing:
        pytest.skip("no libb64-0d: ./setup.sh --campaigns installs it")
    assert "not found" not in missing, missing
    return program, environment


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    kserve_models.write(folder)
    running = Server(f"--models={folder}/ours", "--drain_timeout=100ms")
    yield running
    assert running.stop() == 0


def _answers(server):
    """{(method, code): count} of the inference calls, and operations of streams."""
    name = r'rnnserve_requests_total\{method="GRPCInferenceService\.(ModelInfer|ModelStreamInfer\.operation)",code="(\w+)"\}'
    found = {re.fullmatch(name, sample): value for sample, value in _metrics(server).items()}
    return {match.groups(): value for match, value in found.items() if match and value}


@pytest.mark.parametrize("way", WAYS)
def test_it_runs_unchanged(perf_analyzer, server, tmp_path, tell, way):
    program, environment = perf_analyzer
    options, streams, sequences = WAYS[way]
    if options[-1] == "--input-data":
        data = tmp_path / "data.json"
        data.write_text(json.dumps({"data": [{"X": {"content": [0.5] * 256, "shape": [2, 128]}}]}))
        options = [*options, str(data)]
    else:
        options = [*options, "--shape", "X:1,128" if sequences else "X:16,128"]
    before = _answers(server)
    done = subprocess.run([program, "-m", "step128@sequence" if sequences else "unary128", "-i", "grpc", "-u", server.address,
                           "-p", "300", "-r", "3", "-s", "999", *options],
                          env=environment, capture_output=True, text=True, timeout=300, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "rror" not in said.replace("errors", ""), said
    counted = sum(int(count) for count in re.findall(r"Request count: (\d+)", said))
    rates = re.findall(r"Throughput: ([\d.]+) infer/sec", said)
    assert counted > 0 and rates, said
    after = _answers(server)
    grown = {key: after[key] - before.get(key, 0) for key in after if after[key] > before.get(key, 0)}
    method = "ModelStreamInfer.operation" if streams else "ModelInfer"
    assert set(grown) == {(method, "OK")} and grown[method, "OK"] >= counted, grown
    opened = _metrics(server).get('rnnserve_sessions_active{model="step128"}', 0)
    assert opened <= 16, "sequences end with their last request"
    tell(f"perf_analyzer, {way}: {', '.join(rates)} a second")
