# SPDX-License-Identifier: Apache-2.0
"""Files beside onnxruntime to which a request brings one record of each row beside its steps: it is joined with every step, or with
what is left of a sequence, or layers start from what is computed of it."""

from __future__ import annotations

from concurrent import futures

import grpc
import numpy as np
import pytest
from onnx import TensorProto

import exported_files
import wire
from test_fixed_states import File
from test_row_lengths import HIDDEN, ROWS, STEPS, WIDTH

RECORD = 3


class Recorded(File):
    def record(self):
        self.inputs.append(("z", TensorProto.FLOAT, ["n", RECORD]))
        return "z"

    def ramp(self, width):
        return self.store(np.arange(1, width + 1, dtype=np.float32))

    def linear(self, value, inner, width):
        return self.node("Add", [self.node("MatMul", [value, self.weight(inner, width)]), self.weight(width)])


def _computed(m, direction="forward"):
    d = 1 if direction == "forward" else 2
    made = [m.node("Tanh", [m.linear(m.record() if k == 0 else "z", RECORD, d * HIDDEN)]) for k in range(2)]
    states = [m.node("Transpose", [m.node("Reshape", [one, m.ints(-1, d, HIDDEN)])], perm=[1, 0, 2]) for one in made]
    return m.giving(*m.starting(*states, op="LSTM", direction=direction))


def _beside_each_step(m):
    z = m.node("Unsqueeze", [m.record(), m.ints(1)])
    joined = m.node("Concat", ["x", m.node("Expand", [z, m.sizes("n", "t", RECORD)])], axis=-1)
    y, h = m.rnn(joined, width=WIDTH + RECORD)
    return m.giving(m.node("Add", [y, m.linear(z, RECORD, HIDDEN)]), h)


def _behind_the_last(m):
    y, _ = m.rnn("x")
    last = m.node("Gather", [y, m.ints(-1, scalar=True)], axis=1)
    joined = m.node("Concat", [last, m.linear(m.record(), RECORD, 2)], axis=-1)
    return m.giving(m.linear(joined, HIDDEN + 2, 3), m.node("Mul", [m.linear("z", RECORD, HIDDEN), last]))


def _speaker(m):
    m.inputs.append(("speaker", TensorProto.INT64, ["n"]))
    z = m.node("Unsqueeze", [m.node("Gather", [m.weight(7, RECORD), "speaker"]), m.ints(1)])
    tiled = m.node("Tile", [z, m.sizes(1, "t", 1)])
    return m.giving(*m.rnn(m.node("Concat", [tiled, "x"], axis=-1), width=WIDTH + RECORD))


def _steps_first(m):
    """[T, N, ...] from the record on."""
    z = m.node("Expand", [m.node("Unsqueeze", [m.record(), m.ints(0)]), m.sizes("t", "n", RECORD)])
    joined = m.node("Concat", [m.node("Transpose", ["x"], perm=[1, 0, 2]), z], axis=2)
    return m.giving(*m.rnn(m.node("Transpose", [joined], perm=[1, 0, 2]), width=WIDTH + RECORD))


def _fixed(m):
    """By a file that fixes T and N."""
    m.dynamic = False
    m.inputs[:] = [("x", TensorProto.FLOAT, [ROWS, STEPS, WIDTH]), ("z", TensorProto.FLOAT, [ROWS, RECORD]),
                   ("speaker", TensorProto.INT64, [ROWS])]
    parts = [m.node("Expand", [m.node("Unsqueeze", ["z", m.ints(1)]), m.ints(ROWS, STEPS, RECORD)]), "x",
             m.node("Tile", [m.node("Unsqueeze", [m.node("Gather", [m.weight(7, 2), "speaker"]), m.ints(1)]), m.ints(1, STEPS, 1)])]
    y, h = m.rnn(m.node("Concat", parts, axis=-1), width=RECORD + WIDTH + 2)
    return m.giving(m.node("Add", [m.node("Expand", [m.node("Unsqueeze", [m.linear("z", RECORD, HIDDEN), m.ints(1)]),
                                                     m.ints(1, STEPS, 1)]), y]), h)


