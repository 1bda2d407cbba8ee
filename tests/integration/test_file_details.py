# SPDX-License-Identifier: Apache-2.0
"""What exporters write beside layers, in onnxruntime and in the server: numbers that the file computes from its own constants,
and operators that are seldom met."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import exported_files
import test_inspect
from server_process import Server
from test_row_lengths import HIDDEN, Model

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def _numbers(m, value):
    return m.store(np.asarray(value, np.float32))


def _weight_norm(m, shape, axes):
    """g * v / |v|, as torch.nn.utils.weight_norm leaves it in a file."""
    v = m.weight(*shape)
    length = m.node("ReduceL2", [v, m.ints(*axes)], keepdims=1) if m.opset >= 18 else m.node("ReduceL2", [v], axes=axes)
    return m.node("Mul", [v, m.node("Div", [m.weight(*[1 if axis in axes else size for axis, size in enumerate(shape)]), length])])


def _normed_layer(m, y):
    """W and R, which torch has as [3 * H, I], by their norms."""
    w, r = (m.node("Unsqueeze", [_weight_norm(m, (3 * HIDDEN, HIDDEN), (1,)), m.ints(0)]) for _ in range(2))
    bias = m.node("Concat", [m.node("Expand", [_numbers(m, 0.1), m.ints(1, 3 * HIDDEN)]), m.node("Neg", [m.weight(1, 3 * HIDDEN)])],
                  axis=1)
    made, h = m.name("Y"), m.name("Y_h")
    m.nodes.append(helper.make_node("GRU", [m.node("Transpose", [y], perm=[1, 0, 2]), w, r, bias], [made, h], name=made,
                                    hidden_size=HIDDEN))
    return m.node("Transpose", [m.node("Squeeze", [made, m.ints(1)])], perm=[1, 0, 2])


def _scaled_table(m, y):
    m.inputs.append(("tokens", I64, ["n", "t"]))
    table = m.node("Mul", [m.weight(50, HIDDEN), m.node("Sqrt", [_numbers(m, HIDDEN)])])
    return m.node("Add", [y, m.node("Gather", [table, "tokens"])])


def _some(op, *more, **attributes):
    """Of y, tanh(-y) and what is given."""
    return lambda m, y: m.node(op, [y, m.node("Tanh", [m.node("Neg", [y])]), *(_numbers(m, number) for number in more)], **attributes)


def _of_one(op, opset=18, **attributes):
    def make(m, y):
        m.opset = opset
        return m.node(op, [y], **attributes)
    return make


def _top(axis, **attributes):
    def make(m, y):
        if axis == 2:
            y = m.node("Reshape", [m.node("Concat", [y, m.node("Neg", [y])], axis=-1), m.ints(0, 0, HIDDEN, 2)])
        values, places = m.name("values"), "places"
        m.nodes.append(helper.make_node("TopK", [y, m.ints(3)], [values, places], axis=axis, **attributes))
        m.outputs.append((places, I64))
        return values
    return make


def _best(op, **attributes):
    """Of numbers among which some are equal."""
    def make(m, y):
        coarse = m.node("Clip", [y, _numbers(m, -0.01), _numbers(m, 0.01)])
        m.node(op, [coarse], "best", **attributes)
        m.outputs.append(("best", I64))
        return coarse
    return make


def _rms(m, y):
    m.opset = 23
    return m.node("RMSNormalization", [y, m.weight(HIDDEN)], epsilon=1e-3)


def _quantised(m, shape, dtype=np.int8, axis=None, block=0, scale_type=np.float32, zero=True):
    """(x - zero point) * scale"""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    sizes = () if axis is None else (shape[axis],)
    if block:
        sizes = tuple(-(-size // block) if at == axis else size for at, size in enumerate(shape))
    inputs = [m.store(m.numbers.integers(low, high + 1, shape).astype(dtype)),
              m.store(m.numbers.uniform(0.001, 0.01, sizes).astype(scale_type))]
    if zero:
        inputs.append(m.store(m.numbers.integers(low // 2, high // 2, sizes).astype(dtype)))
    return m.node("DequantizeLinear", inputs, **({} if axis is None else {"axis": axis}), **({"block_size": block} if block else {}))


def _four_bits(data_type):
    """Of 5 by 5 numbers: the last byte holds one."""
    def make(m, y):
        m.opset = 21
        dtype = helper.tensor_dtype_to_np_dtype(data_type)
        low = -8 if data_type == TensorProto.INT4 else 0
        stored = [m.store(m.numbers.integers(low, low + 16, shape).astype(dtype)) for shape in ((HIDDEN, 5), (5,))]
        weights = m.node("DequantizeLinear", [stored[0], m.store(m.numbers.uniform(0.01, 0.1, 5).astype(np.float32)), stored[1]], axis=1)
        return m.node("MatMul", [y, weights])
    return make


def _quantised_layer(m, y):
    w, r = (m.node("Unsqueeze", [_quantised(m, (3 * HIDDEN, HIDDEN), axis=0), m.ints(0)]) for _ in range(2))
    made, h = m.name("Y"), m.name("Y_h")
    m.nodes.append(helper.make_node("GRU", [m.node("Transpose", [y], perm=[1, 0, 2]), w, r], [made, h], name=made, hidden_size=HIDDEN))
    return m.node("Transpose", [m.node("Squeeze", [made, m.ints(1)])], perm=[1, 0, 2])


def _quantised_product(opset=18, **how):
    def make(m, y):
        m.opset = opset
        weights = _quantised(m, (HIDDEN, 6), **how)
        return m.node("MatMul", [y, weights if "scale_type" not in how else m.node("Cast", [weights], to=F32)])
    return make


def _group_norm(m, y):
    """Of HIDDEN * 2 numbers of a step as torch writes it: rows and steps joined, groups behind them."""
    wide = m.node("Reshape", [m.node("MatMul", [y, m.weight(HIDDEN, 6)]), m.ints(-1, 6)])
    groups = m.node("InstanceNormalization", [m.node("Reshape", [wide, m.ints(0, 2, -1)]), _numbers(m, [1, 2]), _numbers(m, [0, 1])],
                    epsilon=1e-3)
    made = m.node("Add", [m.node("Mul", [m.node("Reshape", [groups, m.node("Shape", [wide])]), m.weight(6)]), m.weight(6)])
    return m.node("Reshape", [made, m.node("Concat", [m.node("Shape", ["x"], end=2), m.ints(6)], axis=0)])


def _grouped(opset):
    """GroupNormalization of [T * N, 6, 2]: scales of groups, since opset 21 of channels."""
    def make(m, y):
        m.opset = opset
        many = 3 if opset < 21 else 6
        wide = m.node("Reshape", [m.node("MatMul", [y, m.weight(HIDDEN, 12)]), m.ints(-1, 6, 2)])
        made = m.node("GroupNormalization", [wide, m.weight(many), m.weight(many)], num_groups=3, epsilon=1e-2)
        return m.node("Reshape", [made, m.node("Concat", [m.node("Shape", ["x"], end=2), m.ints(12)], axis=0)])
    return make


def _einsum(equation, *shape, weights_first=False):
    def make(m, y):
        inputs = [y, m.weight(*shape)]
        return m.node("Einsum", inputs[::-1] if weights_first else inputs, equation=equation)
    return make


def _steps(op):
    """What a function with steps makes of numbers up to 5."""
    return lambda m, y: m.node(op, [m.node("Mul", [y, _numbers(m, 10)])])


def _differ(m, y):
    above = [m.node("Greater", [value, _numbers(m, 0)]) for value in (y, m.node("Add", [y, _numbers(m, 0.1)]))]
    return m.node("Cast", [m.node("Xor", above)], to=F32)


def _only_numbers(m, y):
    """torch.nan_to_num, and Keras' logsumexp."""
    log, far = m.node("Log", [y]), m.node("Reciprocal", [m.node("Relu", [y])])
    near = [m.node("Where", [m.node("IsNaN", [log]), _numbers(m, 0.5), log]), m.node("Where", [m.node("IsInf", [far]), _numbers(m, 7), far])]
    one_sided = [m.node("Where", [m.node("IsInf", [value], detect_negative=low, detect_positive=1 - low), _numbers(m, 9), _numbers(m, 0)])
                 for value in (far, m.node("Neg", [far])) for low in (0, 1)]
    return m.node("Concat", near + one_sided, axis=-1)


