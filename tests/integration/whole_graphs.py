# SPDX-License-Identifier: Apache-2.0
"""ONNX graphs of whole models, drawn at random: what looks at one step alone before, between and after recurrent layers,
with shape arithmetic as exporters of today write it, and what ends a sequence."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclasses.dataclass
class Value:
    """[T, N, width], or [N, T, width] where rows come first; [N, width] where the sequence has ended."""

    name: str
    width: int
    rows_first: bool = False
    ended: bool = False


class Graph:
    def __init__(self, seed: int, data_type=TensorProto.FLOAT):
        self.seed = seed
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = self.random.choice((13, 14, 17, 18, 20))
        self.data_type = data_type
        self.dtype = helper.tensor_dtype_to_np_dtype(data_type)
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self.tokens = {}  # input -> entries
        self.has_mean = False
        self.turns = 0  # nodes that turn steps round
        self._count = 0

    # --- Pieces.
    def name(self, what):
        self._count += 1
        return f"/{what}_{self._count}"

    def node(self, op_type, inputs, output=None, **attributes):
        output = output or self.name(op_type)
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], name=output, **attributes))
        return output

    def store(self, array):
        name = self.name("w")
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape, scale=0.5):
        return self.store(self.numbers.uniform(-scale, scale, shape).astype(self.dtype))

    def ints(self, *values, scalar=False):
        return self.store(np.asarray(values[0] if scalar else values, np.int64))

    def reduce(self, op_type, value, axis, keepdims):
        if self.opset >= 18 or (op_type == "ReduceSum" and self.opset >= 13):
            return self.node(op_type, [value, self.ints(axis)], keepdims=keepdims)
        return self.node(op_type, [value], axes=[axis], keepdims=keepdims)

    # --- Inputs.
    def features(self, name, width, rows_first):
        self.inputs.append((name, self.data_type, ["n", "t", width] if rows_first else ["t", "n", width]))
        return Value(name, width, rows_first)

    def embedded(self, name, rows_first):
        entries, width = self.random.choice((5, 40)), self.random.choice((1, 3, 8))
        self.tokens[name] = entries
        data_type = self.random.choice((TensorProto.INT64, TensorProto.INT32))
        self.inputs.append((name, data_type, ["n", "t"] if rows_first else ["t", "n"]))
        places = self.wrapped(name, entries, data_type)
        if self.random.random() < 0.2:
            values = self.store(np.asarray((0, 1), self.random.choice((np.int64, np.float32))))
            index = self.node("Cast", [name], to=TensorProto.INT64)
            made = self.node("OneHot", [index, self.ints(entries, scalar=True), values], axis=-1)
            return Value(self.node("Cast", [made], to=self.data_type), entries, rows_first)
        return Value(self.node("Gather", [self.weight(entries, width), places], axis=0), width, rows_first)

    def wrapped(self, x, entries, data_type):
        """Negative places counted from the end, as Keras does: by Where, by tf2onnx's arithmetic, or left to Gather."""
        if self.seed % 3 == 0:
            return x
        total = self.node("Add", [x, self.store(np.asarray(entries, helper.tensor_dtype_to_np_dtype(data_type)))])
        as_float = self.node("Cast", [x], to=TensorProto.FLOAT)
        less = self.node("Less", [as_float, self.store(np.zeros((), np.float32))])
        if self.seed % 3 == 1:
            return self.node("Where", [less, total, x])
        kept = self.node("Cast", [self.node("Not", [less])], to=data_type)
        return self.node("Add", [self.node("Mul", [self.node("Cast", [less], to=data_type), total]),
                                 self.node("Mul", [x, kept])])

    # --- What looks at one step alone.
    def turn(self, value):
        return Value(self.node("Transpose", [value.name], perm=[1, 0, 2]), value.width, not value.rows_first)

    def mapped(self, value, among=None):
        """`value` through one operator or a few."""
        name = self.random.choice(among or (
            "linear", "linear", "gemm", "relu", "tanh", "sigmoid", "scale", "layernorm", "norm_by_hand", "batchnorm", "softmax",
            "logsoftmax", "concat", "slice", "split", "residual", "cast", "identity", "square", "clip", "leaky", "turn",
            "flat", "minus", "max_of_two", "groups", "halves", "prelu", "gelu_by_hand", "chosen",
            "lengths", "widened", "celu", "mish"))
        made = getattr(self, "_" + name)(value)
        return dataclasses.replace(value, name=made[0], width=made[1]) if isinstance(made, tuple) else made

    def _linear(self, value):
        width = self.random.choice((1, 2, 7, 16, 33))
        product = self.node("MatMul", [value.name, self.weight(value.width, width)])
        bias = self.weight(width)
        return self.node("Add", self.random.choice(([product, bias], [bias, product]))), width

    def _flattened(self, value, shape_of):
        """[rows * steps, width], and the sizes to go back."""
        shape = self.node("Shape", [shape_of])
        flat = self.node("Reshape", [value.name, self.ints(-1, value.width)])
        return flat, shape

    def _gemm(self, value):
        if value.ended:
            return self._linear(value)
        width = self.random.choice((1, 4, 9))
        flat, shape = self._flattened(value, value.name)
        transposed = self.random.random() < 0.5
        weight = self.weight(width, value.width) if transposed else self.weight(value.width, width)
        flat = self.node("Gemm", [flat, weight, self.weight(width)], transB=int(transposed))
        sizes = self.node("Slice", [shape, self.ints(0), self.ints(2), self.ints(0)])
        back = self.node("Concat", [sizes, self.ints(width)], axis=0)
        return self.node("Reshape", [flat, back]), width

    def _relu(self, value):
        return self.node("Relu", [value.name]), value.width

    def _tanh(self, value):
        return self.node("Tanh", [value.name]), value.width

    def _sigmoid(self, value):
        return self.node("Sigmoid", [value.name]), value.width

    def _scale(self, value):
        shape = self.random.choice(((value.width,), (1, 1, value.width)[0 if not value.ended else 1:], (1,), ()))
        return self.node(self.random.choice(("Mul", "Add", "Sub", "Div")),
                         [value.name, self.store(self.numbers.uniform(0.5, 2, shape).astype(self.dtype))]), value.width

    def _minus(self, value):
        one = self.store(np.asarray(1, self.dtype))
        return self.node("Sub", [one, value.name]), value.width

    def _layernorm(self, value):
        if self.opset < 17:
            return self._norm_by_hand(value)
        return self.node("LayerNormalization", [value.name, self.weight(value.width), self.weight(value.width)],
                         epsilon=1e-3), value.width

    def _norm_by_hand(self, value):
        mean = self.reduce("ReduceMean", value.name, -1, 1)
        centred = self.node("Sub", [value.name, mean])
        square = self.node("Pow", [centred, self.store(np.asarray(2, self.dtype))])
        variance = self.reduce("ReduceMean", square, -1, 1)
        deviation = self.node("Sqrt", [self.node("Add", [variance, self.store(np.asarray(1e-3, self.dtype))])])
        return self.node("Div", [centred, deviation]), value.width

    def _batchnorm(self, value):
        statistics = [self.weight(value.width) for _ in range(3)]
        statistics.append(self.store(self.numbers.uniform(0.5, 2, value.width).astype(self.dtype)))
        flat, back = value.name, None
        if not value.ended:
            flat, back = self._flattened(value, value.name)
        made = self.node("BatchNormalization", [flat, *statistics])
        return (self.node("Reshape", [made, back]) if back else made), value.width

    def _softmax(self, value):
        return self.node("Softmax", [value.name], axis=-1), value.width

    def _logsoftmax(self, value):
        return self.node("LogSoftmax", [value.name], axis=1 if value.ended else 2), value.width

    def _concat(self, value):
        other = self.mapped(value, ("linear", "tanh", "identity"))
        return self.node("Concat", [value.name, other.name], axis=-1), value.width + other.width

    def _slice(self, value):
        first = self.random.randrange(value.width)
        step = self.random.choice((1, 1, 2))
        last = self.random.randint(first + 1, value.width)
        width = len(range(first, last, step))
        axis = 1 if value.ended else 2
        return self.node("Slice", [value.name, self.ints(first), self.ints(last), self.ints(axis),
                                   self.ints(step)]), width

    def _split(self, value):
        if value.width < 2:
            return self._identity(value)
        first = self.random.randrange(1, value.width)
        a, b = self.name("Split"), self.name("Split")
        self.nodes.append(helper.make_node("Split", [value.name, self.ints(first, value.width - first)], [a, b], axis=-1))
        other = self.node("Tanh", [a])
        return self.node("Concat", [b, other], axis=-1), value.width

    def _residual(self, value):
        return self.node("Add", [value.name, self.node("Tanh", [value.name])]), value.width

    def _max_of_two(self, value):
        return self.node("Max", [value.name, self.node("Neg", [value.name])]), value.width

    def _cast(self, value):
        return self.node("Cast", [value.name], to=self.data_type), value.width

    def _identity(self, value):
        return self.node(self.random.choice(("Identity", "Dropout")), [value.name]), value.width

    def _square(self, value):
        return self.node("Mul", [value.name, value.name]), value.width

    def _clip(self, value):
        least = 0.75 if self._drawn() % 7 == 0 else -0.5  # bounds may cross
        return self.node("Clip", [value.name, self.store(np.asarray(least, self.dtype)),
                                  self.store(np.asarray(0.5, self.dtype))]), value.width

    def _leaky(self, value):
        return self.node("LeakyRelu", [value.name], alpha=0.1), value.width

    def _gelu_by_hand(self, value):
        inner = self.node("Erf", [self.node("Div", [value.name, self.store(np.asarray(1.41421356, self.dtype))])])
        inner = self.node("Add", [inner, self.store(np.asarray(1, self.dtype))])
        return self.node("Mul", [self.node("Mul", [value.name, inner]), self.store(np.asarray(0.5, self.dtype))]), value.width

    def _turn(self, value):
        return value if value.ended else self.turn(value)

    def _flat(self, value):
        if value.ended:
            return self._identity(value)
        flat, shape = self._flattened(value, value.name)
        return self.node("Reshape", [self.node("Tanh", [flat]), shape]), value.width

    def _groups(self, value):
        """Softmax over two halves, each by itself, or over each number and its fellow of the other half."""
        if value.ended or value.width % 2:
            return self._identity(value)
        half = value.width // 2
        parted = self.node("Reshape", [value.name, self.ints(0, 0, 2, half)])
        soft = self.node("Softmax", [parted], axis=self.random.choice((-1, 2)))
        return self.node("Reshape", [soft, self.ints(0, 0, -1)]), value.width

    def _halves(self, value):
        """Two directions as one, by a sum or the larger."""
        if value.ended or value.width % 2:
            return self._identity(value)
        half = value.width // 2
        parted = self.node("Reshape", [value.name, self.ints(0, 0, 2, half)])
        keeps = self.random.choice((0, 1))
        made = self.reduce(self.random.choice(("ReduceSum", "ReduceMax", "ReduceMean")), parted, 2, keeps)
        return (self.node("Squeeze", [made, self.ints(2)]) if keeps else made), half

    def _chosen(self, value):
        """Where(x > y, x / x, 0.5 * x), of which the numbers that are not chosen may be NaN."""
        than = self.random.choice((self.weight(value.width), self.node("Neg", [value.name]), self.weight()))
        holds = self.node(self.random.choice(("Greater", "GreaterOrEqual", "Less", "LessOrEqual")), [value.name, than])
        half = self.node("Mul", [value.name, self.store(np.asarray(0.5, self.dtype))])
        relu = self.node("Relu", [value.name])
        other = self.random.choice((self.node("Div", [relu, relu]), self.weight(value.width), self.weight(1)))
        known = self.node("Where", [holds, other, half])
        is_number = self.node("Equal", [known, known])
        return self.node("Where", [is_number, known, self.node("Cast", [is_number], to=self.data_type)]), value.width

    def _lengths(self, value):
        """x / |x|, of three kinds, or less the logarithm of the sum of exp(x)."""
        op_type = self.random.choice(("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"))
        length = self.reduce(op_type, value.name, -1, 1)
        if op_type == "ReduceLogSumExp":
            return self.node("Sub", [value.name, length]), value.width
        return self.node("Div", [value.name, self.node("Add", [length, self.store(np.asarray(1, self.dtype))])]), value.width

    def _widened(self, value):
        """One number of a step by several constants, as Keras' LayerNormalization."""
        mean = self.reduce("ReduceMean", value.name, -1, 1)
        return self.node("Add", [value.name, self.node("Mul", [mean, self.weight(value.width)])]), value.width

    def _celu(self, value):
        if self.data_type != TensorProto.FLOAT:  # the only type that it has
            return self._tanh(value)
        return self.node("Celu", [value.name], alpha=self.random.choice((0.5, 1.0, 2.0))), value.width

    def _mish(self, value):
        return (self.node("Mish", [value.name]) if self.opset >= 18 else value.name), value.width

    def _prelu(self, value):
        slope = self.weight(*self.random.choice(((value.width,), (1,))))
        return self.node("PRelu", [value.name, slope]), value.width

    # --- Layers.
    def layer(self, value, sizes, states):
        op = self.random.choice(("LSTM", "GRU", "RNN"))
        hidden = self.random.choice((1, 4, 9))
        directions = self.random.choice((1, 1, 2)) if not states.get("forward") else 1
        gates = GATES[op]
        if value.rows_first:
            value = self.turn(value)
        inputs = [value.name, self.weight(directions, gates * hidden, value.width),
                  self.weight(directions, gates * hidden, hidden), self.weight(directions, 2 * gates * hidden), "", ""]
        kind = self.random.choice(("none", "zeros", "given")) if states.get("may_give") else self.random.choice(
            ("none", "zeros"))
        if kind != "none":
            names = []
            for letter in "hc" if op == "LSTM" else "h":
                if kind == "given":
                    names.append(f"{letter}0.{len(states['given'])}")
                    self.inputs.append((names[-1], self.data_type, [directions, "n", hidden]))
                    states["given"][names[-1]] = (directions, hidden)
                else:
                    rows = self.node("Gather", [self.node("Shape", [sizes.name]),
                                                self.ints(0 if sizes.rows_first else 1, scalar=True)], axis=0)
                    rows = self.node("Unsqueeze", [rows, self.ints(0)])
                    shape = self.node("Concat", [self.ints(directions), rows, self.ints(hidden)], axis=0)
                    names.append(self.node("Expand", [self.store(np.zeros((), self.dtype)), shape]))
            inputs[5:] = names
        while inputs[-1] == "":
            inputs.pop()
        turned = directions == 1 and not states.get("forward") and self._drawn() % 4 == 0
        turned &= self.data_type != TensorProto.FLOAT16  # which onnxruntime rounds elsewhere then: 1.8e-3
        if turned:
            inputs[0] = self._turned_round(value.name)
        y, h = self.name("Y"), self.name("Y_h")
        attributes = {"linear_before_reset": 1} if op == "GRU" else {}
        if directions == 2:
            attributes["direction"] = "bidirectional"
        elif not states.get("forward") and self.random.random() < 0.2:
            attributes["direction"] = "reverse"
        self.nodes.append(helper.make_node(op, inputs, [y, h], name=y, hidden_size=hidden, **attributes))
        joint = self._joint(y, directions, hidden)
        if turned:
            joint = dataclasses.replace(joint, name=self._turned_round(joint.name))
        return joint, Value(self._final(h, directions, hidden), directions * hidden, ended=True)

    def _drawn(self):
        return len(self.nodes) - self.turns

    def _turned_round(self, name):
        self.turns += 1
        return self.node("Slice", [name, self.ints(-1), self.ints(-2**63 + 1), self.ints(0), self.ints(-1)])

    def _joint(self, y, directions, hidden):
        how = self.random.choice(("dynamo", "legacy", "sum"))
        turned = self.node("Transpose", [y], perm=[0, 2, 1, 3])
        if how == "sum" and directions == 2:  # Keras's merge_mode="sum"
            halves = [self.node("Gather", [turned, self.ints(k, scalar=True)], axis=2) for k in (0, 1)]
            return Value(self.node("Add", halves), hidden)
        if how == "dynamo":
            shape = self.node("Shape", [turned])
            parts = [self.node("Slice", [shape, self.ints(k), self.ints(k + 1)]) for k in range(4)]
            last = self.node("Reshape", [self.node("Mul", [parts[2], parts[3]]), self.ints(1)])
            return Value(self.node("Reshape", [turned, self.node("Concat", [*parts[:2], last], axis=0)]), directions * hidden)
        if directions == 1:
            return Value(self.node("Squeeze", [y, self.ints(1)]), hidden)
        return Value(self.node("Reshape", [turned, self.ints(0, 0, -1)]), directions * hidden)

    def _final(self, h, directions, hidden):
        if directions == 1:
            return self.node("Squeeze", [h, self.ints(0)])
        if self.random.random() < 0.5:  # torch.cat((h_n[-2], h_n[-1]), -1)
            halves = [self.node("Gather", [h, self.ints(k, scalar=True)], axis=0) for k in (-2, -1)]
            return self.node("Concat", halves, axis=-1)
        turned = self.node("Transpose", [h], perm=[1, 0, 2])
        return self.node("Reshape", [turned, self.ints(0, -1)])

    # --- Ends of sequences.
    def ended(self, value, only_last=False):
        axis = 1 if value.rows_first else 0
        how = self.random.choice(("last", "last_kept") if only_last else ("last", "last_kept", "first", "mean", "max", "sum", "pooled"))
        if how == "pooled" and self.data_type == TensorProto.DOUBLE:  # onnx's reference drops the axis
            how = "mean"
        if how == "last":
            name = self.node("Gather", [value.name, self.ints(-1, scalar=True)], axis=axis)
        elif how == "first":
            name = self.node("Gather", [value.name, self.ints(0, scalar=True)], axis=axis)
        elif how == "last_kept":
            kept = self.node("Slice", [value.name, self.ints(-1), self.ints(2**63 - 1), self.ints(axis)])
            name = self.node("Squeeze", [kept, self.ints(axis)])
        elif how == "pooled":  # of [N, width, T]
            turned = self.node("Transpose", [value.name], perm=[0, 2, 1] if value.rows_first else [1, 2, 0])
            pooled = self.node(self.random.choice(("GlobalMaxPool", "GlobalAveragePool")), [turned])
            name = self.node("Squeeze", [pooled, self.ints(2)])
        else:
            name = self.reduce({"mean": "ReduceMean", "max": "ReduceMax", "sum": "ReduceSum"}[how], value.name, axis, 0)
        self.has_mean |= how not in ("last", "last_kept")
        return Value(name, value.width, ended=True)

    # --- Outputs.
    def output(self, value, output_name):
        self.node("Identity", [value.name], output_name)
        self.outputs.append((output_name, self.data_type))

    def best(self, value, output_name):
        keep = self.random.choice((0, 1))
        self.node("ArgMax", [value.name], output_name, axis=-1, keepdims=keep)
        self.outputs.append((output_name, TensorProto.INT64))

    def top(self, value, output_name):
        k = self.random.randint(1, value.width)
        self.nodes.append(helper.make_node("TopK", [value.name, self.ints(k)], [output_name, output_name + "_at"], axis=-1))
        self.outputs.extend([(output_name, self.data_type), (output_name + "_at", TensorProto.INT64)])

    def model(self):
        graph = helper.make_graph(self.nodes, "whole", [helper.make_tensor_value_info(*i) for i in self.inputs],
                                  [helper.make_tensor_value_info(*o, None) for o in self.outputs], self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)


