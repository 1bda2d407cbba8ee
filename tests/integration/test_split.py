# SPDX-License-Identifier: Apache-2.0
"""rnnctl split: before and after in onnxruntime, served in the real server, give what onnxruntime gives for the whole
file; served whole and streamed. Random graphs, the real silero-vad, hostile files."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import session_calls
import split_graphs
import wire
from server_process import Server
from test_row_lengths import HIDDEN, ROWS, STEPS, WIDTH, Model

RNNCTL = pathlib.Path(os.environ.get("RNNSERVE_RNNCTL") or wire.REPOSITORY / "build/release/client/rnnctl/rnnctl")
CORPUS = pathlib.Path(os.environ.get("RNNSERVE_CORPUS_TEST") or
                      wire.REPOSITORY / "build/release/tests/fuzz/onnx_corpus_test")
COUNT = int(os.environ.get("RNNSERVE_GRAPHS", "60"))
TOLERANCE = 1e-4  # of max(1, |expected|)
MEMORY, SECONDS = 512 << 20, 10  # of rnnctl with a hostile file: address space, CPU time


def split(path, folder, *flags, run_in=()) -> subprocess.CompletedProcess:
    """`run_in`: a command that runs another one; not preexec_fn: that runs Python in a fork, beside gRPC's threads."""
    return subprocess.run([*run_in, RNNCTL, "split", path, "--output", folder, *flags], capture_output=True, text=True,
                          timeout=120, check=False)