def _or_zeros(m, y):
    """torch.where(y > 0, y, torch.zeros_like(y)), as either exporter writes the zeros."""
    positive = m.node("Greater", [y, _numbers(m, 0)])
    made = m.node("Where", [positive, y, m.node("ConstantOfShape", [m.node("Shape", [y])])])
    low = m.node("Where", [positive, m.node("Expand", [_numbers(m, 0), m.node("Shape", [y])]), y])
    return m.node("Concat", [made, low], axis=-1)


def _kept_or_zeros(m, y):
    """torch.where(mask[..., None] > 0.5, y, torch.zeros_like(y)), and the other way round."""
    m.inputs.append(("mask", F32, ["n", "t"]))
    holds = m.node("Greater", [m.node("Unsqueeze", ["mask", m.ints(-1)]), _numbers(m, 0.5)])
    zeros = m.node("Expand", [_numbers(m, 0), m.node("Shape", [y])])
    inputs = m.node("Where", [holds, "x", m.node("ConstantOfShape", [m.node("Shape", ["x"])])])
    return m.node("Concat", [m.node("Where", [holds, y, m.node("ConstantOfShape", [m.node("Shape", [y])])]),
                             m.node("Where", [holds, zeros, y]), inputs], axis=-1)


def _any_and_all(m, y):
    """(y > 0).any(-1), (y > -0.5).all(-1), as torch.onnx writes them."""
    parts = []
    for op, bound in (("ReduceMax", 0.3), ("ReduceMin", -0.2)):
        holds = m.node("Cast", [m.node("Greater", [y, _numbers(m, bound)])], to=I64)
        parts.append(m.node("Cast", [m.node("Cast", [m.reduce(op, holds, -1, 1)], to=TensorProto.BOOL)], to=F32))
    return m.node("Concat", parts, axis=-1)


