# SPDX-License-Identifier: Apache-2.0
"""ONNX graphs of several recurrent layers as exporters write them: PyTorch's nn.LSTM, nn.GRU and nn.RNN with
num_layers, bidirectional and batch_first, and the joints of Keras converters."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclasses.dataclass(frozen=True)
class Stack:
    """What a graph is like.

    joint      "torch": Squeeze, or Transpose and Reshape; "sizes": a Reshape that names D*H; "keras": to the
               batch-first form and back between layers
    states     "none"; "zeros": made in the graph of all layers and sliced; "sliced": one graph input, sliced;
               "apart": a graph input for each layer
    finals     "none", "joined" (Concat, as PyTorch), "apart"
    """

    ops: tuple[str, ...] = ("LSTM", "LSTM")
    directions: int = 1
    opset: int = 14
    batch_first: bool = False
    joint: str = "torch"
    states: str = "none"
    finals: str = "none"
    lengths: bool = False
    input_size: int = 3
    hidden_sizes: tuple[int, ...] = (5, 5)
    seed: int = 1

    @property
    def layers(self):
        return len(self.ops)

    def state_names(self, c=False):
        """The layers that have the state."""
        return [k for k, op in enumerate(self.ops) if op == "LSTM" or not c]

    def __str__(self):
        names = "+".join(self.ops)
        return (f"{names}-d{self.directions}-opset{self.opset}-{'nt' if self.batch_first else 'tn'}-{self.joint}-"
                f"{self.states}-{self.finals}{'-lengths' if self.lengths else ''}")


class _Graph:
    """Nodes, initializers and graph inputs on the way."""

    def __init__(self, stack: Stack):
        self.stack = stack
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self._count = 0

    def name(self, what):
        self._count += 1
        return f"/{what}_{self._count}"

    def node(self, op_type, inputs, output=None, **attributes):
        output = output or self.name(op_type)
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))
        return output

    def store(self, array, what="onnx::w"):
        name = self.name(what)
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def constant(self, values):
        return self.node("Constant", [], value=numpy_helper.from_array(np.asarray(values, np.int64)))

    def list(self, op_type, inputs, name, values, output=None):
        """A node whose list is an attribute in old opsets and an input in new ones."""
        if self.stack.opset < 13 and op_type in ("Squeeze", "Unsqueeze"):
            return self.node(op_type, inputs, output, **{name: values})
        return self.node(op_type, [*inputs, self.constant(values)], output)

    def slice(self, value, first, end):
        if self.stack.opset < 10:
            return self.node("Slice", [value], axes=[0], starts=[first], ends=[end])
        return self.node("Slice", [value, *(self.constant([k]) for k in (first, end, 0, 1))])

    def model(self):
        graph = helper.make_graph(
            self.nodes, "main_graph", [helper.make_tensor_value_info(*i) for i in self.inputs],
            [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in self.outputs], self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.stack.opset)], ir_version=8)


def model(stack: Stack) -> onnx.ModelProto:
    graph = _Graph(stack)
    rng = np.random.default_rng(stack.seed)
    graph.inputs.append(("input", TensorProto.FLOAT, ["n", "t", stack.input_size] if stack.batch_first
                         else ["t", "n", stack.input_size]))
    if stack.lengths:
        graph.inputs.append(("lengths", TensorProto.INT32, ["n"]))
    value = graph.node("Transpose", ["input"], perm=[1, 0, 2]) if stack.batch_first else "input"
    initial = {kind: _initial_states(graph, kind) for kind in "hc"}
    finals = {"h": [], "c": []}
    width = stack.input_size
    for k, op in enumerate(stack.ops):
        value, h, c = _layer(graph, rng, k, value, width, initial)
        finals["h"].append(h)
        if op == "LSTM":
            finals["c"].append(c)
        value = _joint(graph, k, value)
        width = stack.directions * stack.hidden_sizes[k]
    if stack.batch_first:
        value = graph.node("Transpose", [value], perm=[1, 0, 2])
    graph.node("Identity", [value], "output")
    graph.outputs.append("output")
    for kind in "hc":
        if stack.finals == "joined" and finals[kind]:
            graph.outputs.append(graph.node("Concat", finals[kind], f"{kind}n", axis=0))
        elif stack.finals == "apart":
            graph.outputs.extend(finals[kind])
    return graph.model()


def _initial_states(graph, kind):
    """The name of each layer's initial state, by layer."""
    stack = graph.stack
    layers = stack.state_names(kind == "c")
    if stack.states == "none" or not layers:
        return {}
    d, h = stack.directions, stack.hidden_sizes[0]
    if stack.states == "apart":
        graph.inputs.extend((f"{kind}0.{k}", TensorProto.FLOAT, [d, "n", stack.hidden_sizes[k]]) for k in layers)
        return {k: f"{kind}0.{k}" for k in layers}
    if stack.states == "sliced":
        graph.inputs.append((f"{kind}0", TensorProto.FLOAT, [d * len(layers), "n", h]))
        whole = f"{kind}0"
    else:
        sizes = graph.node("Shape", ["input"])
        rows = graph.node("Gather", [sizes, graph.constant(0 if stack.batch_first else 1)], axis=0)
        rows = graph.list("Unsqueeze", [rows], "axes", [0])
        shape = graph.node("Concat", [graph.constant([d * len(layers)]), rows, graph.constant([h])], axis=0)
        if stack.opset >= 9 and stack.seed % 2:
            whole = graph.node("ConstantOfShape", [shape], value=numpy_helper.from_array(np.zeros(1, np.float32)))
        else:
            zero = graph.store(np.zeros((1, 1, 1), np.float32), "onnx::Expand")
            whole = graph.node("Expand", [zero, shape])
    if len(layers) == 1:
        return {layers[0]: whole}
    # The last slice ends beyond all rows, as Python's own slices may.
    ends = [*(d * (place + 1) for place in range(len(layers) - 1)), 2**63 - 1]
    return {k: graph.slice(whole, d * place, ends[place]) for place, k in enumerate(layers)}