def parts_of(path, folder, *flags) -> dict:
    done = split(path, folder, "--json", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def session(path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def infer(server, name, tensors):
    request = wire.recurrent_pb2.InferRequest()
    request.model.name = name
    request.inputs.extend(wire.tensor(key, value) for key, value in tensors.items())
    return wire.results(server.recurrent.Infer(request))


def streamed(server, name, part, tensors, cuts):
    """The served part's chunks joined along T, final states those of the last one."""
    steps = {i["name"]: i["shape"].strip("[]").split(", ") for i in part["inputs"] + part["outputs"]}
    rows = next(tensors[key].shape[axes.index("N")] for key, axes in steps.items() if key in tensors)
    sessions = wire.sessions_grpc.SessionsStub(server.channel)
    request = wire.sessions_pb2.OpenRequest(rows=rows)
    request.model.name = name
    opened = sessions.Open(request)
    replies = []
    for number, (first, end) in enumerate(zip(cuts, cuts[1:]), start=1):
        chunk = wire.sessions_pb2.Chunk(inputs=[
            wire.tensor(key, np.take(value, range(first, end), steps[key].index("T"))) for key, value in tensors.items()])
        operation = session_calls.operation(opened.session, number, chunk=chunk)
        reply = sessions.Apply(wire.sessions_pb2.ApplyRequest(operation=operation)).reply
        assert reply.status.code == 0, reply.status
        replies.append(session_calls.tensors(reply.outputs))
    return {key: np.concatenate([reply[key] for reply in replies], steps[key].index("T")) if "T" in steps[key]
            else replies[-1][key] for key in replies[0]}


def run_parts(found, feeds, served):
    """All values by name; `served` runs the part of that name."""
    values = dict(feeds)
    for part in found["parts"]:
        given = {i["name"]: values[i["name"]] for i in part["inputs"] if i["name"] in values}
        if part["name"] == "served":
            values.update(served(part, given))
        else:
            assert len(given) == len(part["inputs"])
            names = [o["name"] for o in part["outputs"]]
            values.update(zip(names, session(part["path"]).run(names, given)))
    return values


def same(mine, theirs, what):
    assert mine.shape == theirs.shape, what
    assert float(np.max(np.abs(mine - theirs) / np.maximum(1, np.abs(theirs)), initial=0)) <= TOLERANCE, what


# --- random graphs


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """[(case, path, parts, parts for streaming)], and a server that holds whole-K and stream-K."""
    root, models = tmp_path_factory.mktemp("split"), tmp_path_factory.mktemp("models")
    drawn = []
    for k in range(COUNT):
        case = split_graphs.draw(k)
        path = root / f"{k}.onnx"
        onnx.save(case.content, path)
        both = []
        for name, flags in (("whole", ()), ("stream", ("--stream",))):
            found = parts_of(path, root / f"{name}-{k}", *flags)
            served = next(part for part in found["parts"] if part["name"] == "served")
            target = models / f"{name}-{k}" / "1" / "model.onnx"
            target.parent.mkdir(parents=True)
            target.write_bytes(pathlib.Path(served["path"]).read_bytes())
            both.append(found)
        drawn.append((case, path, *both))
    running = Server(f"--models={models}", "--drain_timeout=100ms")  # sessions are left open
    assert not running.models.List(wire.models_pb2.ListModelsRequest()).failures
    yield running, drawn
    assert running.alive(), running.log()
    assert running.stop() == 0


def test_parts_give_what_the_whole_file_gives(cases):
    server, drawn = cases
    rng = np.random.default_rng(3)
    for k, (case, path, found, _) in enumerate(drawn):
        whole = session(path)
        for steps, rows in ((6, 3), (5, 1)):
            feeds = split_graphs.feeds(case, rng, steps, rows)
            values = run_parts(found, feeds, lambda _, given, k=k: infer(server, f"whole-{k}", given))
            for name, theirs in zip(case.outputs, whole.run(case.outputs, feeds)):
                same(values[name], theirs, (k, name, case.before, case.after))


def test_the_served_part_streams(cases):
    server, drawn = cases
    rng = np.random.default_rng(4)
    for k, (case, path, _, found) in enumerate(drawn):
        feeds = split_graphs.feeds(case, rng, 8, 2)

        def served(part, given, k=k):
            steps = next(value.shape[i["shape"].strip("[]").split(", ").index("T")] for i in part["inputs"]
                         for key, value in given.items() if key == i["name"] and "T" in i["shape"])
            cuts = sorted({0, steps, *(int(c) for c in rng.integers(0, steps, 2))})
            return streamed(server, f"stream-{k}", part, given, cuts)

        values = run_parts(found, feeds, served)
        for name, theirs in zip(case.outputs, session(path).run(case.outputs, feeds)):
            same(values[name], theirs, (k, name, case.before, case.after))


def test_a_server_gets_what_it_can_run(cases):
    """No part more than needed, and no operator outside that the server has."""
    _, drawn = cases
    met = set()
    for k, (case, _, found, streaming) in enumerate(drawn):
        names = [part["name"] for part in found["parts"]]
        assert ("before" in names) == (case.before != "none"), k
        if case.after == "skip" and case.before != "none":
            continue  # where the file does not tell the shape of what is skipped, it goes round the server
        along_time = ("pooling", "softmax", "conv", "running")
        assert ("after" in names) == (case.after in along_time), (k, names, case.after, found)
        assert ("after" in [part["name"] for part in streaming["parts"]]) == (case.after in (*along_time, "mean")), k
        assert bool(found["in_the_way"]) == (len(names) > 1)
        met.add((case.before, case.after))
    assert len(met) > 12


# --- what cannot be split, and files made to hurt


def lstm(name, x, y, hidden=4):
    node = helper.make_node("LSTM", [x, "w", "r"], [y], name=name, hidden_size=hidden)
    return [node, helper.make_node("Squeeze", [y, "one"], [y + "3"])]


def two_layers(path):
    """LSTM, a convolution over time, LSTM."""
    weights = [onnx.numpy_helper.from_array(np.full(shape, 0.1, np.float32), name)
               for name, shape in (("w", (1, 16, 4)), ("r", (1, 16, 4)), ("k", (4, 4, 3)))]
    weights.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
    nodes = [*lstm("first", "x", "y"), helper.make_node("Transpose", ["y3"], ["t"], perm=[1, 2, 0]),
             helper.make_node("Conv", ["t", "k"], ["c"], name="between", pads=[1, 1]),
             helper.make_node("Transpose", ["c"], ["u"], perm=[2, 0, 1]), *lstm("second", "u", "z")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", "N", 4])],
                              [helper.make_tensor_value_info("z3", TensorProto.FLOAT, None)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_what_lies_between_layers_is_named(tmp_path):
    path = tmp_path / "m.onnx"
    two_layers(path)
    done = split(path, tmp_path / "parts")
    assert done.returncode == 2
    assert 'name "between"' in done.stderr and 'name "first"' in done.stderr and "--node" in done.stderr, done.stderr
    assert not (tmp_path / "parts").exists()
    x = np.random.default_rng(1).normal(size=(5, 2, 4)).astype(np.float32)
    (theirs,) = session(path).run(None, {"x": x})
    for node, names in (("first", ["served", "after"]), ("second", ["before", "served"])):
        found = parts_of(path, tmp_path / node, "--node", node)
        assert [part["name"] for part in found["parts"]] == names
        values = run_parts(found, {"x": x}, lambda part, given: dict(
            zip([o["name"] for o in part["outputs"]],
                session(part["path"]).run([o["name"] for o in part["outputs"]], given))))
        same(values["z3"], theirs, node)


def test_what_is_not_zero_beyond_the_ends_of_rows_is_computed_after(tmp_path):
    """y + bias is the bias there in the file, which a convolution over time sees; an answer is zero."""
    random = np.random.default_rng(1)
    weights = [onnx.numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name)
               for name, shape in (("w", (1, 16, 3)), ("r", (1, 16, 4)), ("bias", (4,)), ("k", (2, 4, 3)))]
    weights.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
    nodes = [helper.make_node("Cast", ["lengths"], ["of_rows"], to=TensorProto.INT32),
             helper.make_node("LSTM", ["x", "w", "r", "", "of_rows"], ["y"], hidden_size=4),
             helper.make_node("Squeeze", ["y", "one"], ["y3"]), helper.make_node("Add", ["y3", "bias"], ["z"]),
             helper.make_node("Transpose", ["z"], ["t"], perm=[1, 2, 0]),
             helper.make_node("Conv", ["t", "k"], ["out"], pads=[1, 1])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", "N", 3]),
                                           helper.make_tensor_value_info("lengths", TensorProto.INT64, ["N"])],
                              [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["N", 2, "T"])], weights)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    found = parts_of(path, tmp_path / "parts")
    served = next(part for part in found["parts"] if part["name"] == "served")
    assert [output["name"] for output in served["outputs"]] == ["y3"]
    target = tmp_path / "models/m/1/model.onnx"
    target.parent.mkdir(parents=True)
    target.write_bytes(pathlib.Path(served["path"]).read_bytes())
    feeds = {"x": random.normal(size=(6, 3, 3)).astype(np.float32), "lengths": np.array([6, 2, 4])}
    server = Server(f"--models={tmp_path}/models")
    values = run_parts(found, feeds, lambda _, given: infer(server, "m", given))
    same(values["out"], session(path).run(None, feeds)[0], "lengths")
    assert server.stop() == 0


def test_what_is_behind_the_ends_of_rows_goes_with_what_sees_it(tmp_path):
    """Attention over masked scores, and over scores with a bias behind pack_padded_sequence: an answer is zero there."""
    made = {}
    for name in ("masked", "biased"):
        m = Model()
        y = m.rnn("x")[0] if name == "masked" else m.packed()[0]
        scores = m.node("Add", [y, m.weight(1)])
        if name == "masked":
            scores = m.node("Where", [m.mask(), scores, m.store(np.asarray(-1e9, np.float32))])
        weights = m.node("Softmax", [scores], axis=1)
        (tmp_path / f"{name}.onnx").write_bytes(
            m.giving(m.reduce("ReduceSum", m.node("Mul", [weights, y]), 1, 0)).SerializeToString())
        made[name] = parts_of(tmp_path / f"{name}.onnx", tmp_path / f"{name}-parts")
        served = next(part for part in made[name]["parts"] if part["name"] == "served")
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "1" / "model.onnx").write_bytes(pathlib.Path(served["path"]).read_bytes())
    running = Server(f"--models={tmp_path / 'models'}")
    feeds = {"x": np.random.default_rng(1).uniform(-1, 1, (3, 7, 4)).astype(np.float32), "lengths": np.array([7, 3, 5])}
    for name, found in made.items():
        values = run_parts(found, feeds, lambda _, given, name=name: infer(running, name, given))
        same(values["y0"], session(tmp_path / f"{name}.onnx").run(None, feeds)[0], name)
    assert running.stop() == 0


