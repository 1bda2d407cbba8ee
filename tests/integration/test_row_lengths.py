# SPDX-License-Identifier: Apache-2.0
"""What models do with the lengths of rows, as torch 2.15 exports it, beside onnxruntime: rows sorted by length and put back
(pack_padded_sequence with enforce_sorted=False), masks, the last step by length; and steps turned round (flip)."""

from __future__ import annotations

import dataclasses

import grpc
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import exported_files
import wire
from server_process import Server
from whole_graphs import Graph

STEPS, ROWS, WIDTH, HIDDEN = 7, 3, 4, 5
FAR = 2**63 - 1


class Model(Graph):
    """Features [N, T, WIDTH] and lengths [N], where the file fixes the sizes or not."""

    def __init__(self, dynamic=True, lengths=True):
        super().__init__(4)
        self.opset = 18
        self.dynamic = dynamic
        self.inputs.append(("x", TensorProto.FLOAT, ["n", "t", WIDTH] if dynamic else [ROWS, STEPS, WIDTH]))
        if lengths:
            self.inputs.append(("lengths", TensorProto.INT64, ["n"] if dynamic else [ROWS]))

    def all_of(self, value, axis):
        """The size of an axis, as one number."""
        if not self.dynamic:
            return self.ints(ROWS if axis == 0 else STEPS, scalar=True)
        return self.node("Gather", [self.node("Shape", [value]), self.ints(axis, scalar=True)], axis=0)

    def counting(self, value, axis):
        if not self.dynamic:
            return self.store(np.arange(ROWS if axis == 0 else STEPS))
        return self.node("Range", [self.ints(0, scalar=True), self.all_of(value, axis), self.ints(1, scalar=True)])

    def rnn(self, x, op="GRU", direction="forward", lengths="", width=WIDTH):
        """Y [N, T, D * H] and Y_h of x [N, T, width]."""
        d, gates = 2 if direction == "bidirectional" else 1, {"GRU": 3, "LSTM": 4}[op]
        weights = [self.weight(d, gates * HIDDEN, width), self.weight(d, gates * HIDDEN, HIDDEN), self.weight(d, 2 * gates * HIDDEN)]
        y, h = self.name("Y"), self.name("Y_h")
        steps_first = self.node("Transpose", [x], perm=[1, 0, 2])
        self.nodes.append(helper.make_node(op, [steps_first, *weights, lengths], [y, h], name=y, hidden_size=HIDDEN,
                                           direction=direction))
        joint = self.node("Reshape", [self.node("Transpose", [y], perm=[0, 2, 1, 3]), self.ints(0, 0, -1)])
        return self.node("Transpose", [joint], perm=[1, 0, 2]), h

    def order(self):
        """Rows by length: the lengths so, the order, and the order back."""
        lengths = self.node("Cast", ["lengths"], to=TensorProto.INT64)
        count = self.node("Reshape", [self.all_of(lengths, 0), self.ints(-1)])
        values, places = self.name("TopK"), self.name("TopK")
        self.nodes.append(helper.make_node("TopK", [lengths, count], [values, places], name=values, axis=-1, largest=1))
        empty = self.node("ConstantOfShape", [self.node("Shape", [places])],
                          value=helper.make_tensor("zero", TensorProto.INT64, [1], [0]))
        back = self.node("ScatterElements", [empty, places, self.counting("x", 0)], axis=0)
        return self.node("Cast", [values], to=TensorProto.INT32), places, back

    def packed(self, op="GRU", direction="bidirectional"):
        """Y and Y_h of the rows as they came."""
        lengths, order, back = self.order()
        y, h = self.rnn(self.node("Gather", ["x", order], axis=0), op, direction, lengths)
        return self.node("Gather", [y, back], axis=0), self.node("Gather", [h, back], axis=1)

    def mask(self, less=True):
        """[N, T, 1]: step < length, or length <= step."""
        steps = self.node("Unsqueeze", [self.counting("x", 1), self.ints(0)])
        ends = self.node("Unsqueeze", ["lengths", self.ints(1)])
        holds = self.node("Less", [steps, ends]) if less else self.node("GreaterOrEqual", [steps, ends])
        return self.node("Unsqueeze", [holds, self.ints(-1)])

    def masked_mean(self, y):
        numbers = self.node("Cast", [self.mask()], to=TensorProto.FLOAT)
        total = self.reduce("ReduceSum", self.node("Mul", [y, numbers]), 1, 0)
        return self.node("Div", [total, self.reduce("ReduceSum", numbers, 1, 0)])

    def mean_by_lengths(self, y):
        total = self.reduce("ReduceSum", self.node("Mul", [y, self.node("Cast", [self.mask()], to=TensorProto.FLOAT)]), 1, 0)
        ends = self.node("Unsqueeze", [self.node("Clip", ["lengths", self.ints(1, scalar=True)]), self.ints(1)])
        return self.node("Div", [total, self.node("Cast", [ends], to=TensorProto.FLOAT)])

    def masked_max(self, y):
        low = self.store(np.asarray(-1e9, np.float32))
        hidden = self.mask(less=False)
        if self.dynamic:
            hidden = self.node("Not", [self.node("Cast", [self.mask()], to=TensorProto.BOOL)])
        return self.reduce("ReduceMax", self.node("Where", [hidden, low, y]), 1, 0)

    def kept(self, y):
        """y where the mask holds, else 0."""
        return self.node("Mul", [y, self.node("Cast", [self.mask()], to=TensorProto.FLOAT)])

    def extreme(self, y, other, op="ReduceMax"):
        """Of y and, for rows that end before the others, of `other`."""
        chosen = self.node("Where", [self.mask(), y, self.store(np.asarray(other, np.float32))])
        return self.reduce(op, chosen, 1, 0)

    def last_by_lengths(self, y, elements, at_least=""):
        lengths = self.node(at_least, ["lengths", self.ints(1, scalar=True)]) if at_least else "lengths"
        last = self.node("Sub", [lengths, self.ints(1, scalar=True)])
        if elements:
            places = self.node("Reshape", [last, self.ints(-1, 1, 1)])
            places = self.node("Expand", [places, self.ints(1, 1, HIDDEN)])
            return self.node("Squeeze", [self.node("GatherElements", [y, places], axis=1), self.ints(1)])
        parts = [self.node("Unsqueeze", [part, self.ints(-1)]) for part in (self.counting("x", 0), last)]
        return self.node("GatherND", [y, self.node("Concat", parts, axis=-1)])

    def reverse(self, value):
        """As tf2onnx writes tf.reverse."""
        steps = self.node("Expand", [self.node("Reshape", [self.all_of(value, 1), self.ints(-1)]), self.node(
            "Reshape", [self.all_of(value, 0), self.ints(-1)])])
        return self.node("ReverseSequence", [value, steps], time_axis=1, batch_axis=0)

    def flip(self, value):
        return self.node("Slice", [value, self.ints(-1), self.ints(-FAR), self.ints(1), self.ints(-1)])

    def giving(self, *values):
        for k, value in enumerate(values):
            self.node("Identity", [value], f"y{k}")
            self.outputs.append((f"y{k}", TensorProto.FLOAT))
        return self.model()


