# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import rnnserve
from rnnserve import convert, formulas
from rnnserve.selftest import published
from rnnserve.selftest.__main__ import FORMULA_TOLERANCE, difference
from rnnserve.selftest.cases import all_cases

CASES = all_cases()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_converted_operator_gives_the_frameworks_numbers(case):
    assert difference(case.expected, formulas.run(case.op, case.inputs)) <= FORMULA_TOLERANCE


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_case_tells_a_wrong_conversion(case):
    """Each block of each weight matters: exchanged for its neighbour or dropped, the numbers are others."""
    blocks = case.op.weights["W"].shape[1] // case.op.weights["R"].shape[2]
    for name, value in case.op.weights.items():
        axis = 1
        parts = np.split(value, blocks * (2 if name == "B" else 1), axis=axis)
        for k, part in enumerate(parts):
            if not part.any():
                continue  # the zero half of a single bias
            wrong = np.concatenate(parts[:k] + [np.zeros_like(part)] + parts[k + 1:], axis=axis)
            assert difference(case.expected, formulas.run(changed(case.op, {name: wrong}), case.inputs)) > 1e-3
        if blocks > 1 and name != "B":
            wrong = np.concatenate(parts[1:] + parts[:1], axis=axis)
            assert difference(case.expected, formulas.run(changed(case.op, {name: wrong}), case.inputs)) > 1e-3


@pytest.mark.parametrize("attribute", ["linear_before_reset", "direction", "clip", "activation_alpha"])
def test_the_cases_tell_a_wrong_attribute(attribute):
    wrong = {"linear_before_reset": lambda value: 1 - value, "clip": lambda value: value * 2,
             "direction": lambda value: {"forward": "reverse", "reverse": "forward"}.get(value, value),
             "activation_alpha": lambda value: [1.1 * item for item in value]}[attribute]
    seen = 0
    for case in CASES:
        value = case.op.attributes.get(attribute)
        if value is not None and wrong(value) != value:
            op = changed(case.op, {}, {attribute: wrong(value)})
            assert difference(case.expected, formulas.run(op, case.inputs)) > 1e-3, case.name
            seen += 1
    assert seen >= 3


def test_the_cell_is_not_clipped_for_openvino():
    case = next(case for case in CASES if case.name == "OpenVINO LSTMSequence forward clip 0.7")
    large = {**case.inputs, "initial_c": 5 * case.inputs["initial_c"]}
    literal = rnnserve.Operator("LSTM", version=14, attributes=case.op.attributes, weights=case.op.weights)
    assert case.op.options == {"clip_cell_input": False}
    assert difference(formulas.run(case.op, large), formulas.run(literal, large)) > 1e-2


def changed(op, weights, attributes=None):
    return rnnserve.Operator(op.op_type, version=op.version, attributes={**op.attributes, **(attributes or {})},
                             weights={**op.weights, **weights}, options=op.options)


def torch_state(blocks, width, hidden, layers, directions, bias=True, seed=0):
    rng = np.random.default_rng(seed)
    state = {}
    for layer in range(layers):
        for suffix in ("", "_reverse")[:directions]:
            inputs = width if layer == 0 else hidden * directions
            shapes = {"weight_ih": (blocks * hidden, inputs), "weight_hh": (blocks * hidden, hidden)}
            if bias:
                shapes.update(bias_ih=(blocks * hidden,), bias_hh=(blocks * hidden,))
            state.update({f"{key}_l{layer}{suffix}": rng.uniform(-1, 1, shape) for key, shape in shapes.items()})
    return state