def _zero_rows(p):
    def make(m, y):
        return m.node("LpNormalization", [m.node("Relu", [m.node("Sub", [y, _numbers(m, 0.05)])])], axis=2, p=p)
    return make


def _last_place(m, value, axis=1, scalar=True):
    """size - 1, as torch writes y[:, x.shape[1] - 1]."""
    place = m.node("Sub", [m.all_of(value, axis), m.ints(1, scalar=True)])
    return place if scalar else m.node("Unsqueeze", [place, m.ints(0)])


def _last_of_turned(m, y):
    turned, _ = m.rnn(m.flip(y), width=HIDDEN)
    last = m.node("Gather", [m.flip(turned), _last_place(m, "x")], axis=1)
    return m.node("Add", [last, m.node("Gather", [turned, m.node("Add", [m.ints(-1, scalar=True), m.all_of(turned, 1)])], axis=1)])


def _mean_by_mask(data_type):
    """(y * mask).sum(1) / mask.sum(1).clamp(min=1), of a mask that requests bring."""
    def make(m, y):
        m.inputs.append(("mask", data_type, ["n", "t"]))
        mask = m.node("Cast", [m.node("Unsqueeze", ["mask", m.ints(-1)])], to=F32)
        count = m.node("Clip", [m.reduce("ReduceSum", mask, 1, 0), _numbers(m, 1)])
        return m.node("Div", [m.reduce("ReduceSum", m.node("Mul", [y, mask]), 1, 0), count])
    return make


def _mean_by_summed_integers(op, behind="mask"):
    """y.sum(1) of a mask, by mask.sum(1, keepdim=True).clamp(min=1) of integers."""
    def make(m, y):
        m.inputs.append(("mask", I64, ["n", "t"]))
        mask = behind if behind == "mask" else m.node("Cast", [m.node("Not", [m.node("Equal", ["mask", m.ints(0, scalar=True)])])], to=I64)
        kept = m.node("Mul", [y, m.node("Cast", [m.node("Unsqueeze", [mask, m.ints(-1)])], to=F32)])
        count = m.node(op, [m.reduce("ReduceSum", mask, 1, 1), m.ints(1, scalar=True)])
        return m.node("Div", [m.reduce("ReduceSum", kept, 1, 0), m.node("Cast", [count], to=F32)])
    return make