@dataclasses.dataclass
class Whole:
    content: onnx.ModelProto
    inputs: list  # (name, type, shape)
    tokens: dict  # name -> entries
    states: list  # names of given states
    outputs: list
    forward: bool  # can be a session
    has_mean: bool  # an output needs whole sequences


def draw(seed: int, data_type=TensorProto.FLOAT, forward=None) -> Whole:
    """A random model. `forward`: all layers so, and no states given, so that it can be a session."""
    g = Graph(seed, data_type)
    forward = g.random.random() < 0.5 if forward is None else forward
    rows_first = g.random.random() < 0.5
    kind = g.random.choice(("features", "tokens", "both", "two tokens"))
    value = None
    if kind in ("features", "both"):
        value = g.features("features", g.random.choice((1, 3, 6)), rows_first)
    for k in range({"features": 0, "tokens": 1, "both": 1, "two tokens": 2}[kind]):
        other = g.embedded(f"tokens.{k}", rows_first)
        value = other if value is None else dataclasses.replace(
            value, name=g.node("Concat", [value.name, other.name], axis=-1), width=value.width + other.width)
    first = value
    states = {"forward": forward, "may_give": g.random.random() < 0.3, "given": {}}
    for _ in range(g.random.randint(0, 3)):
        value = g.mapped(value)
    ends = []
    for layer in range(g.random.randint(1, 3)):
        value, final = g.layer(value, first, states)
        if g.random.random() < 0.3:
            ends.append(final)
        for _ in range(g.random.choice((0, 0, 1, 2))):
            value = g.mapped(value)
    for _ in range(g.random.randint(0, 4)):
        value = g.mapped(value)
    if not value.ended and g.random.random() < 0.7:
        value = g.turn(value) if value.rows_first != rows_first else value
    g.output(value, "output")
    if g.random.random() < 0.4:
        g.best(value, "best")
    if g.random.random() < 0.4:
        g.top(value, "top")
    if g.random.random() < 0.4:
        ends.append(g.ended(value))
    for k, end in enumerate(ends):
        for _ in range(g.random.randint(0, 2)):
            end = g.mapped(end)
        g.output(end, f"end.{k}")
    return Whole(g.model(), g.inputs, g.tokens, list(states["given"]), [o[0] for o in g.outputs], forward, g.has_mean)


def feeds(whole: Whole, rng, steps: int, rows: int):
    made = {}
    for name, data_type, shape in whole.inputs:
        shape = [steps if dim == "t" else rows if dim == "n" else dim for dim in shape]
        dtype = helper.tensor_dtype_to_np_dtype(data_type)
        if name in whole.tokens:
            made[name] = rng.integers(-whole.tokens[name], whole.tokens[name], shape).astype(dtype)
        else:
            made[name] = rng.uniform(-1, 1, shape).astype(dtype)
    return made
