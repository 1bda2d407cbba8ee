# SPDX-License-Identifier: Apache-2.0
import base64
import json
import math
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from conftest import REPOSITORY

import rnnserve
from rnnserve import convert, formulas

EXAMPLES = REPOSITORY / "client" / "examples"
sys.path.insert(0, str(EXAMPLES / "g2p"))


def run(*command):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300,
                          check=False)


@pytest.mark.parametrize("engine", ["", "reference", "cpu"])
def test_every_word_of_the_list_and_every_hidden_state(address, engine):
    done = run(EXAMPLES / "g2p" / "g2p.py", "--address", address, "--engine", engine, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert len(report["words"]) >= 40 and report["good"] and report["unequal"] == 0
    for record in report["words"]:
        assert record["server"] == record["package"] != [] and record["state_difference"] <= 2e-5
        assert record["states"] == len(record["word"]) + 1 + min(len(record["package"]) + 1, 20)


def test_words_of_the_command_line_as_a_table(address):
    done = run(EXAMPLES / "g2p" / "g2p.py", "--address", address, "Cat", "through")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^cat +K AE1 T +K AE1 T +yes", done.stdout, re.MULTILINE)
    assert re.search(r"^through +TH R UW1 +TH R UW1 +yes", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1].startswith("2 words, all equal; largest difference of ")


def test_mandarin_sentences_read_as_the_package_reads_them(address):
    done = run(EXAMPLES / "pinyin" / "pinyin.py", "--address", address, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert len(report["sentences"]) == 20 and report["good"] and report["unequal"] == 0
    for record in report["sentences"]:
        assert record["server"] == record["package"] and record["choices"] > 1 and 0 < record["difference"] <= 1e-4
    done = run(EXAMPLES / "pinyin" / "pinyin.py", "--address", address, "银行行长", "A, 你好!")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("银行行长  equal  yin2 hang2 xing2 zhang3\n")
    assert done.stdout.splitlines()[-1].startswith("2 sentences, all equal")


def test_a_dropped_direction_shows_in_the_logits(address):
    sys.path.insert(0, str(EXAMPLES / "pinyin"))
    import mandarin
    import pinyin

    package, broken = mandarin.package(), mandarin.package()
    broken.weight_hh_reverse = np.zeros_like(broken.weight_hh_reverse)
    with rnnserve.Client(address, timeout=60) as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr(pinyin, "MODEL", "without-backward")
        client.load(pinyin.MODEL, mandarin.file(broken))
        assert pinyin.read(client, package, ["银行行长走在大街上。"])[0]["difference"] > 1


@pytest.mark.parametrize("array", ["enc_emb", "enc_b_ih", "enc_b_hh", "dec_b_ih", "dec_b_hh"])
def test_a_dropped_array_shows_in_the_states(address, monkeypatch, array):
    """Phonemes forgive much; the comparison of hidden states does not."""
    import g2p
    import package
    import pronounce

    weights = package.load_weights(package.find_weights())
    for name in ("ENCODER", "DECODER"):
        monkeypatch.setattr(pronounce, name, f"without-{array}-{name}")
    with rnnserve.Client(address, timeout=60) as client:
        pronounce.load_models(client, {**weights, array: np.zeros_like(weights[array])})
        records = g2p.compare(weights, ["cat"], pronounce.pronounce(client, ["cat"]))
    assert not records[0]["state_difference"] <= 1e-3


def test_other_weights_under_the_models_names_are_told(address):
    with rnnserve.Client(address, timeout=60) as client:
        ones = np.ones((1, 3, 1), np.float32)
        client.load("taken", rnnserve.gru(ones, ones))
        with pytest.raises(rnnserve.RnnServeError) as caught:
            client.load("taken", rnnserve.gru(2 * ones, ones), version=1)
    assert caught.value.code.name == "ALREADY_EXISTS"


def test_a_caller_that_knows_only_the_address(address):
    done = run(EXAMPLES / "generic_call.py", address)
    assert done.returncode == 0, done.stderr
    outputs = {tensor["name"]: tensor for tensor in json.loads(done.stdout)["outputs"]}
    assert outputs["Y"]["shape"] == ["3", "1", "1", "1"]
    Y = np.frombuffer(base64.b64decode(outputs["Y"]["raw"]), "<f4")
    expected = [math.tanh(1)]
    for _ in range(2):
        expected.append(math.tanh(0.5 * expected[-1]))
    np.testing.assert_allclose(Y, expected, rtol=0, atol=1e-6)


def test_selftest_through_the_server(address):
    done = run("-m", "rnnserve.selftest", "--address", address)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^46 cases, 0 differ; .*through the server", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("readme, block, begins", [
    ("README.md", 0, "(5, "), ("README.md", 1, "(5, 1, 1, 4)\n" * 10)])
