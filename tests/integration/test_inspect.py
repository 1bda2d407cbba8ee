# SPDX-License-Identifier: Apache-2.0
"""rnnctl inspect and extract: real files whose weights the graph computes, random ones, and hostile ones, against
onnxruntime and in the real server."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_graphs
import wire
from server_process import Server

RNNCTL = pathlib.Path(os.environ.get("RNNSERVE_RNNCTL") or wire.REPOSITORY / "build/release/client/rnnctl/rnnctl")
CORPUS = pathlib.Path(os.environ.get("RNNSERVE_CORPUS_TEST") or
                      wire.REPOSITORY / "build/release/tests/fuzz/onnx_corpus_test")
TOLERANCE = 1e-5
HOSTILE_MEMORY = 512 << 20  # address space of rnnctl while it reads a hostile file; the largest has 3 MB
HOSTILE_SECONDS = 10        # of CPU time


def rnnctl(*words, run_in=(), **options) -> subprocess.CompletedProcess:
    """`run_in`: a command that runs another one; not preexec_fn: that runs Python in a fork, beside gRPC's threads."""
    return subprocess.run([*run_in, RNNCTL, *map(str, words)], capture_output=True, text=True, timeout=120, check=False,
                          **options)


def inspect(path) -> dict:
    done = rnnctl("inspect", path, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def extract(path, node, target) -> onnx.ModelProto:
    done = rnnctl("extract", path, "--node", node, "-o", target)
    assert done.returncode == 0, done.stderr
    model = onnx.load(target)
    onnx.checker.check_model(model)
    return model


def session(model) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    content = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def infer(server, model: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    request = wire.recurrent_pb2.InferRequest()
    request.model.name = model
    request.inputs.extend(wire.tensor(name, value) for name, value in inputs.items())
    return wire.results(server.recurrent.Infer(request))


def same(mine, theirs, what):
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=TOLERANCE, err_msg=what)


# --- silero-vad: four LSTM nodes in the branches of If nodes, weights sliced and concatenated in the graph


@pytest.fixture(name="silero", scope="module")
def silero_file(silero):
    return silero / "silero_vad.onnx"


@pytest.fixture(scope="module")
def served_silero(silero, tmp_path_factory):
    """The nodes as inspect lists them, and a server that holds each, extracted, as model nodeNUMBER."""
    root = tmp_path_factory.mktemp("models")
    nodes = inspect(silero)["nodes"]
    for node in nodes:
        extract(silero, node["name"], root / f"node{node['number']}" / "1" / "model.onnx")
    running = Server(f"--models={root}")
    yield running, root, nodes
    assert running.alive(), running.log()
    assert running.stop() == 0


def test_silero_is_inspected(silero):
    found = inspect(silero)
    assert not found["loads"] and "has an If" in found["reason"]
    assert [(n["op_type"], n["input_size"], n["hidden_size"], n["loads"]) for n in found["nodes"]] == [
        ("LSTM", 128, 128, "extract")] * 4
    for node in found["nodes"]:
        assert node["weight_bytes"] == 4 * (2 * 512 * 128 + 1024)
        assert node["state_bytes"] == 2 * 128 * 4
        assert node["computed_weights"] == ["W", "R", "B"]
        assert len(node["path"]) == 2
    assert {n["path"][0] for n in found["nodes"]} == {"If_0.then_branch", "If_0.else_branch"}
    assert {n["path"][1].rsplit(".", 1)[1] for n in found["nodes"]} == {"then_branch", "else_branch"}


def test_silero_in_the_server_as_extracted(served_silero):
    server, root, nodes = served_silero
    rng = np.random.default_rng(1)
    for node in nodes:
        inputs = {"X": rng.normal(size=(9, 3, 128)).astype(np.float32),
                  "initial_h": rng.normal(size=(1, 3, 128)).astype(np.float32),
                  "initial_c": rng.normal(size=(1, 3, 128)).astype(np.float32)}
        name = f"node{node['number']}"
        theirs = session(root / name / "1" / "model.onnx").run(["Y", "Y_h", "Y_c"], inputs)
        mine = infer(server, name, inputs)
        for output, value in zip(["Y", "Y_h", "Y_c"], theirs):
            same(mine[output], value, f"{name} {output}")


def test_silero_in_the_server_as_inside_the_original(silero, served_silero):
    """The original file runs on noise, its LSTM nodes' inputs and outputs are brought out of their branches."""
    server, _, nodes = served_silero
    rng = np.random.default_rng(2)
    ran = set()
    for node in nodes:
        model = onnx.load(silero)
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.ClearField("shape")  # the state may be empty: the other branch
        graph, _ = onnx_graphs.find(model.graph, node["name"])
        lstm = onnx_graphs.node_of(graph, node["name"])
        values = [lstm.input[0], lstm.input[5], lstm.input[6], *lstm.output]
        probes = onnx_graphs.expose(model, node["name"], values)
        original = session(model)
        for rate, samples in ((16000, 576), (8000, 288)):
            for layers in (2, 0):
                feeds = {"input": rng.normal(size=(2, samples)).astype(np.float32) * 0.3,
                         "state": rng.normal(size=(layers, 2, 128)).astype(np.float32) * 0.5,
                         "sr": np.array(rate, np.int64)}
                x, h, c, y, y_h, y_c = original.run(probes, feeds)
                if x.shape != (1, 2, 128):
                    continue  # another branch ran
                ran.add(node["number"])
                mine = infer(server, f"node{node['number']}", {"X": x, "initial_h": h, "initial_c": c})
                assert np.abs(y).max() > 0.01
                for output, value in (("Y", y), ("Y_h", y_h), ("Y_c", y_c)):
                    same(mine[output], value.reshape(mine[output].shape), f"{node['name']} {output}")
    assert ran == {1, 2, 3, 4}


# --- weights computed by random trees of nodes


def folded_model(seed: int):
    """A GRU in a branch of an If, its weights computed in the main graph and in the branch; the weights' values."""
    rng = np.random.default_rng(seed)
    opset = int(rng.choice([9, 11, 14, 18]))
    directions, inputs, hidden = (int(n) for n in rng.integers(1, [3, 5, 4]))
    weights = {"W": rng.normal(size=(directions, 3 * hidden, inputs)).astype(np.float32),
               "R": rng.normal(size=(directions, 3 * hidden, hidden)).astype(np.float32),
               "B": rng.normal(size=(directions, 6 * hidden)).astype(np.float32)}
    outside, inside = onnx_graphs.FoldedConstant(rng, opset), onnx_graphs.FoldedConstant(rng, opset)
    inside._count = 1000  # names of their own
    for name, value in weights.items():
        (outside if rng.random() < 0.5 else inside).add(value, 4, name)
    gru = helper.make_node("GRU", ["x", "W", "R", "B"], ["Y", "Y_h"], name="the gru", hidden_size=hidden,
                           direction="bidirectional" if directions == 2 else "forward")
    y = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
    branch = helper.make_graph([*inside.nodes, gru], "branch", [], [y], inside.initializers)
    zero = helper.make_node("Constant", [], ["Y"], value=numpy_helper.from_array(
        np.zeros((1, directions, 1, hidden), np.float32)))
    other = helper.make_graph([zero], "other", [], [y])
    graph = helper.make_graph(
        [*outside.nodes, helper.make_node("If", ["condition"], ["out"], then_branch=branch, else_branch=other)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, None, inputs]),
         helper.make_tensor_value_info("condition", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)], outside.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model, weights, inputs, outside.ops | inside.ops


