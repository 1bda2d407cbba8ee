# SPDX-License-Identifier: Apache-2.0
"""rnnctl extract of several nodes: the file gives the numbers of the nodes extracted one by one, in onnxruntime and in the
server, and nodes that do not feed one another are refused by name."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import stack_graphs
import test_inspect
import whole_graphs
from server_process import Server

SHAPES = [
    stack_graphs.Stack(ops=("LSTM", "GRU", "RNN"), hidden_sizes=(5, 4, 3), finals="apart"),
    stack_graphs.Stack(ops=("LSTM", "LSTM", "LSTM"), hidden_sizes=(5, 5, 5), directions=2, states="zeros", opset=9),
    stack_graphs.Stack(ops=("GRU", "GRU", "GRU"), hidden_sizes=(4, 4, 4), directions=2, joint="sizes", states="sliced"),
    stack_graphs.Stack(ops=("RNN", "LSTM", "GRU"), hidden_sizes=(4, 6, 3), joint="keras", states="apart", batch_first=True),
    stack_graphs.Stack(ops=("LSTM", "GRU", "LSTM"), hidden_sizes=(3, 4, 5), opset=18, lengths=True, seed=4),
]
PARTS = [(0, 1), (1, 2), (0, 1, 2)]


def _feeds(model, rng, steps, rows):
    made = {}
    for value in model.graph.input:
        shape = [{"T": steps, "N": rows}.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
        made[value.name] = (np.asarray([steps, 2, 1][:rows], np.int32) if value.name == "sequence_lens"
                            else rng.normal(size=shape).astype(np.float32))
    return made


def _one_by_one(models, feeds):
    """The nodes' own files in onnxruntime, each fed with what the one before gives."""
    value, results = feeds["X"], {}
    for k, model in enumerate(models):
        own = {"X": value}
        for name in (i.name for i in model.graph.input):
            if name == "sequence_lens":
                own[name] = feeds[name]
            elif name != "X":
                own[name] = feeds[f"{name}.{k}"]
        named = dict(zip([o.name for o in model.graph.output], test_inspect.session(model).run(None, own)))
        results.update({f"{name}.{k}": given for name, given in named.items() if name != "Y"})
        results["Y"] = named["Y"]
        value = named["Y"].transpose(0, 2, 1, 3).reshape(*value.shape[:2], -1)
    return results


@pytest.fixture(scope="module")
def extracted(tmp_path_factory):
    """A server with parts of each chain, as (name, the part, its nodes one by one)."""
    root, sources = tmp_path_factory.mktemp("stacks"), tmp_path_factory.mktemp("sources")
    found = []
    for number, shape in enumerate(SHAPES):
        source = sources / f"{number}.onnx"
        onnx.save(stack_graphs.model(shape), source)
        nodes = [f"/rnn/{op}_{k}" for k, op in enumerate(shape.ops)]
        alone = [test_inspect.extract(source, node, sources / f"{number}.{k}.onnx") for k, node in enumerate(nodes)]
        for part in PARTS:
            name = f"stack{number}-" + "".join(map(str, part))
            # The order in which they are named is not the order in which they run.
            words = ",".join(nodes[k] for k in reversed(part))
            model = test_inspect.extract(source, words, root / name / "1" / "model.onnx")
            found.append((name, model, [alone[k] for k in part]))
    running = Server(f"--models={root}")
    yield running, found
    assert running.alive(), running.log()
    assert running.stop() == 0


def test_a_stack_gives_what_its_nodes_give_one_by_one(extracted):
    server, found = extracted
    rng = np.random.default_rng(1)
    for name, model, alone in found:
        feeds = _feeds(model, rng, 7, 3)
        expected = _one_by_one(alone, feeds)
        theirs = dict(zip([o.name for o in model.graph.output], test_inspect.session(model).run(None, feeds)))
        mine = test_inspect.infer(server, name, feeds)
        assert list(theirs) == list(mine) and set(theirs) == set(expected), name
        for output, value in expected.items():
            test_inspect.same(theirs[output], value, f"{name} {output} in onnxruntime")
            test_inspect.same(mine[output], value, f"{name} {output} in the server")


def test_node_may_be_given_again(tmp_path):
    source = tmp_path / "source.onnx"
    onnx.save(stack_graphs.model(SHAPES[0]), source)
    files = []
    for k, words in enumerate((["--node", "1,2"], ["--node=2", "--node=/rnn/LSTM_0"])):
        target = tmp_path / f"{k}.onnx"
        done = test_inspect.rnnctl("extract", source, *words, "-o", target)
        assert done.returncode == 0, done.stderr
        files.append(target.read_bytes())
    assert files[0] == files[1]


def test_whole_models_layers_with_what_lies_between(tmp_path):
    """Of random whole models: either all layers make a stack, with the numbers of onnxruntime, or the refusal names one."""
    names = []
    for seed in range(60):
        whole = whole_graphs.draw(seed)
        layers = [n.name for n in whole.content.graph.node if n.op_type in whole_graphs.GATES]
        if len(layers) < 2:
            continue
        source, target = tmp_path / f"{seed}.onnx", tmp_path / "models" / f"whole{seed}" / "1" / "model.onnx"
        onnx.save(whole.content, source)
        done = test_inspect.rnnctl("extract", source, *(f"--node={name}" for name in layers), "-o", target)
        if done.returncode == 0:
            names.append(f"whole{seed}")
        else:
            assert any(name in done.stderr for name in [*layers, "back (PyTorch: flip;"]), (seed, done.stderr)
    assert len(names) > 20
    running = Server(f"--models={tmp_path / 'models'}")
    rng = np.random.default_rng(2)
    for name in names:
        model = onnx.load(tmp_path / "models" / name / "1" / "model.onnx")
        feeds = _feeds(model, rng, 6, 2)
        theirs = dict(zip([o.name for o in model.graph.output], test_inspect.session(model).run(None, feeds)))
        mine = test_inspect.infer(running, name, feeds)
        assert list(mine) == list(theirs), name
        for output, value in theirs.items():
            test_inspect.same(mine[output], value, f"{name} {output}")
    assert running.stop() == 0


def test_nodes_that_do_not_feed_one_another_are_refused(tmp_path):
    source = tmp_path / "source.onnx"
    onnx.save(stack_graphs.model(SHAPES[0]), source)
    for words, text in ((["--node=1", "--node=3"], '"/rnn/RNN_2" and LSTM "/rnn/LSTM_0" do not feed one another'),
                        (["--node=1,1"], '"/rnn/LSTM_0" is named twice'),
                        (["--node=1,nothing"], "no recurrent node is called nothing")):
        done = test_inspect.rnnctl("extract", source, *words, "-o", tmp_path / "out.onnx")
        assert done.returncode == 2 and text in done.stderr, done.stderr
        assert not (tmp_path / "out.onnx").exists()