def _of_steps(m):
    """[N, T] of a file that fixes T is a number of each step, not a record."""
    m.dynamic = False
    m.inputs[:] = [("x", TensorProto.FLOAT, [ROWS, STEPS, WIDTH]), ("f", TensorProto.FLOAT, [ROWS, STEPS])]
    f = m.node("Transpose", [m.node("Unsqueeze", ["f", m.ints(1)])], perm=[0, 2, 1])
    return m.giving(*m.rnn(m.node("Concat", ["x", f], axis=2), width=WIDTH + 1))


def _repeated(m):
    """What a layer takes is the record alone, at as many steps as x has; and the file gives what it makes of it."""
    made = m.node("Relu", [m.linear(m.record(), RECORD, WIDTH)])
    _, h = m.rnn("x")
    y, h2 = m.rnn(m.node("Expand", [m.node("Unsqueeze", [made, m.ints(1)]), m.sizes("n", "t", WIDTH)]))
    return m.giving(y, h, h2, made, m.node("Softmax", [made], axis=-1))


def _from_last(m):
    """A layer starts from what is made of another layer's last step and a record."""
    y, h = m.rnn("x")
    return m.giving(m.starting(m.node("Add", [h, m.linear(m.record(), RECORD, HIDDEN)]))[0])


def _both_uses(m):
    """The layer starts from the record as it is, of which other things are computed as well."""
    m.inputs.append(("z", TensorProto.FLOAT, ["n", HIDDEN]))
    y, h = m.starting(m.node("Reshape", ["z", m.ints(1, -1, HIDDEN)]))
    last = m.node("Squeeze", [h, m.ints(0)])
    return m.giving(m.node("Mul", [y, m.node("Unsqueeze", ["z", m.ints(1)])]), m.node("Sub", ["z", last]), m.linear("z", HIDDEN, 2))


def _into_last(m, made, width, z="z"):
    """What is made of the record, joined with the last state and with the last step."""
    y, h = m.rnn("x")
    joined = m.node("Concat", [m.node("Squeeze", [h, m.ints(0)]), made], axis=1)
    last = m.node("Concat", [made, m.node("Gather", [y, m.ints(-1, scalar=True)], axis=1)], axis=-1)
    return m.giving(m.linear(joined, HIDDEN + width, 2), m.node("Add", [y, m.node("Unsqueeze", [m.linear(made, width, HIDDEN), m.ints(1)])]),
                    last)


def _first_use(op_type, *operands, **attributes):
    def make(m):
        return _into_last(m, m.node(op_type, [m.record(), *[operand(m) for operand in operands]], **attributes), RECORD)
    return make


def _added(m):
    """Only with the last step, whose numbers it has as many as."""
    m.inputs.append(("z", TensorProto.FLOAT, ["n", HIDDEN]))
    return m.giving(m.node("Add", [m.node("Gather", [m.rnn("x")[0], m.ints(-1, scalar=True)], axis=1), "z"]))


def _two(op_type, width, **attributes):
    def make(m):
        m.inputs.append(("w", TensorProto.FLOAT, ["n", RECORD]))
        return _into_last(m, m.node(op_type, [m.record(), "w"], **attributes), width)
    return make


def _beside_a_speaker(m):
    m.inputs.append(("speaker", TensorProto.INT64, ["n"]))
    return _into_last(m, m.node("Concat", [m.record(), m.node("Gather", [m.weight(7, 2), "speaker"])], axis=1), RECORD + 2)


def _of_integers(m):
    m.inputs.append(("speaker", TensorProto.INT64, ["n", RECORD]))
    return _into_last(m, m.node("Cast", ["speaker"], to=TensorProto.FLOAT), RECORD)


def _speaker_of_one_axis_more(m):
    """As Keras has it: Input((1,)), Embedding, Flatten."""
    m.inputs.append(("speaker", TensorProto.INT64, ["n", 1]))
    return _into_last(m, m.node("Reshape", [m.node("Gather", [m.weight(7, 2), "speaker"]), m.ints(-1, 2)]), 2)


def _one_number(m):
    m.inputs.append(("z", TensorProto.FLOAT, ["n", 1]))
    return _into_last(m, "z", 1)


