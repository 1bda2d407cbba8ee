# SPDX-License-Identifier: Apache-2.0
"""Inputs, states and outputs of another type than the layers', in onnxruntime and in the server."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import exported_files
import test_inspect
from test_row_lengths import HIDDEN, Model

F16, F32, F64 = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE


def _of_type(inner, outer, states):
    """A model of `inner` whose inputs and outputs are of `outer`, as keep_io_types of onnxconverter_common writes it."""
    m = Model(lengths=False)
    m.data_type, m.dtype = inner, helper.tensor_dtype_to_np_dtype(inner)
    m.inputs[0] = ("x", outer, m.inputs[0][2])
    given = []
    if states:
        m.inputs += [(name, outer, [1, "n", HIDDEN]) for name in ("h0", "c0")]
        given = [m.node("Cast", [name], to=inner) for name in ("h0", "c0")]
    y, h = m.rnn(m.node("Cast", ["x"], to=inner), "LSTM")
    next(node for node in m.nodes if node.op_type == "LSTM").input.extend(given)
    m.node("Cast", [m.node("Softmax", [y], axis=-1)], "y", to=outer)
    m.node("Cast", [h], "hn", to=outer)
    m.outputs += [("y", outer), ("hn", outer)]
    return m.model()


CASES = {f"{TensorProto.DataType.Name(inner)}-in-{TensorProto.DataType.Name(outer)}{'-with-states' * states}": (inner, outer, states)
         for inner, outer in ((F16, F32), (F32, F64), (F32, F16), (F16, F64)) for states in (False, True)}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    yield from exported_files.served(tmp_path_factory.mktemp("types"), {name: _of_type(*case) for name, case in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_gives_onnxruntimes_numbers(served, name):
    server, root = served
    found = exported_files.differences(server, name, str(root / name / "1" / "model.onnx"), [["n", "t"]], np.random.default_rng(1))
    tolerance = 2**-9 if F16 in CASES[name] else 1e-5
    assert max(found.values()) <= tolerance and "streamed" in found, found


def test_other_types_are_refused_by_name(tmp_path):
    m = Model(lengths=False)
    m.inputs[0] = ("x", TensorProto.UINT8, m.inputs[0][2])
    onnx.save(m.giving(m.rnn(m.node("Cast", ["x"], to=F32))[0]), tmp_path / "model.onnx")
    assert 'graph input "x", which is of UINT8, but FLOAT, FLOAT16, BFLOAT16, DOUBLE, INT32 or INT64 is needed' in (
        test_inspect.inspect(tmp_path / "model.onnx")["reason"])
