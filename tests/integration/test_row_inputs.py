# SPDX-License-Identifier: Apache-2.0
"""Files beside onnxruntime to which a request brings one record of each row beside its steps: it is joined with every step, or with
what is left of a sequence, or layers start from what is computed of it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import exported_files
import wire
from server_process import Server
from test_fixed_states import File
from test_row_lengths import HIDDEN, WIDTH

RECORD = 3


class Recorded(File):
    def record(self):
        self.inputs.append(("z", TensorProto.FLOAT, ["n", RECORD]))
        return "z"

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


CASES = {
    "computed": _computed,
    "computed-both": lambda m: _computed(m, "bidirectional"),
    "beside-each-step": _beside_each_step,
    "behind-the-last": _behind_the_last,
    "speaker": _speaker,
}
NO_SESSION = ("computed", "computed-both")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    yield from exported_files.served(tmp_path_factory.mktemp("rows"), {name: make(Recorded()) for name, make in CASES.items()})


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
        given = {value.name for value in session.get_inputs()}
        feeds |= {key: value for key, value in (("z", rng.uniform(-1, 1, (rows, RECORD)).astype(np.float32)),
                                                ("speaker", rng.integers(0, 7, rows))) if key in given}
        expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
        assert exported_files.excess(exported_files.infer(server, name, feeds), expected) < 1e-5, (steps, rows)
        if steps > 1 and rows > 1:
            assert exported_files.ragged(server, session, info, feeds, rng) < 1e-5
        pieces = exported_files.streamed(server, info, feeds, rng, records=sorted(given & {"z", "speaker"}))
        assert (pieces is None) == (name in NO_SESSION)
        assert pieces is None or exported_files.excess(pieces, expected) < 1e-5, (steps, rows)


REFUSED = {
    "product": (lambda m: m.giving(m.reduce("ReduceProd", m.rnn("x")[0], 1, 0)), "multiplies numbers of steps with one another"),
    "weights": (lambda m: m.giving(m.node("GRU", ["x", m.weight(1, 14, WIDTH), m.weight(1, 15, HIDDEN)], hidden_size=HIDDEN)),
                'node 0 (op_type "GRU", name "/GRU_3"): W has shape [1, 14, 4]'),
}


def test_refusals_name_the_node(tmp_path):
    for name, (make, _) in REFUSED.items():
        (tmp_path / name / "1").mkdir(parents=True)
        onnx.save(make(Recorded()), tmp_path / name / "1" / "model.onnx")
    server = Server(f"--models={tmp_path}")
    failures = {f.path.split("/")[0]: f.reason for f in server.models.List(wire.models_pb2.ListModelsRequest()).failures}
    for name, (_, text) in REFUSED.items():
        assert text in failures.get(name, ""), (name, failures.get(name))
    assert server.stop() == 0