def _ended(m):
    """What ends a sequence behind packed layers: of the zeros there, or of the padding that requests bring."""
    y, h = m.packed()
    linear = m.node("Add", [m.node("MatMul", [y, m.weight(10, 3)]), m.weight(3)])
    last = m.node("Gather", [y, m.ints(-1, scalar=True)], axis=1)
    return [m.reduce("ReduceMean", y, 1, 0), m.reduce("ReduceMax", y, 1, 0), m.reduce("ReduceMin", y, 1, 0), last, h,
            m.reduce("ReduceSum", y, 1, 0), m.reduce("ReduceSum", linear, 1, 0), m.masked_max(linear), m.masked_mean(y),
            m.reduce("ReduceMax", m.node("Concat", [y, "x"], axis=-1), 1, 0)]


@pytest.mark.parametrize("output", range(10))
def test_what_counts_the_padding_is_computed_after(tmp_path, output):
    m = Model()
    (tmp_path / "m.onnx").write_bytes(m.giving(_ended(m)[output]).SerializeToString())
    found = parts_of(tmp_path / "m.onnx", tmp_path / "parts")
    served = next(part for part in found["parts"] if part["name"] == "served")
    assert len(found["parts"]) == (2 if output == 9 else 1), found
    assert output != 9 or "looks beyond the ends of rows" in found["in_the_way"][0]
    target = tmp_path / "models/m/1/model.onnx"
    target.parent.mkdir(parents=True)
    target.write_bytes(pathlib.Path(served["path"]).read_bytes())
    server = Server(f"--models={tmp_path}/models")
    random = np.random.default_rng(1)
    for lengths in ([7, 3, 5], [4, 2, 5], [0, 3, 7]):
        feeds = {"x": random.uniform(-1, 1, (3, 7, 4)).astype(np.float32), "lengths": np.array(lengths)}
        values = run_parts(found, feeds, lambda _, given: infer(server, "m", given))
        (theirs,) = session(tmp_path / "m.onnx").run(None, feeds)
        np.testing.assert_allclose(values["y0"], theirs, rtol=1e-5, atol=1e-5)
    assert server.stop() == 0