def _mean_by_expanded_mask(m, y):
    """sentence-transformers' mean pooling: mask.unsqueeze(-1).expand(y.size()).float()."""
    m.inputs.append(("mask", I64, ["n", "t"]))
    mask = m.node("Cast", [m.node("Expand", [m.node("Unsqueeze", ["mask", m.ints(-1)]), m.node("Shape", [y])])], to=F32)
    count = m.node("Clip", [m.reduce("ReduceSum", mask, 1, 0), _numbers(m, 1e-9)])
    return m.node("Div", [m.reduce("ReduceSum", m.node("Mul", [y, mask]), 1, 0), count])


def _narrowed(m, y):
    """y.narrow(1, y.size(1) - 1, 1) with dynamo=False: from T - 1 to T - 1 + 1."""
    first = _last_place(m, y)
    ends = [m.node("Unsqueeze", [place, m.ints(0)]) for place in (first, m.node("Add", [first, m.ints(1, scalar=True)]))]
    return m.node("Slice", [y, *ends, m.ints(1)])


def _part(m, y, first, end):
    return m.node("Slice", [y, m.ints(first), m.ints(end), m.ints(1)])


CASES = {
    "narrowed": _narrowed,
    "mean-by-summed-integers": _mean_by_summed_integers("Clip"), "mean-by-summed-tokens": _mean_by_summed_integers("Max", "tokens"),
    "mean-by-expanded-mask": _mean_by_expanded_mask, "kept-or-zeros": _kept_or_zeros, "any-and-all": _any_and_all,
    "mean-by-mask": _mean_by_mask(F32), "mean-by-mask-of-integers": _mean_by_mask(I64),
    "last-by-size": lambda m, y: m.node("Gather", [y, _last_place(m, "x")], axis=1),
    "last-by-size-kept": lambda m, y: m.node("Gather", [y, _last_place(m, y, scalar=False)], axis=1),
    "last-by-slice": lambda m, y: m.node("Slice", [y, _last_place(m, "x", scalar=False), m.ints(2**63 - 1), m.ints(1)]),
    "last-by-slice-to-size": lambda m, y: m.node("Slice", [y, _last_place(m, "x", scalar=False), m.node(
        "Unsqueeze", [m.all_of("x", 1), m.ints(0)]), m.ints(1)]),
    "last-of-turned": _last_of_turned,
    "all-by-size": lambda m, y: m.node("Slice", [y, m.ints(0), m.node("Unsqueeze", [m.all_of("x", 1), m.ints(0)]), m.ints(1)]),
    "weight-norm": lambda m, y: m.node("MatMul", [y, m.node("Transpose", [_weight_norm(m, (3, HIDDEN), (1,))], perm=[1, 0])]),
    "weight-norm-of-a-layer": _normed_layer,
    "scaled-table": _scaled_table,
    "computed-bounds": lambda m, y: m.node("Clip", [y, m.node("Neg", [_numbers(m, 0.1)]), m.node("Exp", [_numbers(m, -2)])]),
    "ones": lambda m, y: m.node("Sub", [m.node("ConstantOfShape", [m.ints(HIDDEN)], value=helper.make_tensor("v", F32, [1], [1])), y]),
    "size-of-a-table": lambda m, y: m.node("Reshape", [y, m.node("Concat", [m.ints(0, 0), m.node(
        "Shape", [m.weight(HIDDEN, 3)], end=1)], axis=0)]),
    "mean-of-a-table": lambda m, y: m.node("Add", [y, m.node("ReduceMean", [m.weight(4, HIDDEN), m.ints(0)], keepdims=0)]),
    "sum": _some("Sum", 0.5, [1, 2, 3, 4, 5]), "sum-of-one": _of_one("Sum"), "mean": _some("Mean", 3), "max": _some("Max", 0.1),
    "max-of-one": _of_one("Max"), "min": _some("Min", 0.1, [0.2, -0.2, 0.2, 0.2, 0.2]),
    "threshold": _of_one("ThresholdedRelu", alpha=0.1), "l1": _zero_rows(1), "l2": _zero_rows(2), "rms": _rms,
    "vector": lambda m, y: m.node("MatMul", [y, m.weight(HIDDEN)]),
    "tile": lambda m, y: m.node("Tile", [y, m.ints(1, 1, 3)]),
    "smallest": _top(-1, largest=0), "smallest-of-axis-2": _top(2, largest=0), "largest-of-axis-2": _top(2),
    "quantised": _quantised_product(), "quantised-uint8": _quantised_product(dtype=np.uint8),
    "quantised-axis-0": _quantised_product(axis=0, dtype=np.uint8), "quantised-axis-1": _quantised_product(axis=-1, zero=False),
    "quantised-opset-10": _quantised_product(opset=13), "quantised-blocks": _quantised_product(opset=21, axis=0, block=2),
    "quantised-blocks-of-columns": _quantised_product(opset=21, axis=1, block=4, dtype=np.uint8),
    "quantised-float16": _quantised_product(opset=19, scale_type=np.float16), "quantised-layer": _quantised_layer,
    "quantised-int4": _four_bits(TensorProto.INT4), "quantised-uint4": _four_bits(TensorProto.UINT4),
    "group-norm": _group_norm, "group-norm-18": _grouped(18), "group-norm-21": _grouped(21),
    "einsum": _einsum("ntf,fc->ntc", HIDDEN, 3), "einsum-transposed": _einsum("...f, cf -> ...c", 3, HIDDEN),
    "einsum-of-a-vector": _einsum("abc,c->ab", HIDDEN), "einsum-weights-first": _einsum("ij,ntj->nti", 3, HIDDEN, weights_first=True),
    "sin": _of_one("Sin"), "cos": _of_one("Cos"), "sign": _of_one("Sign"), "floor": _steps("Floor"), "ceil": _steps("Ceil"),
    "round": _steps("Round"), "only-numbers": _only_numbers, "differ": _differ, "or-zeros": _or_zeros,
    "by-size": lambda m, y: m.node("Div", [y, m.node("Cast", [m.node("Gather", [m.node("Shape", [y]), m.ints(2, scalar=True)])], to=F32)]),
    "argmin": _best("ArgMin", axis=-1), "argmin-last": _best("ArgMin", axis=-1, keepdims=0, select_last_index=1),
    "argmax-last": _best("ArgMax", axis=2, select_last_index=1),
}