def _layer(graph, rng, k, value, width, initial):
    stack, op, h = graph.stack, graph.stack.ops[k], graph.stack.hidden_sizes[k]
    gates, d = GATES[op], stack.directions
    def weight(*shape):
        return graph.store(rng.uniform(-0.6, 0.6, shape).astype(np.float32))
    inputs = [value, weight(d, gates * h, width), weight(d, gates * h, h), weight(d, 2 * gates * h),
              "lengths" if stack.lengths else "", initial["h"].get(k, "")]
    if op == "LSTM":
        inputs.append(initial["c"].get(k, ""))
    while inputs[-1] == "":
        inputs.pop()
    outputs = [f"Y.{k}", f"Y_h.{k}", *([f"Y_c.{k}"] if op == "LSTM" else [])]
    attributes = {"direction": "bidirectional"} if d == 2 else {}
    if op == "GRU":
        attributes["linear_before_reset"] = 1
    graph.nodes.append(helper.make_node(op, inputs, outputs, name=f"/rnn/{op}_{k}", hidden_size=h, **attributes))
    return (*outputs, None)[:3]


def _joint(graph, k, value):
    """[T, D, N, H] to [T, N, D*H]."""
    stack = graph.stack
    if stack.joint == "keras" and stack.directions == 1:
        value = graph.node("Transpose", [graph.list("Squeeze", [value], "axes", [1])], perm=[1, 0, 2])
        return graph.node("Transpose", [value], perm=[1, 0, 2])
    if stack.joint == "torch" and stack.directions == 1:
        return graph.list("Squeeze", [value], "axes", [1])
    last = stack.directions * stack.hidden_sizes[k] if stack.joint == "sizes" else -1
    value = graph.node("Transpose", [value], perm=[0, 2, 1, 3])
    return graph.node("Reshape", [value, graph.constant([0, 0, last])])