def _part(m):
    m.inputs.append(("z", TensorProto.FLOAT, ["n", 2 * RECORD]))
    return _into_last(m, m.node("Slice", ["z", m.ints(0), m.ints(RECORD), m.ints(1)]), RECORD)


def _of_two_axes(m):
    m.inputs.append(("z", TensorProto.FLOAT, ["n", 2, RECORD]))
    return _into_last(m, m.node("Reshape", ["z", m.ints(-1, 2 * RECORD)]), 2 * RECORD)


def _beside_a_mask(m):
    """Of fixed sizes: one input [N, T] is of steps, the other [N, K] a record."""
    m.dynamic = False
    m.inputs[:] = [("x", TensorProto.FLOAT, [ROWS, STEPS, WIDTH]), ("f", TensorProto.FLOAT, [ROWS, STEPS]),
                   ("z", TensorProto.FLOAT, [ROWS, RECORD])]
    y, h = m.rnn(m.node("Mul", ["x", m.node("Unsqueeze", ["f", m.ints(2)])]))
    return m.giving(y, m.node("Concat", [m.node("Squeeze", [h, m.ints(0)]), m.node("Relu", ["z"])], axis=1))


def _of_all_rows(m):
    """The file has one row of it, whatever rows there are."""
    m.inputs.append(("z", TensorProto.FLOAT, [1, RECORD]))
    return m.giving(m.node("Add", [m.rnn("x")[0], m.node("Unsqueeze", [m.linear("z", RECORD, HIDDEN), m.ints(1)])]))


CASES = {
    "joined-first": lambda m: _into_last(m, m.record(), RECORD),
    "added-first": _added,
    "less-mean-first": lambda m: _into_last(m, m.node("Div", [m.node("Sub", [m.record(), m.weight(RECORD)]), m.ramp(RECORD)]), RECORD),
    "batch-norm-first": _first_use("BatchNormalization", *[lambda m: m.ramp(RECORD)] * 4),
    "layer-norm-first": _first_use("LayerNormalization", *[lambda m: m.ramp(RECORD)] * 2, epsilon=1e-2),
    "relu-first": _first_use("Relu"),
    "tanh-first": _first_use("Tanh"),
    "softmax-first": _first_use("Softmax", axis=1),
    "dropout-first": _first_use("Dropout"),
    "cast-first": _first_use("Cast", to=TensorProto.FLOAT),
    "two-joined": _two("Concat", 2 * RECORD, axis=1),
    "two-multiplied": _two("Mul", RECORD),
    "beside-a-speaker": _beside_a_speaker,
    "of-integers": _of_integers,
    "speaker-of-one-axis-more": _speaker_of_one_axis_more,
    "one-number": _one_number,
    "part": _part,
    "of-two-axes": _of_two_axes,
    "beside-a-mask": _beside_a_mask,
    "of-all-rows": _of_all_rows,
    "steps-first": _steps_first,
    "fixed": _fixed,
    "of-steps": _of_steps,
    "repeated": _repeated,
    "both-uses": _both_uses,
    "computed": _computed,
    "computed-both": lambda m: _computed(m, "bidirectional"),
    "beside-each-step": _beside_each_step,
    "behind-the-last": _behind_the_last,
    "speaker": _speaker,
}
FIXED = ("fixed", "of-steps", "beside-a-mask")
NO_SESSION = ("both-uses", "computed", "computed-both")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    yield from exported_files.served(tmp_path_factory.mktemp("rows"), {name: make(Recorded()) for name, make in CASES.items()})


def _info(server, name):
    request = wire.models_pb2.GetModelRequest()
    request.model.name = name
    return server.models.Get(request).model


