# SPDX-License-Identifier: Apache-2.0
"""Models as the exporters of the day write them (exporters/): each loads and gives onnxruntime's numbers by the file's own
names and shapes, whole, in a session cut at random and with lengths, or its refusal says what to do. Environments of their
own are made below build/; RNNSERVE_EXPORTS names a folder of exports instead."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import exported_files
import exporter_graphs
import test_split
import wire
from server_process import Server

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-5
# What cannot load, and what its refusal says.
REFUSED = {"torch": {"rnn": "dynamo=False", "proj": "proj_size", "attention": "rnnctl split", "split": "", "unbatched": "axis of rows",
                     "lengths-last-legacy": "dynamo=True", "mask-lengths": "as an input [N]", "lengths-gather-legacy": "rnnctl split"},
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


@pytest.mark.parametrize("exporter", ["torch", "keras"])
def test_exports_load_and_give_onnxruntimes_numbers(exporter, tell):
    folder = _exports(exporter)
    table = json.loads((folder / "table.json").read_text())
    server = Server(f"--models={folder}", "--drain_timeout=100ms")  # sessions are left open
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
        try:
            found = exported_files.differences(server, name, str(folder / name / "1" / "model.onnx"), entry["axes"], rng)
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:  # an exporter may write what onnxruntime does not run
            lines.append(f"{name}: onnxruntime: {str(error)[:200]}")
            continue
        worst = max(worst, *found.values())
        lines.append(f"{name}: " + ", ".join(f"{how} {excess:.1e}" for how, excess in found.items()))
    server.stop()
    tell(f"{exporter} {table[exporter]}\n    " + "\n    ".join(lines))
    assert worst <= TOLERANCE
    exported = {entry["name"] for entry in table["models"] if not entry["error"]}
    for name, reason in failures.items():
        if name not in exported:  # table.json, and the folder of what the exporter refused
            continue
        expected = [text for start, text in REFUSED[exporter].items() if name.startswith(start)]
        assert expected and expected[0] in reason, (name, reason)


def test_what_does_not_load_whole_is_split(tell, tmp_path):
    folder = _exports("torch")
    server = Server(f"--models={folder}")
    failures = {f.path.split("/")[0]: f.reason for f in
                server.models.List(wire.models_pb2.ListModelsRequest()).failures}
    server.stop()
    found = {}
    for name in failures:
        path = folder / name / "1" / "model.onnx"
        if not path.exists() or name.startswith(("rnn", "proj", "unbatched")):  # no layer, or no rows
            continue
        found[name] = test_split.parts_of(path, tmp_path / name)
        served = next(part for part in found[name]["parts"] if part["name"] == "served")
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "1" / "model.onnx").write_bytes(pathlib.Path(served["path"]).read_bytes())
    assert len(found) > 12
    server = Server(f"--models={tmp_path / 'models'}")
    rng = np.random.default_rng(1)
    lines = []
    for name, parts in found.items():
        path = folder / name / "1" / "model.onnx"
        whole = exported_files.session(path)
        feeds = {"input_1": np.array([9, 4])}  # lengths, or a mask of them
        if name.startswith("mask"):
            feeds["input_1"] = (np.arange(9) < feeds["input_1"][:, None]).astype(np.int64)
        for value in whole.get_inputs():
            shape = [dim if isinstance(dim, int) else 9 if axis else 2 for axis, dim in enumerate(value.shape)]
            feeds.setdefault(value.name, rng.uniform(-1, 1, shape).astype(np.float32))
        feeds = {value.name: feeds[value.name] for value in whole.get_inputs()}
        values = test_split.run_parts(parts, feeds, lambda _, given, name=name: test_split.infer(server, name, given))
        names = [output.name for output in whole.get_outputs()]
        for output, theirs in zip(names, whole.run(names, feeds)):
            test_split.same(values[output], theirs, (name, output))
        lines.append(f"{name}: " + "; ".join(parts["in_the_way"]))
    server.stop()
    tell("\n    ".join(lines))


def test_the_graphs_of_ci_are_the_exporters():
    """What tests/integration/exporter_graphs.py writes for CI is, node by node, what torch writes."""
    folder = _exports("torch")
    for export in exporter_graphs.exports():
        real = onnx.load(folder / export.name / "1" / "model.onnx")
        assert exporter_graphs.outline(exporter_graphs.model(export)) == exporter_graphs.outline(real), export.name
