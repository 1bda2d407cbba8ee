# SPDX-License-Identifier: Apache-2.0
"""The graphs that torch.onnx.export writes (torch 2.15.0, both exporters, fixed and dynamic shapes), node by node, with
random weights: torch is too large for CI. tests/campaigns/test_exporters.py compares each with what the real exporter
writes of the same module, so none is invented."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUT, HIDDEN, STEPS, ROWS, WORDS, CLASSES = 6, 5, 9, 2, 50, 7


@dataclasses.dataclass(frozen=True)
class Export:
    """A module of torch_models.py by its name there, and how it is exported."""

    kind: str
    layers: int
    bidirectional: bool
    batch_first: bool
    dynamo: bool
    dynamic: bool
    tagger: bool = False  # Embedding before, LayerNorm, Linear and softmax behind

    @property
    def name(self):
        what = ("tagger" if self.batch_first else "tagger-tn") if self.tagger else f"{self.kind.lower()}{self.layers}"
        return "-".join([what, *(["bi"] if self.bidirectional else []), "dynamo" if self.dynamo else "legacy",
                         "dynamic" if self.dynamic else "static"])

    @property
    def axes(self):
        """What the first two axes of the input are."""
        return ["n", "t"] if self.batch_first else ["t", "n"]


def exports():
    for dynamo, dynamic in itertools.product((True, False), (True, False)):
        for kind, layers, bidirectional in itertools.product(GATES, (1, 2, 3, 4), (False, True)):
            if kind != "RNN" or not dynamo:  # which unrolls it
                yield Export(kind, layers, bidirectional, layers % 2 == 0, dynamo, dynamic)
        for bidirectional, batch_first in ((False, True), (True, True), (False, False)):
            yield Export("LSTM", 2, bidirectional, batch_first, dynamo, dynamic, tagger=True)


class _Writer:
    def __init__(self, export: Export):
        self.export = export
        self.numbers = np.random.default_rng(1)
        self.nodes, self.initializers = [], []
        self.directions = 2 if export.bidirectional else 1
        self.width = self.directions * HIDDEN

    def store(self, array):
        name = f"stored_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *values):
        return self.store(np.asarray(values, np.int64))

    def weight(self, *shape):
        return self.store(self.numbers.uniform(-0.6, 0.6, shape).astype(np.float32))

    def node(self, op_type, inputs, outputs=1, **attributes):
        """The name of its first output; of several, all names."""
        names = [f"value_{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    # --- What both exporters write.
    def sizes(self, layer):
        return (self.directions, GATES[self.export.kind] * HIDDEN, INPUT if layer == 0 else self.width)

    def model(self):
        export = self.export
        value = "input_0"
        if export.tagger:
            table = self.weight(WORDS, INPUT)
            value = self.node("Gather", [table, value], **({"axis": 0} if export.dynamo else {}))
        outputs = self.dynamo(value) if export.dynamo else self.legacy(value)
        if export.tagger:
            outputs = [self.head(outputs[0])]
        shape = export.axes if export.dynamic else list(self.arguments())
        data_type = TensorProto.INT64 if export.tagger else TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info("input_0", data_type, shape + ([] if export.tagger else [INPUT]))]
        graph = helper.make_graph(self.nodes, export.name, inputs,
                                  [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
                                  self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    def head(self, value):
        norm = {"stash_type": 1} if self.export.dynamo else {}
        value = self.node("LayerNormalization", [value, self.weight(self.width), self.weight(self.width)], axis=-1,
                          epsilon=1e-5, **norm)
        value = self.node("MatMul", [value, self.weight(self.width, CLASSES)])
        bias = self.weight(CLASSES)
        value = self.node("Add", [value, bias] if self.export.dynamo else [bias, value])
        return self.node("Softmax", [value], axis=-1)

    def layer(self, layer, value, states, outputs, **attributes):
        d, gates, width = self.sizes(layer)
        inputs = [value, self.weight(d, gates, width), self.weight(d, gates, HIDDEN), self.weight(d, 2 * gates), "", *states]
        if self.export.kind == "GRU":
            attributes["linear_before_reset"] = 1
        return self.node(self.export.kind, inputs, outputs, hidden_size=HIDDEN, **attributes)

    def joined(self, finals):
        """The final states of all layers, kind by kind."""
        return [of[0] if len(of) == 1 else self.node("Concat", of, axis=0) for of in zip(*finals)]

    @property
    def states(self):
        return 2 if self.export.kind == "LSTM" else 1

    # --- torch.onnx.export(dynamo=True)
    def dynamo(self, value):
        export, d = self.export, self.directions
        rows_axis = 0 if export.batch_first else 1
        if export.dynamic:
            rows = self.node("Shape", ["input_0"], start=rows_axis, end=rows_axis + 1)
            if export.tagger:  # the order of its sizes is that of the module
                self.nodes.insert(0, self.nodes.pop())
            shape = self.node("Concat", [self.ints(d * export.layers), rows, self.ints(HIDDEN)], axis=0)
            zeros = self.node("Expand", [self.store(np.zeros((), np.float32)), shape])
        if export.batch_first:
            value = self.node("Transpose", [value], perm=[1, 0, 2])
        direction = {"direction": "bidirectional" if d == 2 else "forward", "layout": 0,
                     **({"input_forget": 0} if export.kind == "LSTM" else {})}
        shape = self.fixed_shape()
        finals = []
        for k in range(export.layers):
            if export.dynamic:
                state = self.node("Slice", [zeros, self.ints(d * k), self.ints(d * (k + 1)), self.ints(0)])
            else:
                state = self.store(np.zeros((d, shape[1], HIDDEN), np.float32))
            made = self.layer(k, value, [state] * self.states, 1 if export.tagger else 1 + self.states, **direction)
            y, *final = [made] if export.tagger else made
            finals.append(final)
            turned = self.node("Transpose", [y], perm=[0, 2, 1, 3])
            value = self.node("Reshape", [turned, self.joint(turned) if export.dynamic else self.ints(*shape)], allowzero=0)
        finals = self.joined(finals)
        if export.batch_first:
            value = self.node("Transpose", [value], perm=[1, 0, 2])
        return [value, *finals]

    def arguments(self):
        """The first two sizes of torch_models.py's arguments, whatever the module takes them for."""
        return (ROWS, STEPS) if self.export.tagger else (STEPS, ROWS)

    def fixed_shape(self):
        """[T, N, D * H] where shapes are fixed."""
        first, second = self.arguments()
        return (second, first, self.width) if self.export.batch_first else (first, second, self.width)

    def joint(self, turned):
        """[T, N, D * H] from the sizes [T, N, D, H]."""
        sizes = self.node("Shape", [turned], start=0)
        t, n, d, h = (self.node("Slice", [sizes, self.ints(k), self.ints(k + 1)]) for k in range(4))
        last = self.node("Reshape", [self.node("Mul", [d, h]), self.ints(-1)], allowzero=0)
        return self.node("Concat", [t, n, last], axis=0)

    # --- torch.onnx.export(dynamo=False)
    def legacy(self, value):
        export, d = self.export, self.directions
        zeros = None
        if export.dynamic:
            sizes = self.node("Shape", [value])
            rows = self.node("Gather", [sizes, self.store(np.asarray(0 if export.batch_first else 1))], axis=0)
            rows = self.node("Unsqueeze", [rows, self.ints(0)])
            shape = self.node("Concat", [self.ints(d * export.layers), rows, self.ints(HIDDEN)], axis=0)
            zeros = self.node("ConstantOfShape", [shape], value=numpy_helper.from_array(np.zeros(1, np.float32)))
        if export.batch_first:
            value = self.node("Transpose", [value], perm=[1, 0, 2])
        attributes = {"direction": "bidirectional"} if d == 2 else {}
        if export.kind == "RNN":
            attributes["activations"] = ["Tanh"] * d
        finals = []
        for k in range(export.layers):
            states = [self.legacy_state(k, value, zeros) for _ in range(self.states)]
            y, *final = self.layer(k, value, states, 1 + self.states, **attributes)
            finals.append(final)
            if d == 1:
                value = self.node("Squeeze", [y, self.ints(1)])
            else:
                value = self.node("Reshape", [self.node("Transpose", [y], perm=[0, 2, 1, 3]), self.ints(0, 0, -1)], allowzero=0)
        if export.batch_first:
            value = self.node("Transpose", [value], perm=[1, 0, 2])
        return [value] if export.tagger else [value, *self.joined(finals)]

    def legacy_state(self, k, value, zeros):
        d = self.directions
        if self.export.dynamic and self.export.layers == 1:
            return zeros
        if self.export.dynamic:
            return self.node("Slice", [zeros, self.ints(d * k), self.ints(d * (k + 1)), self.ints(0)])
        sizes = self.node("Shape", [value])
        rows = self.node("Unsqueeze", [self.node("Gather", [sizes, self.store(np.asarray(1))]), self.ints(0)])
        shape = self.node("Concat", [self.ints(d), rows, self.ints(HIDDEN)], axis=0)
        return self.node("Expand", [self.store(np.zeros((d, self.fixed_shape()[1], HIDDEN), np.float32)), shape])


def model(export: Export) -> onnx.ModelProto:
    return _Writer(export).model()


def outline(model: onnx.ModelProto):
    """What a graph is but for names, order of attributes, places of constants and values of weights: comparable."""
    graph = model.graph
    known = {value.name: ("input", k, [d.dim_value for d in value.type.tensor_type.shape.dim])
             for k, value in enumerate(graph.input)}
    known[""] = "left out"

    def stored(tensor):
        array = numpy_helper.to_array(tensor)
        return ("fixed", array.dtype.name, list(array.shape), array.ravel().tolist() if array.dtype.kind == "i" else None)

    known.update({tensor.name: stored(tensor) for tensor in graph.initializer})
    nodes = []
    for node in graph.node:
        if node.op_type == "Constant":
            known[node.output[0]] = stored(node.attribute[0].t)
            continue
        attributes = {a.name: stored(a.t) if a.HasField("t") else helper.get_attribute_value(a) for a in node.attribute}
        nodes.append((node.op_type, [known[name] for name in node.input], len(node.output), attributes))
        known.update({name: ("node", len(nodes) - 1, k) for k, name in enumerate(node.output)})
    return nodes, [known[value.name] for value in graph.output]