def _backwards_of_keras(m):
    """LSTM with go_backwards, turned back; and its last step."""
    back, h = m.rnn(m.reverse("x"), "LSTM")
    return m.giving(m.reverse(back), m.node("Gather", [back, m.ints(-1, scalar=True)], axis=1), h)


def _two_ways(m):
    """Forwards, and backwards by flips."""
    there, _ = m.rnn("x")
    back, h = m.rnn(m.flip("x"), "LSTM")
    turned, _ = m.rnn(back, direction="reverse", width=HIDDEN)
    last = m.node("Gather", [turned, m.ints(-1, scalar=True)], axis=1)
    return m.giving(m.node("Concat", [there, m.flip(back)], axis=-1), h, last, m.flip(turned), m.reduce("ReduceMean", back, 1, 0))


def _sorted_state(m):
    lengths, order, back = m.order()
    m.inputs.append(("h0", TensorProto.FLOAT, [1, "n", HIDDEN]))
    state = m.node("Gather", ["h0", order], axis=1)
    y, _ = m.rnn(m.node("Gather", ["x", order], axis=0), lengths=lengths)
    next(node for node in m.nodes if node.op_type == "GRU").input.append(state)
    return m.giving(m.node("Gather", [y, back], axis=0))


def _reversed_sequences(m):
    turned = m.node("ReverseSequence", ["x", "lengths"], time_axis=1, batch_axis=0)
    y, h = m.rnn(turned, lengths=m.node("Cast", ["lengths"], to=TensorProto.INT32))
    return m.giving(m.node("ReverseSequence", [y, "lengths"], time_axis=1, batch_axis=0), h)


