# SPDX-License-Identifier: Apache-2.0
"""Whole models as the exporters of the day write them (exporters/): each loads and gives onnxruntime's numbers, or its
refusal says what to do. Environments of their own are made below build/; RNNSERVE_EXPORTS names a folder of exports
instead."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from onnx import helper, load_model

import wire
from server_process import Server

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-5
# What cannot load, and what its refusal says.
REFUSED = {"torch": {"rnn": "dynamo=False", "proj": "proj_size"},
           "keras": {name: "has a Loop or Scan" for name in ("classifier", "norm", "batchnorm")}}


def _exports(exporter):
    given = os.environ.get("RNNSERVE_EXPORTS")
    if given:
        return pathlib.Path(given) / exporter
    folder = HERE.parents[1] / "build" / "exports" / exporter
    if not (folder / "table.json").exists():
        python = HERE.parents[1] / "build" / f"venv-{exporter}" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "-r",
                        str(HERE / "exporters" / f"requirements-{exporter}.txt")], check=True)
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([str(python), str(HERE / "exporters" / f"{exporter}_models.py"), str(folder)], check=True)
    return folder


def _session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _feeds(path, entry, rng):
    """For the sizes of the file where it fixes them, else others."""
    sizes = {"t": int(rng.integers(2, 12)), "n": int(rng.integers(1, 5))}
    feeds = {}
    for k, value in enumerate(load_model(path, load_external_data=False).graph.input):
        axes = entry["axes"][k] if k < len(entry["axes"]) else [None, "n"]
        shape = []
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            symbol = axes[axis] if axis < 2 else None
            shape.append(sizes[symbol] if symbol and not dim.dim_value else dim.dim_value)
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        made = rng.integers(0, 50, shape) if dtype.kind == "i" else rng.uniform(-1, 1, shape)
        feeds[value.name] = made.astype(dtype)
    return feeds


def _ours(info, feeds):
    """A bare stack calls its tensors X, initial_h, initial_c."""
    names = [i.name for i in info.inputs]
    if all(name in names for name in feeds):
        return feeds
    return dict(zip(("X", "initial_h", "initial_c"), feeds.values()))


def _shaped(value, shape, signature):
    """Y of a bare stack, [T, D, N, H] or [N, T, D, H], as exporters shape it."""
    is_y = len(signature.shape) == 4 and [signature.shape[0], signature.shape[2]] == ["T", "N"]
    return (np.moveaxis(value, 1, 2) if is_y else value).reshape(shape)


@pytest.mark.parametrize("exporter", ["torch", "keras"])
def test_exports_load_and_give_onnxruntimes_numbers(exporter, tell):
    folder = _exports(exporter)
    table = json.loads((folder / "table.json").read_text())
    server = Server(f"--models={folder}")
    failures = {f.path.split("/")[0]: f.reason for f in
                server.models.List(wire.models_pb2.ListModelsRequest()).failures}
    rng = np.random.default_rng(1)
    worst, lines = 0.0, []
    for entry in table["models"]:
        name = entry["name"]
        if entry["error"]:
            lines.append(f"{name}: exporter: {entry['error']}")
            continue
        if name in failures:
            lines.append(f"{name}: refused: {failures[name]}")
            continue
        path = str(folder / name / "1" / "model.onnx")
        feeds = _feeds(path, entry, rng)
        session = _session(path)
        request = wire.models_pb2.GetModelRequest()
        request.model.name = name
        call = wire.recurrent_pb2.InferRequest()
        call.model.name = name
        info = server.models.Get(request).model
        ours = _ours(info, feeds)
        call.inputs.extend(wire.tensor(key, value) for key, value in ours.items())
        reply = wire.results(server.recurrent.Infer(call))
        signatures = {o.name: o for o in info.outputs}
        excess = 0.0
        try:
            expected = session.run(None, feeds)
        except Exception as error:  # an exporter may write what onnxruntime does not run
            lines.append(f"{name}: onnxruntime: {str(error)[:200]}")
            continue
        for value, (output, got) in zip(expected, reply.items()):
            got = _shaped(got, value.shape, signatures[output])
            excess = max(excess, float(np.max(np.abs(got.astype(float) - value) / np.maximum(1, np.abs(value)), initial=0)))
        worst = max(worst, excess)
        lines.append(f"{name}: {excess:.1e}")
    server.stop()
    tell(f"{exporter} {table[exporter]}\n    " + "\n    ".join(lines))
    assert worst <= TOLERANCE
    exported = {entry["name"] for entry in table["models"] if not entry["error"]}
    for name, reason in failures.items():
        if name not in exported:  # table.json, and the folder of what the exporter refused
            continue
        expected = [text for start, text in REFUSED[exporter].items() if name.startswith(start)]
        assert expected and expected[0] in reason, (name, reason)
