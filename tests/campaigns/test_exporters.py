# SPDX-License-Identifier: Apache-2.0
"""Models as the exporters of the day write them (exporters/): each loads and gives onnxruntime's numbers by the file's own
names and shapes, whole, in a session cut at random and with lengths, or its refusal says what to do. Environments of their own are made below build/; RNNSERVE_EXPORTS names a folder of exports
instead."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import grpc
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
           "keras": {name: "Loop or Scan" for name in ("classifier", "norm", "batchnorm")}}


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


def _infer(server, name, feeds):
    call = wire.recurrent_pb2.InferRequest()
    call.model.name = name
    call.inputs.extend(wire.tensor(key, value) for key, value in feeds.items())
    return wire.results(server.recurrent.Infer(call))


def _excess(got, expected):
    assert {name: value.shape for name, value in got.items()} == {name: value.shape for name, value in expected.items()}
    return max((float(np.max(np.abs(got[name].astype(float) - value) / np.maximum(1, np.abs(value)), initial=0))
                for name, value in expected.items()), default=0.0)


def _streamed(server, info, feeds, rng):
    """The outputs of a session, its steps cut at random, or None where a file has no session: what each step gives, joined, and the
    last of the others."""
    axes = {i.name: list(i.shape).index("T") for i in info.inputs if "T" in i.shape and i.name in feeds}
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    first = next(iter(axes))
    rows = feeds[first].shape[1 - axes[first]]
    request = wire.sessions_pb2.OpenRequest(rows=rows)
    request.model.name = info.name
    states = {name: value for name, value in feeds.items() if name not in axes}
    if states:
        request.state.tensors.extend(wire.tensor(name, value) for name, value in states.items())
    try:
        key = sessions.Open(request).session
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION, error.details()
        return None
    steps = feeds[first].shape[axes[first]]
    cuts = [0, *sorted(rng.integers(1, steps, 2).tolist()), steps] if steps > 1 else [0, steps]
    pieces = []
    for number, (start, end) in enumerate(zip(cuts, cuts[1:]), 1):
        operation = wire.sessions_pb2.Operation(session=key, number=number)
        for name, axis in axes.items():
            operation.chunk.inputs.append(wire.tensor(name, np.take(feeds[name], range(start, end), axis)))
        reply = sessions.Apply(wire.sessions_pb2.ApplyRequest(operation=operation)).reply
        assert not reply.status.code, reply.status.message
        if end > start:
            pieces.append(wire.results(reply))
    grown = {o.name: list(o.shape).index("T") for o in info.outputs if "T" in o.shape}
    return {name: np.concatenate([piece[name] for piece in pieces], grown[name]) if name in grown else pieces[-1][name]
            for name in pieces[0]}


def _ragged(server, session, info, feeds, rng):
    """The largest difference of each row, with a length of its own, from onnxruntime's run of that row alone; None where the
    file fixes its sizes."""
    axes = {i.name: (list(i.shape).index("T"), list(i.shape).index("N")) for i in info.inputs
            if "T" in i.shape and i.name in feeds}
    if any(not isinstance(dim, (str, type(None))) for value in session.get_inputs() if value.name in axes
           for dim in value.shape[:2]):
        return None
    first = next(iter(axes))
    steps, rows = (feeds[first].shape[axis] for axis in axes[first])
    lengths = rng.integers(1, steps + 1, rows).astype(np.int32)
    got = _infer(server, info.name, {**feeds, "sequence_lens": lengths})
    shapes = {o.name: list(o.shape) for o in info.outputs}
    worst = 0.0
    for row, length in enumerate(lengths):
        alone = {}
        for i in info.inputs:
            if i.name in feeds:
                alone[i.name] = np.take(feeds[i.name], [row], list(i.shape).index("N"))
                if i.name in axes:
                    alone[i.name] = np.take(alone[i.name], range(length), axes[i.name][0])
        for name, value in zip([o.name for o in session.get_outputs()], session.run(None, alone)):
            own = np.take(got[name], [row], shapes[name].index("N"))
            if "T" in shapes[name]:
                own = np.take(own, range(length), shapes[name].index("T"))
            worst = max(worst, _excess({name: own}, {name: value}))
    return worst


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
        info = server.models.Get(request).model
        assert [o.name for o in info.outputs] == [o.name for o in session.get_outputs()]
        reply = _infer(server, name, feeds)
        try:
            expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
        except Exception as error:  # an exporter may write what onnxruntime does not run
            lines.append(f"{name}: onnxruntime: {str(error)[:200]}")
            continue
        excesses = [_excess(reply, expected)]
        streamed = _streamed(server, info, feeds, rng)
        if streamed is not None:  # without what needs the end of the sequence
            excesses.append(_excess(streamed, {key: expected[key] for key in streamed}))
        ragged = _ragged(server, session, info, feeds, rng)
        if ragged is not None:
            excesses.append(ragged)
        worst = max(worst, *excesses)
        how = ["whole", *(["streamed"] if streamed is not None else []), *(["ragged"] if ragged is not None else [])]
        lines.append(f"{name}: " + ", ".join(f"{one} {excess:.1e}" for one, excess in zip(how, excesses)))
    server.stop()
    tell(f"{exporter} {table[exporter]}\n    " + "\n    ".join(lines))
    assert worst <= TOLERANCE
    exported = {entry["name"] for entry in table["models"] if not entry["error"]}
    for name, reason in failures.items():
        if name not in exported:  # table.json, and the folder of what the exporter refused
            continue
        expected = [text for start, text in REFUSED[exporter].items() if name.startswith(start)]
        assert expected and expected[0] in reason, (name, reason)