def test_the_server_folds_when_it_loads(tmp_path):
    """The same trees without an If: models as they are."""
    cases = {}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        opset = int(rng.choice([9, 11, 14, 18]))
        weights = {"W": rng.normal(size=(1, 20, 3)), "R": rng.normal(size=(1, 20, 5)), "B": rng.normal(size=(1, 40))}
        tree = onnx_graphs.FoldedConstant(rng, opset)
        for name, value in weights.items():
            tree.add(value.astype(np.float32), 5, name)
        lstm = helper.make_node("LSTM", ["x", *weights], ["Y", "Y_h", "Y_c"], hidden_size=5)
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "Y", "Y_h", "Y_c")]
        graph = helper.make_graph([*tree.nodes, lstm], "g", values[:1], values[1:], tree.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        path = tmp_path / f"folded{seed}" / "1" / "model.onnx"
        path.parent.mkdir(parents=True)
        onnx.save(model, path)
        x = rng.normal(size=(7, 2, 3)).astype(np.float32)
        cases[f"folded{seed}"] = (x, session(model).run(None, {"x": x}))
    running = Server(f"--models={tmp_path}")
    for name, (x, theirs) in cases.items():
        mine = infer(running, name, {"X": x})
        for output, value in zip(("Y", "Y_h", "Y_c"), theirs):
            same(mine[output], value, f"{name} {output}")
    assert running.stop() == 0


def test_random_trees_of_nodes_fold_as_onnxruntime_computes_them(tmp_path):
    ops = set()
    for seed in range(40):
        model, weights, inputs, used = folded_model(seed)
        ops |= used
        source = tmp_path / f"{seed}.onnx"
        onnx.save(model, source)
        alone = extract(source, "the gru", tmp_path / f"{seed}.alone.onnx")
        stored = {t.name: numpy_helper.to_array(t) for t in alone.graph.initializer}
        for name, value in weights.items():
            np.testing.assert_array_equal(stored[name], value, err_msg=f"seed {seed}, {name}")
        x = np.random.default_rng(seed).normal(size=(5, 2, inputs)).astype(np.float32)
        (theirs,) = session(model).run(None, {"x": x, "condition": np.array(True)})
        (mine, _) = session(alone).run(None, {"X": x})
        np.testing.assert_array_equal(mine, theirs, err_msg=f"seed {seed}")
    assert ops == {"Cast", "Concat", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}


# --- whole models


def test_a_whole_model_is_shown_stage_by_stage(tmp_path):
    def value_info(name, data_type, shape):
        return helper.make_tensor_value_info(name, data_type, shape)

    rng = np.random.default_rng(1)
    stored = {"table": rng.normal(size=(50, 6)), "W": rng.normal(size=(2, 20, 6)), "R": rng.normal(size=(2, 20, 5)),
              "out": rng.normal(size=(10, 7)), "bias": rng.normal(size=7), "head": rng.normal(size=(7, 3))}
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["X"]),
             helper.make_node("LSTM", ["X", "W", "R"], ["Y"], hidden_size=5, direction="bidirectional"),
             helper.make_node("Transpose", ["Y"], ["turned"], perm=[0, 2, 1, 3]),
             helper.make_node("Reshape", ["turned", "joined"], ["states"]),
             helper.make_node("MatMul", ["states", "out"], ["product"]),
             helper.make_node("Add", ["product", "bias"], ["logits"]),
             helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
             helper.make_node("ReduceMean", ["logits"], ["mean"], axes=[0], keepdims=0),
             helper.make_node("MatMul", ["mean", "head"], ["class"])]
    initializers = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in stored.items()]
    initializers.append(numpy_helper.from_array(np.array([0, 0, -1]), "joined"))
    graph = helper.make_graph(nodes, "g", [value_info("tokens", TensorProto.INT64, ["t", "n"])],
                              [value_info(name, TensorProto.FLOAT, None) for name in ("probabilities", "class")],
                              initializers)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    stages = inspect(path)["stages"]
    assert [(stage["runs"], stage["what"]) for stage in stages] == [
        ("map", "Lookup 50x6"), ("layer", "LSTM-14 6 to 10, bidirectional"), ("map", "Product 10x7 + bias, Softmax"),
        ("row", "Product 7x3")]
    assert [stage["bytes"] for stage in stages] == [50 * 6 * 4, 2 * 20 * 11 * 4, (10 * 7 + 7) * 4, 7 * 3 * 4]
    assert stages[1]["step_work"] == 2 * 20 * 11 and all(stage["step_work"] > 0 for stage in stages)
    text = rnnctl("inspect", path).stdout
    assert "STAGE  RUNS   BYTES  WORK A STEP  WHAT\n" in text and "Product 10x7 + bias, Softmax\n" in text