def _pooled(m, y):
    return m.node("AveragePool", [m.node("Transpose", [y], perm=[0, 2, 1])], kernel_shape=[STEPS])


def _flat(m, y):
    product = m.node("MatMul", [m.node("Reshape", [y, m.ints(ROWS * STEPS, HIDDEN)]), m.weight(HIDDEN, 2)])
    return m.node("Reshape", [product, m.ints(ROWS, STEPS, 2)])


def _two_ways(m, y, turned_back=True):
    back = m.rnn(m.flip("x"))[0]
    return m.node("Concat", [y, m.flip(back) if turned_back else back], axis=2)


def _parts(m, y):
    names = [m.name("part") for _ in range(10)]
    m.nodes.append(helper.make_node("Split", [m.node("Concat", [y, y], axis=2), m.ints(*[1] * 10)], names, axis=2, name="parts"))
    return m.node("Concat", names[::-1], axis=2)


def _masked_twice(m, _, mask_first=True):
    """By a count of the steps, which layers or x before the mask tell which they are, and by constants; the layer takes lengths of
    another type."""
    ends = m.node("Unsqueeze", [m.node("Cast", ["lengths"], to=TensorProto.INT64), m.ints(1)])
    steps = m.node("Gather", [m.node("Shape", ["x"]), m.ints(1, scalar=True)], axis=0)
    value = "x"
    for count in (m.node("Range", [m.ints(0, scalar=True), steps, m.ints(1, scalar=True)]), m.counting("x", 1)):
        mask = m.node("Cast", [m.node("Less", [count, ends])], to=TensorProto.FLOAT)
        mask = m.node("Unsqueeze", [mask, m.ints(2)])
        value = m.node("Mul", [mask, value] if mask_first else [value, mask])
    y = m.rnn(value, lengths=m.node("Cast", ["lengths"], to=TensorProto.INT32))[0]
    return y, y  # the only layer