def _feeds(info, rows, steps, rng):
    sizes = {"N": rows, "T": steps}
    feeds = {}
    for value in info.inputs:
        shape = [sizes.get(size) or int(size) for size in value.shape]
        if value.name == "speaker":
            feeds["speaker"] = rng.integers(-7, 7, shape)
        elif value.name not in ("lengths", "sequence_lens"):
            feeds[value.name] = rng.uniform(-1, 1, shape).astype(np.float32)
    return feeds


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_onnxruntime(served, name):
    server, root = served
    session = exported_files.session(str(root / name / "1" / "model.onnx"))
    info = _info(server, name)
    rng = np.random.default_rng(5)
    for steps, rows in ((5, 3), (1, 1), (4, 1), (1, 4), (9, 2)) if name not in FIXED else ((STEPS, ROWS),):
        feeds = _feeds(info, rows, steps, rng)
        expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
        assert exported_files.excess(exported_files.infer(server, name, feeds), expected) < 1e-5, (steps, rows)
        if steps > 1 and rows > 1 and name not in FIXED:
            assert exported_files.ragged(server, session, info, feeds, rng) < 1e-5
        pieces = exported_files.streamed(server, info, feeds, rng, records=sorted(set(feeds) - {"x", "f"}))
        assert (pieces is None) == (name in NO_SESSION)
        assert pieces is None or exported_files.excess(pieces, expected) < 1e-5, (steps, rows)


def _masked(m):
    joined = m.node("Concat", ["x", m.node("Expand", [m.node("Unsqueeze", ["z", m.ints(1)]), m.sizes("n", "t", RECORD)])], axis=-1)
    y, _ = m.rnn(joined, width=WIDTH + RECORD)
    return m.giving(m.node("Concat", [m.masked_mean(y), m.linear("z", RECORD, 2)], axis=1),
                    m.node("Add", [m.masked_max(y), m.linear("z", RECORD, HIDDEN)]))


def _packed(m):
    """Rows sorted by their lengths, and what the layer starts from as well."""
    lengths, order, back = m.order()
    state = m.node("Gather", [m.node("Unsqueeze", [m.linear("z", RECORD, HIDDEN), m.ints(0)]), order], axis=1)
    joined = m.node("Mul", ["x", m.node("Unsqueeze", [m.linear("z", RECORD, WIDTH), m.ints(1)])])
    gate = m.node("Gather", [joined, order], axis=0)
    y, h = m.rnn(gate, "GRU", "forward", lengths)
    next(node for node in m.nodes if node.op_type == "GRU").input.append(state)
    return m.giving(m.node("Gather", [y, back], axis=0), m.node("Gather", [h, back], axis=1))


def test_records_beside_lengths(tmp_path):
    models = {}
    for name, make in (("masked", _masked), ("packed", _packed)):
        m = Recorded()
        m.record()
        m.inputs.append(("lengths", TensorProto.INT64, ["n"]))
        models[name] = make(m)
    rng = np.random.default_rng(6)
    for server, root in exported_files.served(tmp_path, models):
        for name in models:
            session = exported_files.session(str(root / name / "1" / "model.onnx"))
            for rows, steps in ((3, 5), (1, 4), (4, 7)):
                feeds = _feeds(_info(server, name), rows, steps, rng)
                feeds["lengths"] = rng.integers(1, steps + 1, rows)
                feeds["lengths"][rng.integers(0, rows)] = steps
                expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
                assert exported_files.excess(exported_files.infer(server, name, feeds), expected) < 1e-5, (name, steps, rows)


def test_rows_without_steps(served):
    """What is made of a record alone is there for a row without steps as well, and where no row has one."""
    server, root = served
    session = exported_files.session(str(root / "both-uses" / "1" / "model.onnx"))
    rng = np.random.default_rng(7)
    feeds = _feeds(_info(server, "both-uses"), 3, 4, rng)
    expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    lengths = np.array([4, 0, 4], np.int32)
    got = exported_files.infer(server, "both-uses", {**feeds, "sequence_lens": lengths})
    np.testing.assert_allclose(got["y2"], expected["y2"], atol=1e-6)
    np.testing.assert_allclose(got["y1"][1], feeds["z"][1], atol=1e-6)  # its final state is zero
    np.testing.assert_allclose(got["y0"][[0, 2]], expected["y0"][[0, 2]], atol=1e-6)
    got = exported_files.infer(server, "both-uses", {**feeds, "x": feeds["x"][:, :0]})
    assert got["y0"].shape == (3, 0, HIDDEN)
    np.testing.assert_allclose(got["y2"], expected["y2"], atol=1e-6)


