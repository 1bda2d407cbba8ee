# SPDX-License-Identifier: Apache-2.0
"""Files beside onnxruntime whose layers start from states that the file fixes (learned ones), and files with functions and If nodes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import exported_files
import wire
from test_row_lengths import HIDDEN, WIDTH, Model


class File(Model):
    def __init__(self):
        super().__init__(lengths=False)
        self.functions = []

    def sizes(self, *sizes):
        """[..., "n" or "t" or a number, ...] as a list of sizes."""
        axes = {"n": 0, "t": 1}
        parts = [self.node("Unsqueeze", [self.all_of("x", axes[size]), self.ints(0)]) if size in axes else self.ints(size)
                 for size in sizes]
        return self.node("Concat", parts, axis=0)

    def expanded(self, value, *sizes):
        """As torch's expand(-1, n, -1) is exported."""
        wanted = self.sizes(*sizes)
        ones = self.node("ConstantOfShape", [self.node("Shape", [wanted])], value=helper.make_tensor("one", TensorProto.INT64, [1], [1]))
        others = self.node("Equal", [wanted, self.node("Mul", [ones, self.ints(-1, scalar=True)])])
        return self.node("Expand", [value, self.node("Where", [others, ones, wanted])])

    def starting(self, *states, op="GRU", direction="forward"):
        y, h = self.rnn("x", op, direction)
        next(node for node in reversed(self.nodes) if node.op_type == op).input.extend(states)
        return y, h

    def giving(self, *values):
        model = super().giving(*values)
        model.functions.extend(self.functions)
        if self.functions:
            model.opset_import.append(helper.make_opsetid("own", 1))
        return model


def _of_two_layers(m):
    """One learned state of two layers, each of which takes its part."""
    whole = m.expanded(m.weight(2, 1, HIDDEN, scale=3.0), -1, "n", -1)
    parts = [m.node("Slice", [whole, m.ints(k), m.ints(k + 1), m.ints(0)]) for k in range(2)]
    y, h = m.starting(parts[0])
    steps = m.node("Transpose", [y], perm=[1, 0, 2])
    y2 = m.node("GRU", [steps, m.weight(1, 15, HIDDEN), m.weight(1, 15, HIDDEN), "", "", parts[1]], hidden_size=HIDDEN)
    return m.giving(h, m.node("Squeeze", [y2, m.ints(1)]))


def _function(name, inputs, outputs, nodes, attributes=()):
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, inputs, outputs, nodes, imports, attributes=list(attributes))


def _functions(m):
    """A layer is a function, called twice, and so is what comes behind it, with an attribute, in a function."""
    layer = [helper.make_node("GRU", ["X", "W", "R"], ["Y4"], hidden_size=HIDDEN),
             helper.make_node("Constant", [], ["axis"], value=numpy_helper.from_array(np.array([1], np.int64))),
             helper.make_node("Squeeze", ["Y4", "axis"], ["Y"])]
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    act = helper.make_node("Act", ["Y"], ["acted"], domain="own", slope=0.3)
    m.functions += [_function("Layer", ["X", "W", "R"], ["Y"], layer), _function("Act", ["a"], ["b"], [leaky], ["slope"]),
                    _function("Block", ["X", "W", "R"], ["acted"], [helper.make_node("Layer", ["X", "W", "R"], ["Y"], domain="own"), act])]
    y = m.node("Block", ["x", m.weight(1, 15, WIDTH), m.weight(1, 15, HIDDEN)], domain="own")
    return m.giving(m.node("Block", [y, m.weight(1, 15, HIDDEN), m.weight(1, 15, HIDDEN)], domain="own"))


def _branches(m):
    y, _ = m.rnn("x")

    def branch(op, name):
        inner = helper.make_node(op, [y], ["inner"], name="inner")  # the same name in both
        return helper.make_graph([inner], name, [], [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)])

    chosen = m.node("If", [m.store(np.array(False))], then_branch=branch("Relu", "then"), else_branch=branch("Tanh", "else"))
    return m.giving(chosen, m.node("Dropout", [chosen, m.store(np.float32(0.5)), m.store(np.array(False))]))


CASES = {
    "expanded": lambda m: m.giving(*m.starting(m.expanded(m.weight(1, 1, HIDDEN), 1, "n", HIDDEN))),
    "tiled": lambda m: m.giving(*m.starting(*[m.node("Tile", [m.weight(2, 1, HIDDEN), m.sizes(1, "n", 1)]) for _ in range(2)],
                                            op="LSTM", direction="bidirectional")),
    "shared": lambda m: m.giving(*m.starting(m.node("Expand", [m.weight(1, 1, HIDDEN), m.sizes(2, "n", HIDDEN)]),
                                             direction="bidirectional")),
    "two-layers": _of_two_layers,
    "zeros": lambda m: m.giving(*m.starting(m.node("Tile", [m.store(np.zeros((1, 1, HIDDEN), np.float32)), m.sizes(1, "n", 1)]))),
    "functions": _functions,
    "branches": _branches,
}
NO_SESSION = ("tiled", "shared")  # bidirectional


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    yield from exported_files.served(tmp_path_factory.mktemp("starts"), {name: make(File()) for name, make in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_onnxruntime(served, name):
    server, root = served
    session = exported_files.session(str(root / name / "1" / "model.onnx"))
    request = wire.models_pb2.GetModelRequest()
    request.model.name = name
    info = server.models.Get(request).model
    rng = np.random.default_rng(5)
    for steps, rows in ((5, 3), (1, 1), (4, 1), (1, 4), (9, 2)):
        feeds = {"x": rng.uniform(-1, 1, (rows, steps, WIDTH)).astype(np.float32)}
        expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
        assert exported_files.excess(exported_files.infer(server, name, feeds), expected) < 1e-5, (steps, rows)
        if steps > 1 and rows > 1:
            assert exported_files.ragged(server, session, info, feeds, rng) < 1e-5
        pieces = exported_files.streamed(server, info, feeds, rng)
        assert (pieces is None) == (name in NO_SESSION)
        assert pieces is None or exported_files.excess(pieces, expected) < 1e-5, (steps, rows)


REFUSED = {
    "rows": (lambda m: m.giving(*m.starting(m.weight(1, 3, HIDDEN))), "is fixed in the file, other numbers for each of 3 rows"),
    "trained": (lambda m: m.giving(m.node("Dropout", [m.rnn("x")[0], m.store(np.float32(0.5)), m.store(np.array(True))])),
                "may leave numbers out at random (training_mode)"),
}


def test_refusals_name_the_node(tmp_path):
    failures = exported_files.refusals(tmp_path, {name: make(File()) for name, (make, _) in REFUSED.items()})
    for name, (_, text) in REFUSED.items():
        assert text in failures.get(name, ""), (name, failures.get(name))