def _computed(m):
    return m.node("Sin", [m.weight(HIDDEN)])


def _convolved(m):
    turned = m.node("Transpose", ["x"], perm=[0, 2, 1])
    made = m.node("Relu", [m.node("Conv", [turned, m.weight(WIDTH, WIDTH, 3)], pads=[1, 1])])
    return m.node("Transpose", [made], perm=[0, 2, 1])


def _behind_convolution(m, _):
    y = m.rnn(_convolved(m))[0]
    return y, y


def _packed_behind_convolution(m, _):
    lengths, order, back = m.order()
    y = m.node("Gather", [m.rnn(m.node("Gather", [_convolved(m), order], axis=0), lengths=lengths)[0], back], axis=0)
    return y, y


# What is computed of a layer's y, or of x: (whether T and N are open, the graph, what is in the way, and with --stream).
# A running sum is always in the way.
def _product(m):
    return m.reduce("ReduceProd", m.node("Add", ["x", "x"]), 2, 0)


def _sum_of_a_mask(m):
    m.inputs.append(("mask", TensorProto.FLOAT, ["n", "t"]))
    return m.reduce("ReduceSum", "mask", 1, 0)


@pytest.mark.parametrize("flags", [(), ("--stream",)])
@pytest.mark.parametrize("make, text", [(_product, "multiplies the numbers along an axis"), (_sum_of_a_mask, "goes along axis 1 of"), (
    lambda m: m.node("Add", ["x", "x"]), "computes a graph output of what no layer has to do with")])
def test_what_is_beside_the_layers_is_told(tmp_path, make, text, flags):
    m = Model(lengths=False)
    y = m.rnn("x")[0]
    onnx.save(onnx.shape_inference.infer_shapes(m.giving(y, make(m))), tmp_path / "model.onnx")
    found = parts_of(tmp_path / "model.onnx", tmp_path / "parts", *flags)
    assert [part["name"] for part in found["parts"]] == ["served", "after"]
    assert len(found["in_the_way"]) == 1 and text in found["in_the_way"][0], found["in_the_way"]