def _turn(m, value):
    return m.node("ReverseSequence", [value, "lengths"], time_axis=1, batch_axis=0)


def _picked(m, *repeated):
    """The last step by length, of a place for as many numbers as `repeated` has it."""
    places = m.node("Reshape", [m.node("Sub", ["lengths", m.ints(1, scalar=True)]), m.ints(-1, 1, 1)])
    if repeated:
        places = m.node("Expand", [places, m.ints(*repeated)])
    return m.giving(m.node("GatherElements", [m.rnn("x")[0], places], axis=1))


def _beyond_the_mask(m):
    """Extremes where a row's own numbers lie beyond what the file masks by, or on either side of it."""
    y, _ = m.rnn("x")
    far = m.node("Sub", [y, m.store(np.asarray(20000, np.float32))])
    return m.giving(m.extreme(far, -1e4), m.extreme(m.node("Neg", [far]), 1e4, "ReduceMin"), m.extreme(y, 0.01),
                    m.extreme(y, -0.01, "ReduceMin"), m.reduce("ReduceMax", m.kept(y), 1, 0))


def _computed_of_the_mask(m):
    """Sums of what the file computes of its mask before."""
    y, _ = m.rnn("x")
    low = m.node("Where", [m.mask(), y, m.store(np.asarray(-np.inf, np.float32))])
    kept = m.kept(y)
    values = [m.node("Relu", [kept]), m.node("Sigmoid", [kept]), m.node("Pow", [kept, m.store(np.asarray(2, np.float32))]),
              m.node("MatMul", [kept, m.weight(HIDDEN, 3)]), m.node("Exp", [low])]
    return m.giving(*[m.reduce("ReduceSum", value, 1, 0) for value in values], m.reduce("ReduceL1", kept, 1, 0),
                    m.reduce("ReduceL2", kept, 1, 0), m.reduce("ReduceSumSquare", kept, 1, 0),
                    m.reduce("ReduceSum", m.reduce("ReduceMean", kept, 2, 1), 1, 0), m.reduce("ReduceMean", kept, 1, 0))


def _hidden(m, y, by=-1e9):
    """y + (1 - mask) * by"""
    numbers = m.node("Cast", [m.mask()], to=TensorProto.FLOAT)
    off = m.node("Sub", [m.store(np.asarray(1, np.float32)), numbers])
    return m.node("Add", [y, m.node("Mul", [off, m.store(np.asarray(by, np.float32))])])


def _hidden_from_a_state(m):
    """Of a GRU whose state a request brings, however far from 0."""
    m.inputs.append(("h0", TensorProto.FLOAT, [1, "n", HIDDEN]))
    y, _ = m.rnn("x")
    next(node for node in m.nodes if node.op_type == "GRU").input.append("h0")
    return m.giving(m.reduce("ReduceMax", _hidden(m, y), 1, 0))


def _added_masks(m):
    """Numbers that are known to lie near 0, and what is far enough away to swallow them."""
    y, _ = m.rnn("x")
    linear = m.node("MatMul", [y, m.weight(HIDDEN, 3)])
    by_log = m.node("Add", [linear, m.node("Log", [m.node("Cast", [m.mask()], to=TensorProto.FLOAT)])])
    weights = m.node("Exp", [_hidden(m, m.node("MatMul", [y, m.weight(HIDDEN, 1)]), -200)])
    attended = m.node("Div", [m.reduce("ReduceSum", m.node("Mul", [weights, y]), 1, 0), m.reduce("ReduceSum", weights, 1, 0)])
    return m.giving(m.reduce("ReduceMax", _hidden(m, linear), 1, 0), m.reduce("ReduceMax", by_log, 1, 0), attended,
                    m.reduce("ReduceMin", _hidden(m, m.node("Tanh", ["x"]), 1e9), 1, 0))


