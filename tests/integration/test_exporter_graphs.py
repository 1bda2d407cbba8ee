# SPDX-License-Identifier: Apache-2.0
"""What torch's exporters write (exporter_graphs.py) loads and gives onnxruntime's numbers. The real exporters, Keras and
tf2onnx: tests/campaigns/test_exporters.py."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import exported_files
import exporter_graphs
import test_inspect
import whole_graphs
import wire
from server_process import Server

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("exports")
    found = list(exporter_graphs.exports())
    for export in found:
        path = root / export.name / "1" / "model.onnx"
        path.parent.mkdir(parents=True)
        onnx.save(exporter_graphs.model(export), path)
    running = Server(f"--models={root}", "--drain_timeout=100ms")  # sessions are left open
    yield running, root, found
    assert running.alive(), running.log()
    assert running.stop() == 0


def test_every_export_gives_onnxruntimes_numbers(served):
    server, root, found = served
    listed = server.models.List(wire.models_pb2.ListModelsRequest())
    assert not [f"{f.path}: {f.reason}" for f in listed.failures]
    rng = np.random.default_rng(1)
    ways = {}
    for export in found:
        path = str(root / export.name / "1" / "model.onnx")
        for how, difference in exported_files.differences(server, export.name, path, [export.axes], rng).items():
            assert difference <= TOLERANCE, (export, how)
            ways[how] = ways.get(how, 0) + 1
    assert ways["whole"] == len(found) and ways["streamed"] > 40 and ways["ragged"] > 40, ways


def test_their_layers_as_stacks_of_their_own(served, tmp_path):
    """rnnctl extract of all layers of an export but the first, or of all where a fixed shape tells that of the first alone, in
    onnxruntime and in the server."""
    _, root, found = served
    models = tmp_path / "models"
    names = []
    for export in found:
        if export.layers > 2 and (export.dynamic or not export.dynamo or not export.batch_first):
            first = 2 if export.dynamic or not export.dynamo else 1
            words = ",".join(str(k) for k in range(first, export.layers + 1))
            test_inspect.extract(root / export.name / "1" / "model.onnx", words, models / export.name / "1" / "model.onnx")
            names.append(export.name)
    running = Server(f"--models={models}", "--drain_timeout=100ms")
    rng = np.random.default_rng(2)
    for name in names:
        path = str(models / name / "1" / "model.onnx")
        assert exported_files.differences(running, name, path, [["t", "n"]], rng)["whole"] <= TOLERANCE, name
    assert len(names) > 24 and running.stop() == 0


def _layer_of(g):
    value = g.features("features", 6, False)
    return g.layer(value, value, {"forward": True})[0]


def test_sizes_of_features_are_computed(tmp_path):
    """y.chunk(2, -1) as torch's dynamo=False writes it: from the size of the features, by Add, Sub, Div and Mul."""
    models, names = tmp_path / "models", []
    for seed in range(6):
        g = whole_graphs.Graph(seed)
        value = _layer_of(g)
        while value.width < 4:
            value = g.mapped(value, ["concat"])
        size = g.node("Gather", [g.node("Shape", [value.name]), g.ints(-1)], axis=0)
        half = g.node("Div", [g.node("Add", [size, g.ints(1)]), g.ints(2)])
        end = g.node("Sub", [g.node("Mul", [half, g.ints(2)]), g.ints(1)])
        first = g.node("Slice", [value.name, g.ints(0), half, g.ints(-1)])
        rest = g.node("Slice", [value.name, half, end, g.ints(-1)])
        g.node("Concat", [g.node("Tanh", [first]), rest], "output", axis=-1)
        g.outputs.append(("output", g.data_type))
        names.append(f"halves-{seed}")
        path = models / names[-1] / "1" / "model.onnx"
        path.parent.mkdir(parents=True)
        onnx.save(g.model(), path)
    running = Server(f"--models={models}", "--drain_timeout=100ms")
    assert not running.models.List(wire.models_pb2.ListModelsRequest()).failures
    for name in names:
        found = exported_files.differences(running, name, str(models / name / "1" / "model.onnx"), [["t", "n"]],
                                           np.random.default_rng(1))
        assert max(found.values()) <= TOLERANCE, (name, found)
    assert running.stop() == 0


