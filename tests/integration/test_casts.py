# SPDX-License-Identifier: Apache-2.0
"""What a Cast rounds to, and what is computed in a type narrower than the layers': as onnx's evaluator has it, which rounds
each result as ONNX says. onnxruntime 1.31 does so between two casts, but leaves both out around an operator that it has no
float16 kernel for."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import exported_files
import wire
from server_process import Server
from test_row_lengths import STEPS, WIDTH, Model

F16, BF16, F32, F64 = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE
COMPUTED = {"none": lambda m, v: v, "tanh": lambda m, v: m.node("Tanh", [v]), "square": lambda m, v: m.node("Mul", [v, v]),
            "turned": lambda m, v: m.node("Transpose", [m.node("Tanh", [m.node("Transpose", [v], perm=[2, 0, 1])])], perm=[1, 2, 0]),
            "twice": lambda m, v: m.node("Add", [m.node("Exp", [v]), v])}
# Of a model of the first type what is computed in the second one.
CASES = {f"{own}-{to}-{how}": (own, to, how) for own, to, how in (
    *[(F32, F16, how) for how in COMPUTED], (F32, BF16, "none"), (F32, F64, "none"), (F16, F32, "none"), (F16, BF16, "none"),
    *[(F64, F32, how) for how in COMPUTED], (F64, F16, "none"), (F64, BF16, "none"), (F64, F16, "square"))}


def _model(own, to, how):
    """The layers' Y, and of x what is computed after a Cast, back in the layers' type and as it is."""
    m = Model(lengths=False)
    m.data_type, m.dtype = own, helper.tensor_dtype_to_np_dtype(own)
    m.inputs[0] = (m.inputs[0][0], own, m.inputs[0][2])
    m.node("Identity", [m.rnn("x")[0]], "y")
    made = COMPUTED[how](m, m.node("Cast", ["x"], to=to))
    m.node("Cast", [made], "back", to=own)
    m.node("Cast", [made], "wide", to=F64)
    m.outputs += [("y", own), ("back", own), ("wide", F64)]
    return m.model()


def _alone(model):
    """Without the layers, which the evaluator has in no version."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.output[0]
    return onnx.utils.Extractor(made).extract_model(["x"], ["back", "wide"])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("casts")
    for name, case in CASES.items():
        (root / name / "1").mkdir(parents=True)
        onnx.save(_model(*case), root / name / "1" / "model.onnx")
    running = Server(f"--models={root}")
    assert not [f"{f.path}: {f.reason}" for f in running.models.List(wire.models_pb2.ListModelsRequest()).failures]
    yield running
    assert running.stop() == 0


@pytest.mark.parametrize("name", CASES)
def test_a_cast_rounds(served, name):
    own, to, how = CASES[name]
    x = np.random.default_rng(1).uniform(-3, 3, (3, STEPS, WIDTH)).astype(helper.tensor_dtype_to_np_dtype(own))
    got = exported_files.infer(served, name, {"x": x})
    for key, value in zip(("back", "wide"), ReferenceEvaluator(_alone(_model(*CASES[name]))).run(None, {"x": x})):
        if how in ("none", "square"):
            np.testing.assert_array_equal(got[key], value)
        else:  # numpy's own float32 functions are a unit off here and there
            narrow = helper.tensor_dtype_to_np_dtype(to)
            np.testing.assert_array_equal(got[key].astype(narrow).astype(got[key].dtype), got[key])
            np.testing.assert_allclose(got[key], value, rtol=2 * float(np.finfo(narrow).eps), atol=float(np.finfo(narrow).eps))


def test_a_graph_output_of_another_type_than_the_layers_has_it(tmp_path):
    """Of a file whose nodes only move axes."""
    for name, to in (("wide", F64), ("narrow", F16)):
        m = Model(lengths=False)
        m.node("Cast", [m.rnn("x")[0]], "y", to=to)
        m.outputs.append(("y", to))
        (tmp_path / name / "1").mkdir(parents=True)
        onnx.save(m.model(), tmp_path / name / "1" / "model.onnx")
    server = Server(f"--models={tmp_path}")
    feeds = {"x": np.random.default_rng(2).uniform(-1, 1, (3, STEPS, WIDTH)).astype(np.float32)}
    for name in ("wide", "narrow"):
        (theirs,) = exported_files.session(str(tmp_path / name / "1" / "model.onnx")).run(None, feeds)
        got = exported_files.infer(server, name, feeds)["y"]
        assert got.dtype == theirs.dtype
        np.testing.assert_allclose(got, theirs, rtol=0, atol=1e-6 if name == "wide" else 2.0**-11)
    assert server.stop() == 0


def test_what_no_model_computes_is_refused_with_the_reason(tmp_path):
    def giving(make):
        m = Model(lengths=False)
        return m.giving(make(m, m.rnn("x")[0]))

    def zeros_like(m, value):
        return m.node("ConstantOfShape", [m.node("Shape", [value])])

    def half_a_state(m, _):
        m.inputs.append(("h0", F32, [1, "n", 5]))
        shape = m.node("Concat", [m.ints(1), m.node("Reshape", [m.all_of("x", 0), m.ints(1)]), m.ints(5)], axis=0)
        zeros = m.node("Expand", [m.store(np.zeros((1, 1, 1), np.float32)), shape])
        state = m.node("Concat", ["h0", zeros], axis=0)
        y, _ = m.rnn("x", direction="bidirectional")
        [node for node in m.nodes if node.op_type == "GRU"][-1].input.append(state)
        return y

    refused = {
        "uint8": (giving(lambda m, y: m.node("Cast", [m.node("Cast", [y], to=TensorProto.UINT8)], to=F32)), "Cast",
                  "casts to UINT8, which no served model computes with; cast to FLOAT"),
        "string": (giving(lambda m, y: m.node("Cast", [m.node("Cast", [y], to=TensorProto.STRING)], to=F32)), "Cast",
                   "casts to STRING"),
        "double": (giving(lambda m, y: m.node("Cast", [m.node("Tanh", [m.node("Cast", [y], to=F64)])], to=F32)), "Tanh",
                   "computes in DOUBLE, but the layers are of FLOAT"),
        "zeros-behind": (giving(lambda m, y: m.node("Concat", [y, zeros_like(m, y)], axis=1)), "Concat",
                         "joins zeros that the file makes with other numbers"),
        "zeros-before": (giving(lambda m, y: m.rnn(m.node("Concat", ["x", zeros_like(m, "x")], axis=1))[0]), "Concat",
                         "joins zeros that the file makes with other numbers"),
        "half-a-state": (giving(half_a_state), "Concat", "a state comes whole"),
        "by-steps": (giving(lambda m, y: m.node("Div", [y, m.node("Cast", [m.all_of("x", 1)], to=F32)])), "Div",
                     "computes with how many steps or rows there are"),
    }
    failures = exported_files.refusals(tmp_path, {name: model for name, (model, _, _) in refused.items()})
    for name, (_, node, text) in refused.items():
        assert f'(op_type "{node}", name ' in failures[name] and text in failures[name], failures[name]
        assert "rnnctl split" in failures[name]