def _behind_lengths(m):
    """What the file makes of the zeros that layers give beyond the ends of rows, and of masks that do not swallow."""
    y, _ = m.packed()
    features = m.node("Softmax", [m.node("Add", [m.node("MatMul", [y, m.weight(2 * HIDDEN, 3)]), m.weight(3)])], axis=-1)
    joined = m.node("Concat", [y, m.node("Sigmoid", [y])], axis=-1)
    ends = [m.reduce(op, value, 1, 0) for value in (y, joined, features)
            for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare")]
    lasts = [m.node("Gather", [value, m.ints(-1, scalar=True)], axis=1) for value in (y, joined, features)]
    return m.giving(*ends, *lasts, m.reduce("ReduceMax", _hidden(m, y, -1e4), 1, 0), m.reduce("ReduceMax", m.kept("x"), 1, 0),
                    m.node("Cast", [m.node("Gather", [m.node("ArgMax", [features], axis=-1, keepdims=0), m.ints(-1, scalar=True)],
                                           axis=1)], to=TensorProto.FLOAT))


def _far_beyond(m):
    """Means of infinite numbers, and LayerNorm of equal ones that are far from 0 and more than the sum of which is exact."""
    y, _ = m.rnn("x")
    infinite = [m.node("Where", [m.mask(), y, m.store(np.asarray(far, np.float32))]) for far in (-np.inf, np.inf)]
    wide = _hidden(m, m.node("MatMul", [y, m.weight(HIDDEN, 11)]))
    normed = m.node("LayerNormalization", [wide, m.weight(11), m.weight(11)], axis=-1)
    return m.giving(*[m.reduce("ReduceMean", value, 1, 0) for value in infinite],
                    *[m.reduce(op, normed, 1, 0) for op in ("ReduceSum", "ReduceMax", "ReduceMin")])


def _scaled_by_lengths(m):
    """y.max(1) * (lengths.clamp(min=3) - 2 + 1)"""
    places = m.node("Sub", [m.node("Clip", ["lengths", m.ints(3, scalar=True)]), m.ints(2, scalar=True)])
    count = m.node("Unsqueeze", [m.node("Add", [places, m.ints(1, scalar=True)]), m.ints(1)])
    return m.giving(m.node("Mul", [m.masked_max(m.packed()[0]), m.node("Cast", [count], to=TensorProto.FLOAT)]))


@dataclasses.dataclass
class Case:
    make: object
    lengths: bool = True


def _same_of_all(m):
    """What a file of fixed sizes stores for each row and step, and is the same for all."""
    y, _ = m.rnn("x")
    numbers = np.arange(HIDDEN, dtype=np.float32) / 10
    added = m.node("Add", [y, m.store(numbers if m.dynamic else np.tile(numbers, (ROWS, STEPS, 1)))])
    zeros = np.zeros(1 if m.dynamic else (ROWS, STEPS, HIDDEN), np.float32)
    return m.giving(added, m.node("Where", [m.node("Greater", [y, m.store(zeros)]), y, m.store(zeros)]))


CASES = {
    "same-of-all": Case(_same_of_all, lengths=False),
    **{f"packed-{op}-{direction}": Case(lambda m, op=op, direction=direction: m.giving(*m.packed(op, direction)))
       for op in ("GRU", "LSTM") for direction in ("forward", "bidirectional")},
    "packed-masked": Case(lambda m: (lambda y: m.giving(m.masked_mean(y), m.masked_max(y)))(m.packed()[0])),
    "masked-mean": Case(lambda m: m.giving(m.masked_mean(m.rnn("x")[0]))),
    "mean-by-lengths": Case(lambda m: m.giving(m.mean_by_lengths(m.rnn("x")[0]))),
    "masked-max": Case(lambda m: m.giving(m.masked_max(m.rnn("x")[0]))),
    "beyond-the-mask": Case(_beyond_the_mask),
    "computed-of-the-mask": Case(_computed_of_the_mask),
    "added-masks": Case(_added_masks),
    "packed-beyond-the-mask": Case(lambda m: (lambda y: m.giving(m.extreme(y, 0.01), m.extreme(y, -0.01, "ReduceMin")))(
        m.packed()[0])),
    "behind-lengths": Case(_behind_lengths),
    "far-beyond": Case(_far_beyond),
    "packed-last": Case(lambda m: m.giving(m.last_by_lengths(m.node("Tanh", [m.packed("GRU", "forward")[0]]), False))),
    "masked-steps": Case(lambda m: m.giving(m.node("Mul", [m.rnn("x")[0], m.node("Cast", [m.mask()], to=TensorProto.FLOAT)]))),
    "last-places": Case(lambda m: m.giving(m.last_by_lengths(m.rnn("x")[0], False))),
    "last-elements": Case(lambda m: m.giving(m.last_by_lengths(m.rnn("x")[0], True))),
    "last-places-of-clamped": Case(lambda m: m.giving(m.last_by_lengths(m.rnn("x")[0], False, "Max"))),
    "last-elements-of-clamped": Case(lambda m: m.giving(m.last_by_lengths(m.rnn("x")[0], True, "Clip"))),
    "packed-last-of-clamped": Case(lambda m: m.giving(m.last_by_lengths(m.packed("GRU", "forward")[0], False, "Clip"))),
    "scaled-by-lengths": Case(_scaled_by_lengths),
    "reversed-sequences": Case(_reversed_sequences),
    "reversed-without-lengths": Case(lambda m: m.giving(_turn(m, m.rnn(_turn(m, "x"))[0]))),
    "two-ways": Case(_two_ways, lengths=False),
    "backwards-of-keras": Case(_backwards_of_keras, lengths=False),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("lengths")
    for name, case in CASES.items():
        for dynamic in (True, False):
            path = root / f"{name}-{'dynamic' if dynamic else 'fixed'}" / "1" / "model.onnx"
            path.parent.mkdir(parents=True)
            onnx.save(case.make(Model(dynamic, case.lengths)), path)
    running = Server(f"--models={root}")
    assert not [f"{f.path}: {f.reason}" for f in running.models.List(wire.models_pb2.ListModelsRequest()).failures]
    yield running, root
    assert running.alive(), running.log()
    assert running.stop() == 0


@pytest.mark.parametrize("how", ["dynamic", "fixed"])
@pytest.mark.parametrize("name", CASES)
def test_numbers_of_onnxruntime(served, name, how):
    server, root = served
    path = root / f"{name}-{how}" / "1" / "model.onnx"
    session = exported_files.session(str(path))
    rng = np.random.default_rng(7)
    request = wire.models_pb2.GetModelRequest()
    request.model.name = f"{name}-{how}"
    info = server.models.Get(request).model
    for lengths in ([4, 7, 2], [7, 7, 1], [1, 2, 7], [7]) if how == "dynamic" else ([4, 7, 2], [1, 7, 7]):
        feeds = {"x": rng.uniform(-1, 1, (len(lengths), STEPS, WIDTH)).astype(np.float32)}
        if CASES[name].lengths:
            feeds["lengths"] = np.asarray(lengths)
        expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
        if CASES[name].lengths:
            exported_files.cut(info, expected, lengths)
        assert exported_files.excess(exported_files.infer(server, info.name, feeds), expected) < 1e-5, lengths


# Where the step of a row of length 0 is one of the padding, which no server computes.
OF_A_STEP = ("last-places", "last-elements", "last-places-of-clamped", "last-elements-of-clamped")


@pytest.mark.parametrize("lengths", [[0, 3], [2, 0, 7], [0, 0]])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.lengths])
def test_a_row_of_no_steps_ends_as_the_file_has_it(served, name, lengths):
    server, root = served
    feeds = {"x": np.random.default_rng(8).uniform(-1, 1, (len(lengths), STEPS, WIDTH)).astype(np.float32),
             "lengths": np.asarray(lengths)}
    if name in OF_A_STEP:
        with pytest.raises(grpc.RpcError) as raised:
            exported_files.infer(server, f"{name}-dynamic", feeds)
        assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert f"lengths has 0 for row {lengths.index(0)}, and the model's file picks a step" in raised.value.details()
        return
    request = wire.models_pb2.GetModelRequest()
    request.model.name = f"{name}-dynamic"
    session = exported_files.session(str(root / f"{name}-dynamic" / "1" / "model.onnx"))
    expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    exported_files.cut(server.models.Get(request).model, expected, lengths)
    got = exported_files.infer(server, request.model.name, feeds)
    for key, value in expected.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-5, err_msg=key)  # a mean of nothing is NaN in both