# --- files made to hurt


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    subprocess.run([CORPUS, "--gtest_filter=OnnxCorpus.AsItIs"], check=True, capture_output=True,
                   env={**os.environ, "RNNSERVE_FUZZ_CORPUS": str(folder)})
    return sorted(folder.iterdir())


def test_hostile_files_take_little_time_and_memory(hostile):
    limit = ("prlimit", f"--as={HOSTILE_MEMORY}", f"--cpu={HOSTILE_SECONDS}")
    assert len(hostile) > 40
    for path in hostile:
        done = rnnctl("inspect", path, run_in=limit)
        assert done.returncode in (0, 2), f"{path}: {done.returncode} {done.stderr[:500]}"
        if done.returncode == 2:
            assert str(path) in done.stderr


def test_a_repository_of_hostile_files(hostile, tmp_path):
    """The server starts, says of each file why not, and holds on to none of their memory."""
    for path in hostile:
        folder = tmp_path / f"m{path.name}" / "1"
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(path.read_bytes())
    running = Server(f"--models={tmp_path}")
    listed = running.models.List(wire.models_pb2.ListModelsRequest())
    assert len(listed.models) + len(listed.failures) == len(hostile)
    assert len(listed.models) == 20  # three operators, three opsets, one or two directions; two stacks
    assert all(f.path.endswith("model.onnx") and f.reason for f in listed.failures)
    assert running.resident_kib() < 512 << 10
    assert running.stop() == 0
