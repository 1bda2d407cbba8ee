# SPDX-License-Identifier: Apache-2.0
"""ONNX graphs in graphs: values inside the branches of If nodes brought out, and constants computed by random nodes."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def find(graph, name):
    """The graph that holds node `name`, and the If nodes on the way with the graph of each."""
    for node in graph.node:
        if node.name == name:
            return graph, []
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found = find(attribute.g, name)
                if found:
                    return found[0], [(graph, node, attribute.name), *found[1]]
    return None


def node_of(graph, name):
    return next(n for n in graph.node if n.name == name)


def expose(model: onnx.ModelProto, name: str, values: list[str]) -> list[str]:
    """Makes values of the graph that holds node `name` outputs of the model; where another branch runs, they are 0."""
    graph, path = find(model.graph, name)
    names = [f"probe.{len(path)}.{k}" for k in range(len(values))]
    for value, probe in zip(values, names):
        graph.node.append(helper.make_node("Identity", [value], [probe]))
        graph.output.append(helper.make_tensor_value_info(probe, TensorProto.FLOAT, None))
    for depth in reversed(range(len(path))):
        outer, if_node, branch = path[depth]
        for attribute in if_node.attribute:
            if attribute.name == branch:
                continue
            for probe in names:
                zero = numpy_helper.from_array(np.zeros((1, 1, 1), np.float32))
                attribute.g.node.append(helper.make_node("Constant", [], [f"no.{probe}"], value=zero))
                attribute.g.output.append(helper.make_tensor_value_info(f"no.{probe}", TensorProto.FLOAT, None))
        names = [f"probe.{depth}.{k}" for k in range(len(values))]
        if_node.output.extend(names)
        for probe in names:
            outer.output.append(helper.make_tensor_value_info(probe, TensorProto.FLOAT, None))
    return names


class FoldedConstant:
    """A constant of given value, computed by a random tree of nodes that are folded when a file is loaded.

    Grown from the result backwards: each step replaces a value by a node and the values it takes.
    """

    def __init__(self, rng, opset: int):
        self.rng = rng
        self.opset = opset
        self.nodes = []
        self.initializers = []
        self.ops = set()
        self._count = 0

    def add(self, value: np.ndarray, depth: int, name: str | None = None) -> str:
        name = name or self._name()
        rules = [self._identity, self._transpose, self._reshape, self._unsqueeze, self._squeeze, self._concat, self._slice,
                 self._gather, self._cast]
        while depth > 0:
            if rules[self.rng.integers(len(rules))](value, depth - 1, name):
                return name
        self._store(name, value)
        return name

    def _name(self):
        self._count += 1
        return f"t{self._count}"

    def _store(self, name, value):
        if self.rng.random() < 0.5:
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        else:
            self.nodes.append(helper.make_node("Constant", [], [name],
                                               value=numpy_helper.from_array(np.ascontiguousarray(value))))

    def _node(self, op, inputs, name, **attributes):
        self.ops.add(op)
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return True

    def _ints(self, values, dtype=None):
        name = self._name()
        dtype = dtype or (np.int64 if self.rng.random() < 0.7 else np.int32)
        self._store(name, np.asarray(values, dtype))
        return name

    def _list(self, op, inputs, name, since, **lists):
        """Lists are attributes before opset `since`, inputs from then on."""
        if self.opset < since:
            return self._node(op, inputs, name, **{k: [int(v) for v in values] for k, values in lists.items()})
        return self._node(op, inputs + [self._ints(values, np.int64) for values in lists.values()], name)

    def _identity(self, value, depth, name):
        return self._node("Identity", [self.add(value, depth)], name)

    def _transpose(self, value, depth, name):
        perm = self.rng.permutation(value.ndim)
        return self._node("Transpose", [self.add(value.transpose(np.argsort(perm)), depth)], name,
                          perm=[int(p) for p in perm])

    def _reshape(self, value, depth, name):
        if value.size == 0:
            return False  # a size of 0 means another thing here
        shape = [int(n) for n in value.shape]
        if self.rng.random() < 0.5:
            shape[self.rng.integers(len(shape))] = -1
        source = value.reshape(-1) if self.rng.random() < 0.5 else value.reshape(1, *value.shape[::-1])
        return self._node("Reshape", [self.add(source, depth), self._ints(shape, np.int64)], name)

    def _unsqueeze(self, value, depth, name):
        ones = [axis for axis, size in enumerate(value.shape) if size == 1]
        if not ones or value.ndim < 2:
            return False
        axis = int(self.rng.choice(ones))
        return self._list("Unsqueeze", [self.add(value.squeeze(axis), depth)], name, 13, axes=[axis])

    def _squeeze(self, value, depth, name):
        if value.ndim > 4:
            return False
        axis = int(self.rng.integers(value.ndim + 1))
        return self._list("Squeeze", [self.add(np.expand_dims(value, axis), depth)], name, 13, axes=[axis])

    def _concat(self, value, depth, name):
        axis = int(self.rng.integers(value.ndim))
        cuts = np.sort(self.rng.integers(value.shape[axis] + 1, size=self.rng.integers(1, 4)))
        parts = [self.add(part, depth - 1 if depth else 0) for part in np.split(value, cuts, axis)]
        return self._node("Concat", parts, name, axis=axis - int(self.rng.choice([0, value.ndim])))

    def _slice(self, value, depth, name):
        """The value lies in a larger tensor, with steps between its elements."""
        axis = int(self.rng.integers(value.ndim))
        size = value.shape[axis]
        step = int(self.rng.choice([1, 1, 2, -1, -2])) if self.opset >= 10 else 1
        before, after = self.rng.integers(3, size=2)
        length = before + after + (abs(step) * (size - 1) + 1 if size else 0)
        whole = np.asarray(self.rng.normal(size=(*value.shape[:axis], length, *value.shape[axis + 1:])), value.dtype)
        start, end = (before, length - after) if step > 0 else (length - after - 1, before - 1)
        if size == 0:
            start = end = 0
        elif step < 0 and end < 0:
            end = -length - 5
        chosen = [slice(None)] * value.ndim
        chosen[axis] = np.arange(start, start + step * size, step)
        whole[tuple(chosen)] = value
        lists = {"starts": [start], "ends": [end], "axes": [axis]}
        if self.opset >= 10:
            lists["steps"] = [step]
        return self._list("Slice", [self.add(whole, depth)], name, 10, **lists)

    def _gather(self, value, depth, name):
        axis = int(self.rng.integers(value.ndim))
        size = value.shape[axis]
        if size == 0:
            return False
        extra = int(self.rng.integers(3))
        places = self.rng.permutation(size + extra)[:size]
        whole = np.asarray(self.rng.normal(size=(*value.shape[:axis], size + extra, *value.shape[axis + 1:])), value.dtype)
        chosen = [slice(None)] * value.ndim
        chosen[axis] = places
        whole[tuple(chosen)] = value
        if self.opset >= 11:
            places = np.where(self.rng.random(size) < 0.3, places - (size + extra), places)
        return self._node("Gather", [self.add(whole, depth), self._ints(places)], name, axis=axis)

    def _cast(self, value, depth, name):
        if value.dtype != np.float32:
            return False
        return self._node("Cast", [self.add(value.astype(np.float64), depth)], name, to=TensorProto.FLOAT)