@pytest.mark.parametrize("batch_first", [False, True])
def test_torch_layers_in_a_row(batch_first):
    state = torch_state(4, 3, 4, layers=2, directions=2)
    X = np.random.default_rng(1).uniform(-1, 1, (5, 2, 3))
    expected, zeros = X, np.zeros((2, 4))
    for layer in range(2):
        sides = []
        for suffix in ("", "_reverse"):
            weights = [state[f"{key}_l{layer}{suffix}"] for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            run = published.unroll(published.torch_lstm, expected, [5, 2], zeros, zeros, weights, suffix != "")
            sides.append(run[0])
        expected = np.concatenate(sides, axis=-1)
    actual = np.swapaxes(X, 0, 1) if batch_first else X
    for op in convert.torch_lstm(state, batch_first=batch_first):
        Y = formulas.run(op, {"X": actual, "sequence_lens": np.array([5, 2])})["Y"]
        actual = convert.torch_output(Y, batch_first=batch_first)
    np.testing.assert_allclose(np.swapaxes(actual, 0, 1) if batch_first else actual, expected, rtol=0, atol=1e-12)


def test_missing_biases_stay_missing():
    assert set(convert.torch_gru(torch_state(3, 2, 4, 1, 1, bias=False))[0].weights) == {"W", "R"}
    assert set(convert.keras_lstm(np.zeros((2, 16)), np.zeros((4, 16))).weights) == {"W", "R"}


def keras_weights(blocks, bias, width=2, hidden=4):
    return np.zeros((width, blocks * hidden)), np.zeros((hidden, blocks * hidden)), np.zeros(bias)


@pytest.mark.parametrize("call, text", [
    (lambda: convert.torch_lstm({}), "no weight_ih_l0 among no names"),
    (lambda: convert.torch_lstm({"rnn.weight_ih_l0": 0}), "no weight_ih_l0 among rnn.weight_ih_l0"),
    (lambda: convert.torch_lstm({**torch_state(4, 2, 4, 1, 1), "weight_hr_l0": 0}), "proj_size"),
    (lambda: convert.torch_gru(torch_state(4, 2, 4, 1, 1)), r"weight_hh_l0 has shape \[16, 4\]"),
    (lambda: convert.torch_rnn(torch_state(1, 2, 4, 1, 1), nonlinearity="elu"), "nonlinearity is 'elu'"),
    (lambda: convert.keras_gru(*keras_weights(3, 12)), r"bias has shape \[12\], but GRU .* \[2, 12\]"),
    (lambda: convert.keras_gru(*keras_weights(3, (2, 12)), reset_after=False), r"bias has shape \[2, 12\]"),
    (lambda: convert.keras_lstm(*keras_weights(3, 12)), "recurrent_kernel has shape"),
    (lambda: convert.keras_lstm(*keras_weights(4, 16), recurrent_activation="hard_sigmoid", keras=1), "give 2 or 3"),
    (lambda: convert.keras_lstm(*keras_weights(4, 16), activation="gelu"), "'gelu' is not one of tanh"),
    (lambda: convert.keras_lstm(*keras_weights(4, 16), backward=keras_weights(4, 16), go_backwards=True), "exclude"),
    (lambda: convert.keras_lstm(*keras_weights(4, 16), backward=keras_weights(4, 16)[:2]), "one direction has a bias"),
    (lambda: convert.tf1_basic_lstm(np.zeros((3, 16)), np.zeros(16)), r"\[I\+H, 4H\]"),
    (lambda: convert.tf1_basic_lstm(np.zeros((6, 16)), np.zeros(12)), r"bias has shape \[12\]"),
    (lambda: convert.openvino_sequence("LSTM", 0, 0, 0), "'LSTM'; give one of LSTMSequence"),
    (lambda: convert.openvino_sequence("RNNSequence", np.zeros((1, 4, 2)), np.zeros((1, 4, 4)), np.zeros((1, 8))),
     r"B has shape \[1, 8\]"),
    (lambda: convert.openvino_sequence("RNNSequence", np.zeros((1, 4, 2)), np.zeros((1, 4, 4)), np.zeros((1, 4)),
                                       clip=-1), "clip is -1"),
    (lambda: convert.openvino_sequence("RNNSequence", np.zeros((1, 4, 2)), np.zeros((1, 4, 4)), np.zeros((1, 4)),
                                       activations=["elu"]), "'elu' is not one of sigmoid")])
def test_weights_that_do_not_fit_are_refused_by_name(call, text):
    with pytest.raises(ValueError, match=text):
        call()


class Module:
    """As torch's: weights by name, and what else the constructor was told."""

    def __init__(self, state, **told):
        self.state_dict = lambda: state
        self.__dict__.update(told)

    def get_submodule(self, name):
        return getattr(self, name) if name else self


def test_a_module_says_itself_what_its_weights_do_not():
    state = torch_state(1, 2, 4, 1, 1)
    inner = Module(state, batch_first=True, nonlinearity="relu")
    outer = Module({f"rnn.{name}": value for name, value in state.items()}, rnn=inner)
    for op in (*convert.torch_rnn(inner), *convert.torch_rnn(outer, prefix="rnn.")):
        assert op.attributes["layout"] == 1 and op.attributes["activations"] == ["Relu"]
    op, = convert.torch_rnn(inner, batch_first=False, nonlinearity="tanh")
    assert "layout" not in op.attributes and op.attributes["activations"] == ["Tanh"]
    op, = convert.torch_rnn(state)
    assert "layout" not in op.attributes and op.attributes["activations"] == ["Tanh"]
    with pytest.raises(ValueError, match=r"is the prefix 'rnn\.'\?"):
        convert.torch_rnn(outer, prefix="enc.")


def test_a_prefix_that_is_missing_is_guessed_and_other_things_are_refused():
    weights = {"enc.weight_ih_l0": np.zeros((4, 2)), "enc.weight_hh_l0": np.zeros((4, 4)), "fc.weight": np.zeros(2)}
    for prefix in ("", "enc", "dec."):
        with pytest.raises(ValueError, match=r"is the prefix 'enc\.'\?"):
            convert.torch_rnn(weights, prefix=prefix)
    assert len(convert.torch_rnn(weights, prefix="enc.")) == 1
    with pytest.raises(TypeError, match=r"module.state_dict\(\)"):
        convert.torch_rnn(object())