CUTS = {
    "reshape to fixed sizes": (False, _flat, [], []),
    "step T - 1": (False, lambda m, y: m.node("Gather", [y, m.ints(STEPS - 1)], axis=1), [], ["Gather"]),
    "steps T - 1 to T": (False, lambda m, y: m.node("Slice", [y, m.ints(STEPS - 1), m.ints(STEPS), m.ints(1)]), [], ["Slice"]),
    "steps 0 to T": (False, lambda m, y: m.node("Slice", [y, m.ints(-STEPS), m.ints(STEPS), m.ints(1)]), [], []),
    "mean of T steps": (False, _pooled, [], ["AveragePool"]),
    "mask of T steps": (False, lambda m, y: m.masked_max(y), [], ["ReduceMax"]),
    "both ways": (True, _two_ways, [], ["Slice", "Slice"]),
    "both ways, joined unturned": (True, lambda m, y: _two_ways(m, y, turned_back=False), ["Concat", "Slice"], ["Slice"]),
    "unturned": (True, lambda m, y: m.flip(y), ["Slice"], ["Slice"]),
    "ten parts": (True, _parts, [], []),
    "mean by a product": (True, lambda m, y: m.reduce("ReduceSum", m.node("Div", [m.kept(y), m.node("Cast", [m.node(
        "Unsqueeze", ["lengths", m.ints(1, 2)])], to=TensorProto.FLOAT)]), 1, 0), ["Div"], ["Cast"]),
    "x less its mean": (True, lambda m, _: m.rnn(m.node("Sub", ["x", m.reduce("ReduceMean", "x", 1, 1)]))[0], ["Sub"], ["ReduceMean"]),
    "y and its mean": (True, lambda m, y: m.node("Add", [y, m.node("MatMul", [m.reduce(
        "ReduceMean", "x", 1, 1), m.weight(WIDTH, HIDDEN)])]), ["Add"], ["ReduceMean"]),
    "two masks and lengths": (False, _masked_twice, ["Cast", "Less"], ["Cast", "Less"]),
    "x, two masks and lengths": (False, lambda m, y: _masked_twice(m, y, mask_first=False), [], []),
    "a constant that is computed": (True, lambda m, y: m.node("Mul", [m.node("Add", [y, _computed(m)]), _computed(m)]),
                                    ["Add", "Sin"], ["Add", "Sin"]),
    "behind a convolution": (False, _behind_convolution, ["Conv"], ["Conv"]),
    "packed behind a convolution": (True, _packed_behind_convolution, ["Conv"], ["Conv"]),
    "LogSumExp over time": (True, lambda m, y: m.reduce("ReduceLogSumExp", y, 1, 0), ["ReduceLogSumExp"], ["ReduceLogSumExp"]),
    "another padding of each feature": (True, lambda m, y: m.reduce("ReduceMax", m.node(
        "Where", [m.mask(), y, m.weight(HIDDEN)]), 1, 0), [], ["ReduceMax"]),
}


@pytest.mark.parametrize("tells_shapes", [False, True])
def test_a_served_part_loads_and_the_parts_give_the_files_numbers(tmp_path, tells_shapes):
    made = {}
    for k, (name, (dynamic, graph, ways, ways_of_stream)) in enumerate(CUTS.items()):
        m = Model(dynamic, lengths=any(word in name for word in ("mask", "mean by", "packed", "padding")))
        lengths = m.node("Cast", ["lengths"], to=TensorProto.INT32) if len(m.inputs) > 1 else ""
        y = m.rnn("x", lengths=lengths)[0]
        made_of_y = graph(m, y)
        value, y = made_of_y if isinstance(made_of_y, tuple) else (made_of_y, y)
        content = m.giving(value, m.node("CumSum", [y, m.ints(1, scalar=True)]))
        onnx.save(onnx.shape_inference.infer_shapes(content) if tells_shapes else content, tmp_path / f"{k}.onnx")
        for flags, expected in (((), ways), (("--stream",), ways_of_stream)):
            found = parts_of(tmp_path / f"{k}.onnx", tmp_path / f"{k}{''.join(flags)}", *flags)
            assert not tells_shapes or sorted(re.findall('op_type "([^"]+)"', " ".join(found["in_the_way"]))) == sorted(["CumSum", *expected]), (
                name, flags, found["in_the_way"])
            served = next(part for part in found["parts"] if part["name"] == "served")
            target = tmp_path / "models" / f"{k}{''.join(flags)}" / "1" / "model.onnx"
            target.parent.mkdir(parents=True)
            target.write_bytes(pathlib.Path(served["path"]).read_bytes())
            made[target.parent.parent.name] = (name, tmp_path / f"{k}.onnx", found)
    server = Server(f"--models={tmp_path / 'models'}")
    assert not server.models.List(wire.models_pb2.ListModelsRequest()).failures
    random = np.random.default_rng(1)
    for model, (name, path, found) in made.items():
        whole = session(path)
        feeds = {"x": random.uniform(-1, 1, (ROWS, STEPS, WIDTH)).astype(np.float32), "lengths": np.array([7, 2, 4])}
        feeds = {i.name: feeds[i.name] for i in whole.get_inputs()}
        values = run_parts(found, feeds, lambda _, given, model=model: infer(server, model, given))
        for output, theirs in zip(whole.get_outputs(), whole.run(None, feeds)):
            same(values[output.name], theirs, (name, model, output.name))
    assert server.stop() == 0


