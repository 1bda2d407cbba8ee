# SPDX-License-Identifier: Apache-2.0
"""The formulas against numbers worked out by hand, one unit and one or two steps at a time."""

import math

import numpy as np
import pytest

import rnnserve
from rnnserve import formulas


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def column(*values):
    return np.array(values, np.float64).reshape(1, -1, 1)


def row(*values):
    return np.array(values, np.float64).reshape(1, -1)


X1 = np.full((1, 1, 1), 0.5)


def test_lstm_blocks_peepholes_and_states():
    op = rnnserve.lstm(column(.1, .2, .3, .4), column(.5, .6, .7, .8), row(.01, .02, .03, .04, .05, .06, .07, .08),
                       row(.9, -.4, .3))
    h, c = .25, -.5
    i = sigmoid(.1 * .5 + .5 * h + .9 * c + .01 + .05)
    f = sigmoid(.3 * .5 + .7 * h + .3 * c + .03 + .07)
    n = math.tanh(.4 * .5 + .8 * h + .04 + .08)
    new = f * c + i * n
    o = sigmoid(.2 * .5 + .6 * h - .4 * new + .02 + .06)
    out = formulas.run(op, {"X": X1, "initial_h": [[[h]]], "initial_c": [[[c]]]})
    assert out["Y_c"].item() == pytest.approx(new, abs=1e-15)
    assert out["Y"].item() == out["Y_h"].item() == pytest.approx(o * math.tanh(new), abs=1e-15)


@pytest.mark.parametrize("clip_cell_input, seen", [(True, .3), (False, 2.0)])
def test_clip_and_input_forget(clip_cell_input, seen):
    op = rnnserve.lstm(column(9, 9, -9, 9), column(0, 0, 0, 0), clip=.3, input_forget=1,
                       options={"clip_cell_input": clip_cell_input})
    i = sigmoid(.3)
    out = formulas.run(op, {"X": X1, "initial_c": [[[(2.0 - i * math.tanh(.3)) / (1 - i)]]]})
    assert out["Y_c"].item() == pytest.approx(2.0)
    assert out["Y_h"].item() == pytest.approx(sigmoid(.3) * math.tanh(seen))


@pytest.mark.parametrize("form", [0, 1])
def test_both_gru_forms(form):
    op = rnnserve.gru(column(.1, .2, .3), column(.4, .5, .6), row(.01, .02, .03, .04, .05, .9),
                      linear_before_reset=form)
    h = .25
    z, r = sigmoid(.1 * .5 + .4 * h + .01 + .04), sigmoid(.2 * .5 + .5 * h + .02 + .05)
    n = math.tanh(.3 * .5 + .03 + (r * (.6 * h + .9) if form else .6 * r * h + .9))
    out = formulas.run(op, {"X": X1, "initial_h": [[[h]]]})
    assert out["Y_h"].item() == pytest.approx((1 - z) * n + z * h, abs=1e-15)


def test_directions_lengths_and_empty_rows():
    op = rnnserve.rnn(np.ones((2, 1, 1)), np.full((2, 1, 1), .5), direction="bidirectional",
                      activations=["Affine", "affine"], layout=1)
    X = np.array([1, 2, 4, 3, 5, np.nan, 7, 7, 7.]).reshape(3, 3, 1)
    start = np.full((3, 2, 1), 8.0)
    out = formulas.run(op, {"X": X, "sequence_lens": [3, 2, 0], "initial_h": start})
    np.testing.assert_array_equal(out["Y"][0, :, :, 0], [[5, 4], [4.5, 6], [6.25, 8]])
    np.testing.assert_array_equal(out["Y"][1, :, :, 0], [[7, 7.5], [8.5, 9], [0, 0]])
    np.testing.assert_array_equal(out["Y_h"][:, :, 0], [[6.25, 4], [8.5, 7.5], [0, 0]])
    kept = rnnserve.Operator("RNN", version=14, attributes=op.attributes, weights=op.weights,
                             options={"empty_row_state": "initial"})
    out = formulas.run(kept, {"X": X, "sequence_lens": [3, 2, 0], "initial_h": start})
    np.testing.assert_array_equal(out["Y_h"][2, :, 0], [8, 8])


@pytest.mark.parametrize("name, attributes, x, y", [
    ("Relu", {}, -2, 0), ("Tanh", {}, .5, math.tanh(.5)), ("Sigmoid", {}, -800, 0), ("Affine", {}, .7, .7),
    ("Affine", {"activation_alpha": [2.], "activation_beta": [1.]}, .7, 2.4), ("LeakyRelu", {}, -2, -.02),
    ("ThresholdedRelu", {}, 1, 1), ("ThresholdedRelu", {}, .99, 0), ("ScaledTanh", {}, .5, math.tanh(.5)),
    ("ScaledTanh", {"activation_alpha": [2.], "activation_beta": [3.]}, .5, 2 * math.tanh(1.5)),
    ("HardSigmoid", {}, 1, .7), ("HardSigmoid", {}, 9, 1), ("Elu", {}, -1, math.expm1(-1)), ("Elu", {}, 800, 800),
    ("Softsign", {}, -3, -.75), ("Softplus", {}, 0, math.log(2)), ("Softplus", {}, 900, 900)])
def test_functions(name, attributes, x, y):
    op = rnnserve.rnn(np.ones((1, 1, 1)), np.zeros((1, 1, 1)), activations=[name], **attributes)
    assert formulas.run(op, {"X": np.full((1, 1, 1), float(x))})["Y"].item() == pytest.approx(y, abs=1e-15)


def test_parameters_are_read_as_needed_and_full_lists_by_position():
    def last(**attributes):
        op = rnnserve.gru(column(0, 0, 1), column(0, 0, 0), activations=["Sigmoid", "LeakyRelu"], **attributes)
        return formulas.run(op, {"X": -X1})["Y_h"].item()  # z = 0.5

    assert last(activation_alpha=[.3]) == pytest.approx(-.5 * .3 * .5)
    assert last(activation_alpha=[9., .2]) == pytest.approx(-.5 * .2 * .5)
