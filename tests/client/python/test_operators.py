# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest

import rnnserve
from rnnserve.operators import operator_from_wire, options_from_wire, options_to_wire

W, R, B = np.ones((1, 8, 3), np.float32), np.ones((1, 8, 2), np.float32), np.ones((1, 16), np.float32)


def test_attributes_keep_their_kinds_over_the_wire():
    attributes = {"clip": 0.5, "input_forget": True, "hidden_size": np.int64(2), "direction": "reverse",
                  "activations": ["Sigmoid", "Tanh", "Elu"], "activation_alpha": [1, 2.5], "activation_beta": []}
    wire = rnnserve.lstm(W, R, B, **attributes).to_wire()
    kinds = {name: value.WhichOneof("value") for name, value in wire.attributes.items()}
    assert kinds == {"clip": "f", "input_forget": "i", "hidden_size": "i", "direction": "s", "activations": "strings",
                     "activation_alpha": "floats", "activation_beta": "floats"}
    assert operator_from_wire(wire).attributes == {**attributes, "input_forget": 1}


@pytest.mark.parametrize("value", [None, {"a": 1}, [1, "a"], [None]], ids=str)
def test_other_attribute_values_are_refused_by_name(value):
    with pytest.raises(TypeError, match="attribute clip is"):
        rnnserve.rnn(W, R, clip=value).to_wire()


def test_the_version_is_the_callers_or_that_of_the_type():
    assert rnnserve.gru(W, R).version == 14
    assert rnnserve.gru(W.astype(ml_dtypes.bfloat16), R.astype(ml_dtypes.bfloat16)).version == 22
    assert rnnserve.gru(W, R, version=7).to_wire().version == 7
    by_opset = rnnserve.gru(W, R, opset=9).to_wire()
    assert by_opset.opset == 9 and not by_opset.HasField("version")
    with pytest.raises(ValueError, match="exactly one of version"):
        rnnserve.Operator("LSTM")
    with pytest.raises(ValueError, match="exactly one of version"):
        rnnserve.lstm(W, R, version=14, opset=14)


def test_openvino_names_its_domain():
    wire = rnnserve.openvino("GRUSequence", W, R, B, hidden_size=2, direction="forward",
                             linear_before_reset=True).to_wire()
    assert (wire.domain, wire.op_type, wire.version) == ("openvino", "GRUSequence", 5)
    assert wire.attributes["linear_before_reset"].i == 1


def test_weights_are_copied_and_do_not_change():
    mine = W.copy()
    op = rnnserve.lstm(mine, R)
    mine[:] = 9
    assert op.weights["W"].max() == 1 and set(op.weights) == {"W", "R"}
    with pytest.raises(ValueError, match="read-only"):
        op.weights["W"][:] = 9


def test_options_go_there_and_back():
    options = {"clip_cell_input": False, "empty_row_state": "initial", "deterministic": True,
               "weight_type": "int8"}
    assert options_from_wire(options_to_wire({**options, "allow_reduced_precision": None})) == options
    with pytest.raises(ValueError, match="'clip_cell' is unknown; the options are clip_cell_input"):
        options_to_wire({"clip_cell": True})
    with pytest.raises(ValueError, match='give "zeros" or "initial"'):
        rnnserve.lstm(W, R, options={"empty_row_state": "keep"})
    with pytest.raises(ValueError, match='give "as_given", "float16", "bfloat16" or "int8"'):
        options_to_wire({"weight_type": "int4"})