def test_a_refusal_names_nodes_as_the_file_numbers_them(tmp_path):
    """Two layers that begin with one state, behind a convolution that a served part has not."""
    m = Model(lengths=False)
    m.inputs.append(("h0", TensorProto.FLOAT, [1, "n", HIDDEN]))
    y = m.rnn(m.rnn(_convolved(m))[0], width=HIDDEN)[0]
    layers = [k for k, node in enumerate(m.nodes) if node.op_type == "GRU"]
    for k in layers:
        m.nodes[k].input.append("h0")
    onnx.save(m.giving(y), tmp_path / "m.onnx")
    assert f"m.onnx: the initial state of node {layers[0]} (" in split(tmp_path / "m.onnx", tmp_path / "parts").stderr


@pytest.mark.parametrize("takes_lengths", [False, True])
def test_an_encoder_and_its_decoder_are_served_one_by_one(tmp_path, takes_lengths):
    m = Model(lengths=takes_lengths)
    m.inputs.append(("decoded", TensorProto.FLOAT, ["n", "t", WIDTH]))
    lengths = m.node("Cast", ["lengths"], to=TensorProto.INT32) if takes_lengths else ""
    _, final = m.rnn("x", lengths=lengths)
    answers, _ = m.rnn("decoded")
    encoder, decoder = (node for node in m.nodes if node.op_type == "GRU")
    decoder.input.append(final)
    onnx.save(m.giving(answers), tmp_path / "m.onnx")
    done = split(tmp_path / "m.onnx", tmp_path / "parts")
    assert done.returncode == 2 and "--node" in done.stderr, done.stderr
    random = np.random.default_rng(1)
    feeds = {name: random.uniform(-1, 1, (ROWS, STEPS, WIDTH)).astype(np.float32) for name in ("x", "decoded")}
    feeds |= {"lengths": np.array([7, 2, 4])} if takes_lengths else {}
    found = [parts_of(tmp_path / "m.onnx", tmp_path / node.name.strip("/"), "--node", node.name) for node in (encoder, decoder)]
    for k, parts in enumerate(found):
        served = next(part for part in parts["parts"] if part["name"] == "served")
        assert [n.op_type for n in onnx.load(served["path"]).graph.node].count("GRU") == 1
        (tmp_path / "models" / str(k) / "1").mkdir(parents=True)
        (tmp_path / "models" / str(k) / "1" / "model.onnx").write_bytes(pathlib.Path(served["path"]).read_bytes())
    server = Server(f"--models={tmp_path / 'models'}")
    for k, parts in enumerate(found):
        values = run_parts(parts, feeds, lambda _, given, k=k: infer(server, str(k), given))
        same(values["y0"], session(tmp_path / "m.onnx").run(None, feeds)[0], (k, takes_lengths))
    assert server.stop() == 0


def test_a_layer_that_reads_backwards_is_not_split_for_a_stream(tmp_path):
    m = Model(lengths=False)
    (tmp_path / "m.onnx").write_bytes(m.giving(m.rnn("x", direction="bidirectional")[0]).SerializeToString())
    done = split(tmp_path / "m.onnx", tmp_path / "parts", "--stream")
    assert done.returncode == 2
    assert 'direction is "bidirectional"' in done.stderr and "without --stream" in done.stderr, done.stderr