OF_WHOLE_ROWS = {"last-of-turned"}  # what no session has


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    models = {}
    for name, make in CASES.items():
        m = Model(lengths=False)
        m.node("Identity", [make(m, m.rnn("x")[0])], "y")
        m.outputs.append(("y", F32))
        models[name] = m.model()
    yield from exported_files.served(tmp_path_factory.mktemp("details"), models)


@pytest.mark.parametrize("name", CASES)
def test_gives_onnxruntimes_numbers(served, name):
    server, root = served
    found = exported_files.differences(server, name, str(root / name / "1" / "model.onnx"), [["n", "t"], ["n", "t"]],
                                       np.random.default_rng(1))
    assert max(found.values()) <= 1e-5 and ("streamed" in found) == (name not in OF_WHOLE_ROWS), found


@pytest.mark.parametrize("make", [lambda m, y: m.node("Gather", [y, _last_place(m, "x", 0)], axis=1),
                                  lambda m, y: m.node("Slice", [y, _last_place(m, "x", 0, False), m.ints(2**63 - 1), m.ints(1)])])
def test_a_place_by_the_size_of_another_axis_is_refused(tmp_path, make):
    m = Model(lengths=False)
    onnx.save(m.giving(make(m, m.rnn("x")[0])), tmp_path / "model.onnx")
    assert "by the size of another" in test_inspect.inspect(tmp_path / "model.onnx")["reason"]


def test_a_dropout_of_training_is_refused(tmp_path):
    m = Model(lengths=False)
    m.nodes.append(helper.make_node("Dropout", ["x", _numbers(m, 0.5), m.store(np.asarray(True))], ["dropped"]))
    onnx.save(m.giving(m.rnn("dropped")[0]), tmp_path / "model.onnx")
    assert "may leave numbers out at random (training_mode)" in test_inspect.inspect(tmp_path / "model.onnx")["reason"]