def test_requests_keep_to_their_own_records(served):
    """Requests of different sizes that are served together; one has a NaN, which stays in its row (onnxruntime's GRU makes 0 of it)."""
    server, root = served
    session = exported_files.session(str(root / "beside-each-step" / "1" / "model.onnx"))
    rng = np.random.default_rng(8)
    info = _info(server, "beside-each-step")
    all_feeds = [_feeds(info, int(rng.integers(1, 6)), int(rng.integers(1, 9)), rng) for _ in range(24)]
    all_feeds[5]["z"][0, 1] = np.nan
    with futures.ThreadPoolExecutor(12) as pool:
        all_got = list(pool.map(lambda feeds: exported_files.infer(server, "beside-each-step", feeds), all_feeds))
    for feeds, got in zip(all_feeds, all_got):
        for output, value in zip(session.get_outputs(), session.run(None, feeds)):
            ours = got[output.name]
            rows_axis = 0 if output.name == "y0" else 1
            of_nan = np.isnan(feeds["z"]).any(axis=1)
            assert np.isnan(np.compress(of_nan, ours, rows_axis)).all()
            np.testing.assert_allclose(np.compress(~of_nan, ours, rows_axis), np.compress(~of_nan, value, rows_axis), atol=1e-5)


@pytest.mark.parametrize("change, text", [
    ({"z": np.zeros((3, RECORD + 1), np.float32)}, "z has shape [3, 4]"),
    ({"z": np.zeros((2, RECORD), np.float32)}, "z has shape [2, 3]"),
    ({"z": np.zeros((3, 1, RECORD), np.float32)}, "z has shape [3, 1, 3]"),
    ({"z": np.zeros((3, RECORD), np.float64)}, "z is "),
    ({"z": None}, "input z is missing"),
])
def test_wrong_records_are_refused(served, change, text):
    server, _ = served
    feeds = _feeds(_info(server, "beside-each-step"), 3, 4, np.random.default_rng(9)) | change
    with pytest.raises(grpc.RpcError) as raised:
        exported_files.infer(server, "beside-each-step", {key: value for key, value in feeds.items() if value is not None})
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert text in raised.value.details()


@pytest.mark.parametrize("place", [-8, 7, 2**62])
def test_places_out_of_the_table_are_refused(served, place):
    server, _ = served
    feeds = _feeds(_info(server, "speaker"), 3, 4, np.random.default_rng(9))
    feeds["speaker"][1] = place
    with pytest.raises(grpc.RpcError) as raised:
        exported_files.infer(server, "speaker", feeds)
    assert f"speaker has {place} at element 1; the table that it is looked up in has 7 entries" in raised.value.details()


def _behind_relu(m):
    return m.node("Add", [m.rnn("x")[0], m.node("Unsqueeze", [m.linear(m.node("Relu", [m.record()]), RECORD, HIDDEN), m.ints(1)])])


REFUSED = {
    "along-rows": (lambda m: m.giving(m.rnn("x")[0], m.node("Softmax", [m.record()], axis=0)), "goes along axis 0 of [N, 3], which are steps or rows"),
    "beside-a-cumsum": (lambda m: m.giving(m.node("CumSum", [_behind_relu(m), m.ints(1, scalar=True)])), 'op_type "CumSum"'),
    "final-state": (_from_last, "is computed in the graph, or comes out of another layer"),
    "wide": (lambda m: m.giving(*m.starting(m.node("Unsqueeze", [m.linear(m.record(), RECORD, HIDDEN + 1), m.ints(0)]))),
             "is [1, N, 6]"),
    "product": (lambda m: m.giving(m.reduce("ReduceProd", m.rnn("x")[0], 1, 0)), "multiplies the numbers along an axis with one another"),
    "weights": (lambda m: m.giving(m.node("GRU", ["x", m.weight(1, 14, WIDTH), m.weight(1, 15, HIDDEN)], hidden_size=HIDDEN)),
                'node 0 (op_type "GRU", name "/GRU_3"): W has shape [1, 14, 4]'),
}


def test_refusals_name_the_node(tmp_path):
    failures = exported_files.refusals(tmp_path, {name: make(Recorded()) for name, (make, _) in REFUSED.items()})
    for name, (_, text) in REFUSED.items():
        assert text in failures.get(name, ""), (name, failures.get(name))