def test_hostile_files_take_little_time_and_memory(tmp_path):
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    subprocess.run([CORPUS, "--gtest_filter=OnnxCorpus.AsItIs"], check=True, capture_output=True,
                   env={**os.environ, "RNNSERVE_FUZZ_CORPUS": str(hostile)})

    limit = ("prlimit", f"--as={MEMORY}", f"--cpu={SECONDS}")
    codes = []
    for path in sorted(hostile.iterdir()):
        done = split(path, tmp_path / "parts", run_in=limit)
        assert done.returncode in (0, 2), f"{path}: {done.returncode} {done.stderr[:500]}"
        assert done.returncode == 0 or str(path) in done.stderr
        codes.append(done.returncode)
    assert codes.count(2) > 20


# --- silero-vad


def test_silero_of_whole_recordings(silero, tmp_path):
    """Its convolutions and the last reshape in onnxruntime; LSTM and decision head in the server, whole and in chunks."""
    path = silero / "silero_vad_16k_sequence.onnx"
    target = tmp_path / "models" / "vad" / "1" / "model.onnx"
    target.parent.mkdir(parents=True)
    found = parts_of(path, tmp_path / "parts")
    served = next(part for part in found["parts"] if part["name"] == "served")
    target.write_bytes(pathlib.Path(served["path"]).read_bytes())
    assert [node.op_type for node in onnx.load(target).graph.node if node.op_type in ("LSTM", "Conv", "Sigmoid")] == [
        "LSTM", "Conv", "Sigmoid"]
    rng = np.random.default_rng(1)
    zeros = np.zeros((1, 1, 128), np.float32)
    feeds = {"input": rng.normal(size=(31, 576)).astype(np.float32) * 0.3, "h": zeros, "c": zeros}
    names = ["speech_probs", "hn", "cn"]
    theirs = dict(zip(names, session(path).run(names, feeds)))
    running = Server(f"--models={tmp_path / 'models'}", "--drain_timeout=100ms")

    def in_chunks(part, given):
        x = {name: value for name, value in given.items() if name not in ("h", "c")}
        return streamed(running, "vad", part, x, [0, 1, 2, 12, 31])

    for how in (lambda _, given: infer(running, "vad", given), in_chunks):
        values = run_parts(found, feeds, how)
        for name in names:
            same(values[name], theirs[name], name)
    assert running.stop() == 0


def test_silero_inside_the_branches_of_its_ifs(silero, tmp_path):
    path = silero / "silero_vad.onnx"
    listed = json.loads(subprocess.run([RNNCTL, "inspect", path, "--json"], capture_output=True, text=True,
                                       check=True).stdout)["nodes"]
    node = next(n for n in listed if n["path"][0] == "If_0.then_branch" and n["path"][1].endswith("then_branch"))
    found = parts_of(path, tmp_path / "parts", "--node", str(node["number"]))
    assert found["taken_for_granted"] == node["path"]
    served = next(part for part in found["parts"] if part["name"] == "served")
    target = tmp_path / "models" / "vad" / "1" / "model.onnx"
    target.parent.mkdir(parents=True)
    target.write_bytes(pathlib.Path(served["path"]).read_bytes())
    rng = np.random.default_rng(2)
    feeds = {"input": rng.normal(size=(3, 576)).astype(np.float32) * 0.3,
             "state": rng.normal(size=(2, 3, 128)).astype(np.float32) * 0.5}
    theirs = session(path).run(["output", "stateN"], {**feeds, "sr": np.array(16000, np.int64)})
    running = Server(f"--models={tmp_path / 'models'}", "--drain_timeout=100ms")
    values = run_parts(found, feeds, lambda _, given: infer(running, "vad", given))
    for name, value in zip(("output", "stateN"), theirs):
        same(values[name], value, name)
    assert running.stop() == 0