def test_quantised_weights_in_a_file_of_their_own(tmp_path):
    m = Model(lengths=False)
    path = tmp_path / "quantised" / "1" / "model.onnx"
    path.parent.mkdir(parents=True)
    onnx.save(m.giving(_quantised_layer(m, m.rnn("x")[0])), path, save_as_external_data=True, location="data", size_threshold=70)
    server = Server(f"--models={tmp_path}", "--drain_timeout=100ms")
    found = exported_files.differences(server, "quantised", str(path), [["n", "t"]], np.random.default_rng(1))
    assert server.stop() == 0 and max(found.values()) <= 1e-5, found


def _normed_over_time(m, y):
    """nn.GroupNorm or nn.InstanceNorm1d of [N, C, T]."""
    m.opset = 21
    by_channels = m.node("Transpose", [y], perm=[0, 2, 1])
    return m.node("GroupNormalization", [by_channels, m.weight(HIDDEN), m.weight(HIDDEN)], num_groups=1)


@pytest.mark.parametrize("make, text", [
    (_normed_over_time, "normalises along axis 2 of [N, 5, T], which are steps or rows: it looks along time (PyTorch: nn.LayerNorm"),
    (lambda m, y: m.node("InstanceNormalization", [y, m.weight(HIDDEN), m.weight(HIDDEN)]), "normalises along axis 1 of [N, T, 5]"),
    (lambda m, y: m.node("DequantizeLinear", [m.node("QuantizeLinear", [y, _numbers(m, 0.1)]), _numbers(m, 0.1)]),
     "is quantised: serve the file that it was made from"),
    (_einsum("ntf,nc->ntfc", 3, 3), 'computes "ntf,nc->ntfc"; of Einsum a product of the last axis by weights'),
    (_einsum("ntf,fc->nct", HIDDEN, 3), "of Einsum a product of the last axis by weights"),
    (lambda m, y: (lambda total: m.node("Where", [m.node("Greater", [total, _numbers(m, 0)]), total, m.node(
        "ConstantOfShape", [m.node("Shape", [y])])]))(m.reduce("ReduceSum", y, 2, 1)), "which is no number of a step"),
    (lambda m, y: _part(m, y, 1, 2**63 - 1), "only the first or last step can be picked; `rnnctl split` leaves this node"),
    (lambda m, y: _part(m, y, 0, -1), "only the first or last step can be picked; `rnnctl split` leaves this node"),
    (lambda m, y: m.node("Add", [_part(m, y, 1, 2), m.node("Add", [_part(m, y, 2, 3), _part(m, y, 3, 4)])]),
     "its recurrence is unrolled: export it with dynamo=False"),
    (lambda m, y: m.node("Gather", [y, m.ints(4, scalar=True)], axis=1), "dynamo=True keeps it"),
    (lambda m, y: m.node("Gather", [y, m.node("Mul", [_last_place(m, y), m.ints(2, scalar=True)])], axis=1),
     "computes with the place of the last step other than by adding 1"),
    (lambda m, y: m.reduce("ReduceSum", m.node("Cast", [y], to=I64), 1, 0), "is of integers that are computed as numbers"),
    (lambda m, y: m.node("MatMul", [y, m.node("DequantizeLinear", [m.store(np.ones((HIDDEN, 3), np.int8)), m.weight(4)])]),
     "has scales of the shape [4], but [3] is needed"),
    (lambda m, y: m.node("MatMul", [y, m.node("DequantizeLinear", [m.store(np.ones((HIDDEN, 3), np.int8)), m.weight(3), m.store(
        np.zeros(2, np.int8))])]), "has not as many zero points as scales"),
])
def test_what_is_not_of_one_step_is_refused(tmp_path, make, text):
    m = Model(lengths=False)
    onnx.save(m.giving(make(m, m.rnn("x")[0])), tmp_path / "model.onnx")
    assert text in test_inspect.inspect(tmp_path / "model.onnx")["reason"]