def _lengths_of_a_mask(m):
    m.inputs.append(("mask", TensorProto.INT64, ["n", "t"]))
    return m.giving(m.rnn("x", lengths=m.node("Cast", [m.reduce("ReduceSum", "mask", 1, 0)], to=TensorProto.INT32))[0])


def _sorted_by_a_mask(m):
    """pack_padded_sequence as torch wrote it before dynamo."""
    m.inputs.append(("mask", TensorProto.INT64, ["n", STEPS]))
    counts = m.reduce("ReduceSum", "mask", 1, 0)
    values, places = m.name("TopK"), m.name("TopK")
    m.nodes.append(helper.make_node("TopK", [counts, m.node("Shape", [counts])], [values, places], name=values, axis=0))
    return m.giving(m.rnn(m.node("Gather", ["x", places], axis=0), lengths=m.node("Cast", [values], to=TensorProto.INT32))[0])


def test_what_padding_would_reach_is_refused(tmp_path):
    def plus(m, value):
        return m.giving(m.node("Add", [m.masked_mean(m.rnn("x")[0]), value]))

    m = Model
    refused = {
        "backwards": ((lambda m: m.giving(m.masked_mean(m.rnn("x", direction="bidirectional")[0])))(m()),
                      "reads backwards, begins with the padding"),
        "mean": ((lambda m: plus(m, m.reduce("ReduceMean", m.rnn("x")[0], 1, 0)))(m()), "a mean over time counts the padding"),
        "sum": ((lambda m: plus(m, m.reduce("ReduceSum", m.rnn("x")[0], 1, 0)))(m()), "has more than the mask leaves of the padding"),
        "max": ((lambda m: plus(m, m.reduce("ReduceMax", m.rnn("x")[0], 1, 0)))(m()), "has more than the mask leaves of the padding"),
        "added": ((lambda m: m.giving(m.reduce("ReduceSum", m.node("Add", [m.rnn("x")[0], m.node(
            "Cast", [m.mask()], to=TensorProto.FLOAT)]), 1, 0)))(m()), "has more than the mask leaves of the padding"),
        "unbounded": ((lambda m: m.giving(m.reduce("ReduceMax", _hidden(m, "x"), 1, 0), m.kept(m.rnn("x")[0])))(m()),
                      "has more than the mask leaves of the padding"),
        "near": ((lambda m: m.giving(m.reduce("ReduceMax", _hidden(m, m.rnn("x")[0], -100.5), 1, 0)))(m()),
                 "has more than the mask leaves of the padding"),
        "from-a-state": (_hidden_from_a_state(m()), "has more than the mask leaves of the padding"),
        "state": ((lambda m: plus(m, m.node("Squeeze", [m.rnn("x")[1], m.ints(0)])))(m()), "a final state is that of the padding"),
        "last": ((lambda m: plus(m, m.node("Gather", [m.rnn("x")[0], m.ints(-1, scalar=True)], axis=1)))(m()),
                 "the last step is that of the padding"),
        "sorted": ((lambda m: m.giving(m.rnn(m.node("Gather", ["x", m.order()[1]], axis=0))[0]))(m()),
                   "put them back (PyTorch: pad_packed_sequence does)"),
        "sorted-state": (_sorted_state(m()), "sorts a state that requests bring"),
        "joined": ((lambda m: m.giving(m.node("Add", ["x", m.node("Gather", ["x", m.order()[1]], axis=0)]),
                                       m.rnn("x")[0]))(m()), "one has steps or rows that the other has not, or in another order"),
        "other-of-a-step": ((lambda m: m.giving(m.node("Add", [m.rnn("x")[0], m.weight(STEPS, HIDDEN)])))(m(False, lengths=False)),
                            "which has other numbers for different steps or rows"),
        "turned-by-rows": ((lambda m: m.giving(m.rnn(m.node("ReverseSequence", ["x", m.node("Expand", [m.node(
            "Reshape", [m.all_of("x", 0), m.ints(-1)]), m.node("Reshape", [m.all_of("x", 0), m.ints(-1)])])], time_axis=1,
            batch_axis=0))[1]))(m(lengths=False)), "turns the steps of rows round whose lengths are no graph input"),
        "turned": ((lambda m: m.giving(m.rnn(m.flip("x"))[0]))(m(lengths=False)), "back (PyTorch: flip; Keras: ops.flip"),
        "flipped-rows": ((lambda m: m.giving(m.rnn(m.node("Slice", ["x", m.ints(-1), m.ints(-FAR), m.ints(0), m.ints(-1)]))[0]))(
            m(lengths=False)), "its rows were turned round, and each row is computed by itself"),
        "turned-both": ((lambda m: m.giving(m.rnn(m.flip("x"), direction="bidirectional")[0]))(m(lengths=False)),
                        "turn the outputs round instead"),
        "turned-padding": ((lambda m: m.giving(m.flip(m.rnn(m.flip("x"), lengths=m.node(
            "Cast", ["lengths"], to=TensorProto.INT32))[0])))(m()), "turns all steps round, the padding before them"),
        "turned-rows": ((lambda m: m.giving(m.rnn(_turn(m, "x"))[1]))(m()), "a final state is that of the padding"),
        "turned-last": ((lambda m: m.giving(m.node("Gather", [m.rnn(_turn(m, "x"))[0], m.ints(-1, scalar=True)], axis=1)))(m()),
                        "the last step is that of the padding"),
        "turned-mean": ((lambda m: m.giving(m.reduce("ReduceMean", m.rnn(_turn(m, "x"))[0], 1, 0)))(m()),
                        "a mean over time counts the padding"),
        "turned-backwards": ((lambda m: m.giving(_turn(m, m.rnn(_turn(m, "x"), direction="reverse")[0])))(m()),
                             "reads backwards, begins with the padding"),
        "flat-places": ((lambda m: m.giving(m.node("Gather", [m.node("Flatten", [m.rnn("x")[0]], axis=2), m.node(
            "Add", [m.node("Sub", ["lengths", m.ints(1, scalar=True)]), m.ints(0, STEPS, 2 * STEPS)])])))(m(False)), "dynamo=True"),
        "of-a-mask": (_lengths_of_a_mask(m(lengths=False)), "let the model take them as an input [N]"),
        "sorted-by-a-mask": (_sorted_by_a_mask(m(lengths=False)), "has no fixed K; if these are the lengths of rows"),
        "one-place": (_picked(m()), "by places of another shape"),
        "one-less-of-clamped": ((lambda m: m.giving(m.node("GatherElements", [m.rnn("x")[0], m.node("Expand", [m.node("Reshape", [m.node(
            "Sub", [m.node("Max", ["lengths", m.ints(2)]), m.ints(1)]), m.ints(-1, 1, 1)]), m.ints(1, 1, HIDDEN)])], axis=1)))(m()),
            "picks by places that are computed"),
        "three-places": (_picked(m(), 1, 1, 3), "by places of another shape"),
        "two-steps": (_picked(m(), 1, 2, HIDDEN), "by places of another shape"),
        "residual": ((lambda m: m.giving(m.reduce("ReduceSum", m.node("Concat", ["x", m.packed()[0]], axis=-1), 1, 0)))(m()),
                     "looks beyond the ends of rows, where the file goes on with what requests bring as padding"),
        "packed-turned-last": ((lambda m: m.giving(m.node("Gather", [_turn(m, m.packed()[0]), m.ints(-1, scalar=True)], axis=1)))(
            m()), "looks beyond the ends of rows"),
        "other-lengths": ((lambda m: m.giving(m.rnn(m.node("Gather", ["x", m.order()[1]], axis=0), lengths=m.node(
            "Cast", ["lengths"], to=TensorProto.INT32))[0]))(m()), "of rows in another order than X"),
    }
    failures = exported_files.refusals(tmp_path, {name: model for name, (model, _) in refused.items()})
    for name, (_, text) in refused.items():
        assert text in failures.get(name, ""), (name, failures.get(name))
