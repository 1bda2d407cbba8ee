# SPDX-License-Identifier: Apache-2.0
"""ONNX graphs that no server takes whole, drawn at random: convolutions, attention or a mean over time before the layers,
softmax over time, attention pooling, convolutions or a running sum after them, and what looks at one step alone in
between; with open sizes, and with those that the file fixes."""

from __future__ import annotations

import dataclasses

import onnx
from onnx import helper

from whole_graphs import Graph, Value

BEFORE = ("conv", "conv", "attention", "centred", "none")
AFTER = ("pooling", "softmax", "conv", "running", "mean", "skip", "none")
ROWS, STEPS = 3, 6  # of a file that fixes them


class SplitGraph(Graph):
    def before(self, kind):
        channels = self.random.choice((1, 3, 5))
        if kind == "conv":
            self.inputs.append(("x", self.data_type, ["n", channels, "t"]))
            stride = self.random.choice((1, 2))
            return self.convolution("x", channels, stride)
        value = self.features("x", channels, rows_first=kind == "attention" or self.random.random() < 0.5)
        if kind == "none":
            return value
        if kind == "centred":
            mean = self.reduce("ReduceMean", value.name, 1 if value.rows_first else 0, 1)
            return dataclasses.replace(value, name=self.node("Sub", [value.name, mean]))
        turned = self.node("Transpose", [value.name], perm=[0, 2, 1])
        scores = self.node("Softmax", [self.node("MatMul", [value.name, turned])], axis=-1)
        return Value(self.node("MatMul", [scores, value.name]), channels, rows_first=True)

    def convolution(self, name, channels, stride=1):
        """Of [N, channels, T]; gives [N, T', width]."""
        width = self.random.choice((2, 6))
        made = self.node("Conv", [name, self.weight(width, channels, 3), self.weight(width)], kernel_shape=[3], pads=[1, 1],
                         strides=[stride])
        return Value(self.node("Transpose", [self.node("Relu", [made])], perm=[0, 2, 1]), width, rows_first=True)

    def pointwise(self, value):
        """A convolution of one step, as silero-vad's head has it."""
        width = self.random.choice((1, 4))
        there, back = ([0, 2, 1], [0, 2, 1]) if value.rows_first else ([1, 2, 0], [2, 0, 1])
        made = self.node("Conv", [self.node("Transpose", [value.name], perm=there), self.weight(width, value.width, 1),
                                  self.weight(width)], kernel_shape=[1])
        return Value(self.node("Transpose", [self.node("Sigmoid", [made])], perm=back), width, value.rows_first)

    def after(self, kind, value, first):
        time = 1 if value.rows_first else 0
        if kind == "softmax":
            return Value(self.node("Softmax", [value.name], axis=time), value.width, value.rows_first)
        if kind == "pooling":
            scores = self.node("MatMul", [value.name, self.weight(value.width, 1)])
            weighed = self.node("Mul", [value.name, self.node("Softmax", [scores], axis=time)])
            return Value(self.reduce("ReduceSum", weighed, time, 0), value.width, ended=True)
        if kind == "running":
            return dataclasses.replace(value, name=self.node("CumSum", [value.name, self.ints(time, scalar=True)]))
        if kind == "mean":
            return Value(self.reduce("ReduceMean", value.name, time, 0), value.width, ended=True)
        if kind == "conv":
            rows_first = value if value.rows_first else self.turn(value)
            return self.convolution(self.node("Transpose", [rows_first.name], perm=[0, 2, 1]), value.width)
        if kind == "skip":  # what the first layer takes, again
            first = first if first.rows_first == value.rows_first else self.turn(first)
            return Value(self.node("Concat", [value.name, first.name], axis=2), value.width + first.width, value.rows_first)
        return value


@dataclasses.dataclass
class SplitCase:
    content: onnx.ModelProto
    before: str
    after: str
    inputs: list  # (name, type, shape)
    outputs: list


def draw(seed: int) -> SplitCase:
    graph = SplitGraph(seed)
    before, after = graph.random.choice(BEFORE), graph.random.choice(AFTER)
    value = graph.before(before)
    for _ in range(graph.random.choice((0, 0, 1))):
        value = graph.mapped(value, ("linear", "relu", "sigmoid"))
    first = value
    for _ in range(graph.random.choice((1, 1, 2))):
        value, final = graph.layer(value, value, {"forward": True, "given": {}})
        value = graph.mapped(value, ("linear", "layernorm", "relu", "identity"))
    if graph.random.random() < 0.5:
        value = graph.pointwise(value)
    value = graph.after(after, value, first)
    graph.output(value, "scores")
    if graph.random.random() < 0.5:
        graph.output(final, "final")
    if graph.random.random() < 0.3:
        sizes = {"n": ROWS, "t": STEPS}
        graph.inputs = [(name, kind, [sizes.get(dim, dim) for dim in shape]) for name, kind, shape in graph.inputs]
    content = graph.model()
    if graph.random.random() < 0.5:  # as exporters of today do
        content = onnx.shape_inference.infer_shapes(content)
    return SplitCase(content, before, after, graph.inputs, [name for name, _ in graph.outputs])


def feeds(case: SplitCase, rng, steps, rows):
    sizes = {"t": steps, "n": rows}
    return {name: rng.normal(size=[sizes.get(dim, dim) for dim in shape]).astype(helper.tensor_dtype_to_np_dtype(kind))
            for name, kind, shape in case.inputs}
