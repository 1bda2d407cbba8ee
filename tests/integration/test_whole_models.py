# SPDX-License-Identifier: Apache-2.0
"""Whole models: what is before, between and after the layers is computed by the server as onnxruntime does on the same
file; whole, ragged, and streamed in random cuts."""

from __future__ import annotations

import os

import grpc
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import repository_files
import session_calls
import whole_graphs
import wire
from server_process import Server

COUNT = int(os.environ.get("RNNSERVE_GRAPHS", "300"))
# Of max(1, |expected|).
TOLERANCE = 2e-4
MODELS = [whole_graphs.draw(seed) for seed in range(COUNT)]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    for k, whole in enumerate(MODELS):
        repository_files.write(root / f"whole-{k}" / "1", whole.content)
    running = Server(f"--models={root}")
    yield running, root
    assert running.alive(), running.log()
    assert running.stop() == 0


def _session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _infer(server, name, tensors, outputs=()):
    request = wire.recurrent_pb2.InferRequest(outputs=outputs)
    request.model.name = name
    request.inputs.extend(wire.tensor(key, value) for key, value in tensors.items())
    return wire.results(server.recurrent.Infer(request))


def _compare(got, expected, where):
    assert got.shape == expected.shape, where
    assert got.dtype == expected.dtype, where
    if got.dtype.kind == "i":
        return int(np.count_nonzero(got != expected))
    excess = float(np.max(np.abs(got - expected) / np.maximum(1, np.abs(expected)), initial=0))
    assert excess <= TOLERANCE, (where, excess)
    return 0


def test_every_file_is_served(served):
    server, _ = served
    reply = server.models.List(wire.models_pb2.ListModelsRequest())
    assert not [f"{f.path}: {f.reason}" for f in reply.failures]
    assert len(reply.models) == COUNT


def test_numbers_of_onnxruntime(served):
    server, root = served
    rng = np.random.default_rng(3)
    places = misplaced = 0
    for k, whole in enumerate(MODELS):
        session = _session(root / f"whole-{k}" / "1" / "model.onnx")
        for steps, rows in ((int(rng.integers(1, 9)), int(rng.integers(1, 5))), (1, 1)):
            tensors = whole_graphs.feeds(whole, rng, steps, rows)
            expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, tensors)))
            reply = _infer(server, f"whole-{k}", tensors)
            assert list(reply) == list(expected), k
            for name, value in expected.items():
                misplaced += _compare(reply[name], value, (k, name, steps, rows))
                places += value.size if value.dtype.kind == "i" else 0
    # Where two numbers are equal but for rounding either may be the larger one.
    assert misplaced <= places / 200, (misplaced, places)