def test_a_sum_of_exponentials_keeps_its_bits_beside_masked_numbers(tmp_path):
    """Scores of a CRF, of which -10000 and the like forbid some."""
    g = whole_graphs.Graph(1)
    value = _layer_of(g)
    for k, low in enumerate((-1e4, -1e9, -np.inf)):
        numbers = np.full(value.width + 2, low, np.float32)
        numbers[0] = 0.3
        spread = g.node("Concat", [value.name, value.name, value.name], axis=-1)
        spread = g.node("Slice", [spread, g.ints(0), g.ints(value.width + 2), g.ints(-1)])
        g.opset = 18
        made = g.node("ReduceLogSumExp", [g.node("Add", [spread, g.store(numbers)]), g.ints(-1)], f"output{k}", keepdims=k % 2)
        g.outputs.append((made, g.data_type))
    path = tmp_path / "crf" / "1" / "model.onnx"
    path.parent.mkdir(parents=True)
    onnx.save(g.model(), path)
    running = Server(f"--models={tmp_path}", "--drain_timeout=100ms")
    found = exported_files.differences(running, "crf", str(path), [["t", "n"]], np.random.default_rng(1))
    assert max(found.values()) <= TOLERANCE, found
    assert running.stop() == 0


def test_pools_that_pad_and_places_that_are_no_lookup_are_refused(tmp_path):
    g = whole_graphs.Graph(1)
    value = g.node("Transpose", [_layer_of(g).name], perm=[1, 2, 0])
    g.inputs[0] = (g.inputs[0][0], g.data_type, [7, 2, g.inputs[0][2][2]])
    g.node("AveragePool", [value], "output", kernel_shape=[7], auto_pad="SAME_UPPER")
    g.outputs.append(("output", g.data_type))
    onnx.save(g.model(), tmp_path / "model.onnx")
    assert "pools some steps at a time" in test_inspect.inspect(tmp_path / "model.onnx")["reason"]
    g = whole_graphs.Graph(1)
    value = _layer_of(g)
    g.inputs.append(("tokens", onnx.TensorProto.INT64, ["t", "n"]))
    places = g.node("Cast", [g.node("Unsqueeze", [g.wrapped("tokens", 9, onnx.TensorProto.INT64), g.ints(-1)])],
                    to=onnx.TensorProto.FLOAT)
    g.node("Mul", [value.name, places], "output")
    g.outputs.append(("output", g.data_type))
    onnx.save(g.model(), tmp_path / "model.onnx")
    assert "computes with integers" in test_inspect.inspect(tmp_path / "model.onnx")["reason"]


def test_lengths_among_numbers_of_steps_are_refused(tmp_path):
    g = whole_graphs.Graph(1)
    value = _layer_of(g)
    g.inputs.append(("lengths", onnx.TensorProto.INT64, ["n"]))
    mask = g.node("Cast", [g.node("Unsqueeze", ["lengths", g.ints(0, 2)])], to=onnx.TensorProto.FLOAT)
    g.node("Mul", [value.name, mask], "output")
    g.outputs.append(("output", g.data_type))
    onnx.save(g.model(), tmp_path / "model.onnx")
    found = test_inspect.inspect(tmp_path / "model.onnx")
    assert "of which one has steps or rows that the other has not" in found["reason"]
    assert "`rnnctl split`" in found["reason"]


def test_a_file_whose_output_cannot_be_given_is_no_bare_layer(tmp_path):
    """Its layer alone could be served, without the output that the file has."""
    g = whole_graphs.Graph(1)
    value = _layer_of(g)
    g.node("Reshape", [value.name, g.ints(-1, value.width)], "output")
    g.outputs.append(("output", g.data_type))
    onnx.save(g.model(), tmp_path / "model.onnx")
    found = test_inspect.inspect(tmp_path / "model.onnx")
    assert not found["loads"] and "joins steps or rows with other axes" in found["reason"], found