def test_the_python_of_the_readmes_runs(address, readme, block, begins):
    blocks = re.findall(r"```python\n(.*?)```", (REPOSITORY / readme).read_text(encoding="utf-8"), re.DOTALL)
    code, replaced = re.subn(r"(localhost|127\.0\.0\.1):50051", address, blocks[block])
    assert replaced == 1
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(begins)


def test_models_and_health(address):
    rng = np.random.default_rng(0)
    W, R = rng.standard_normal((1, 20, 3)).astype(np.float32), rng.standard_normal((1, 20, 5)).astype(np.float32)
    X = {"X": rng.standard_normal((4, 2, 3)).astype(np.float32)}
    op = rnnserve.lstm(W, R)
    with rnnserve.Client(address, timeout=60) as client:
        assert client.health() == "SERVING"
        info = client.load("tagger", op, version=2, deterministic=True)
        assert client.load("tagger", op, version=2, deterministic=True).fingerprint == info.fingerprint
        assert client.get("tagger").options == {"deterministic": True}
        assert client.get(fingerprint=info.fingerprint).fingerprint == info.fingerprint
        assert ("tagger", 2) in [(model.name, model.version) for model in client.models()]
        by_name, inline = client.infer(model="tagger", inputs=X), client.infer(op, X)
        assert by_name.fingerprint == inline.fingerprint == info.fingerprint
        np.testing.assert_array_equal(by_name.outputs["Y"], inline.outputs["Y"])
        np.testing.assert_array_equal(inline.outputs["Y"], client.infer(op, X).outputs["Y"])
        client.unload("tagger", 2)
        with pytest.raises(rnnserve.RnnServeError) as caught:
            client.infer(model="tagger", version=2, inputs=X)
        assert caught.value.reason == "MODEL_UNKNOWN"
        with pytest.raises(rnnserve.RnnServeError) as caught:
            client.infer(op, {"X": X["X"][:, :, :2]})
        assert caught.value.code.name == "INVALID_ARGUMENT" and caught.value.field == "inputs[X].shape"


@pytest.mark.parametrize("op_type, blocks, bias_blocks, attributes", [
    ("LSTMSequence", 4, 4, {"clip": 0.7}), ("GRUSequence", 3, 3, {}),
    ("GRUSequence", 3, 4, {"linear_before_reset": True}), ("RNNSequence", 1, 1, {"activations": ["relu"]})])
def test_openvino_operators_as_they_are_and_converted(address, op_type, blocks, bias_blocks, attributes):
    rng = np.random.default_rng(3)
    W, R, B = (rng.uniform(-1, 1, (2, rows * 5, *width)).astype(np.float32)
               for rows, width in ((blocks, (3,)), (blocks, (5,)), (bias_blocks, ())))
    X, h, c = (rng.uniform(-2, 2, shape).astype(np.float32) for shape in ((2, 4, 3), (2, 2, 5), (2, 2, 5)))
    native = rnnserve.openvino(op_type, W, R, B, hidden_size=5, direction="bidirectional", **attributes)
    inputs = {"X": X, "initial_hidden_state": h, "sequence_lengths": np.array([4, 2])}
    converted = convert.openvino_sequence(op_type, W, R, B, direction="bidirectional", **attributes)
    onnx = {"X": X, "initial_h": h, "sequence_lens": np.array([4, 2])}
    if op_type == "LSTMSequence":
        inputs["initial_cell_state"] = onnx["initial_c"] = c
    with rnnserve.Client(address, timeout=60) as client:
        ours, theirs = client.infer(native, inputs).outputs, client.infer(converted, onnx).outputs
    expected = formulas.run(converted, onnx)
    for name, onnx_name in {"Y": "Y", "Ho": "Y_h", "Co": "Y_c"}.items():
        if onnx_name in expected:
            np.testing.assert_allclose(theirs[onnx_name], expected[onnx_name], rtol=1e-5, atol=1e-5)
            value = convert.openvino_output(expected["Y"]) if name == "Y" else expected[onnx_name]
            np.testing.assert_allclose(ours[name], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype, tolerance", [
    (np.float64, 1e-12), (np.float32, 1e-5), (np.float16, 4e-3), (ml_dtypes.bfloat16, 3e-2)])
def test_every_element_type(address, dtype, tolerance):
    rng = np.random.default_rng(4)
    W, R, B, X = (rng.uniform(-1, 1, shape).astype(dtype) for shape in ((1, 15, 3), (1, 15, 5), (1, 30), (4, 2, 3)))
    op = rnnserve.gru(W, R, B, linear_before_reset=1)
    with rnnserve.Client(address, timeout=60) as client:
        outputs = client.infer(op, {"X": X}).outputs
    for name, expected in formulas.run(op, {"X": X}).items():
        assert outputs[name].dtype == np.dtype(dtype)
        np.testing.assert_allclose(outputs[name].astype(np.float64), expected, rtol=tolerance, atol=tolerance)
