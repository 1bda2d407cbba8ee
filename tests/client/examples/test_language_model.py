# SPDX-License-Identifier: Apache-2.0
"""The example of a language model: its training against finite differences, its answers against the formulas."""

import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import REPOSITORY

import rnnserve

EXAMPLE = REPOSITORY / "client" / "examples" / "language_model"
sys.path.insert(0, str(EXAMPLE))

import language_model  # noqa: E402
import network  # noqa: E402


@pytest.mark.parametrize("name", ["table", "cell", "bias", "out", "out_bias"])
def test_gradients_are_slopes(name):
    weights = {key: value.astype(np.float64) for key, value in network.start(7, 5).items()}
    rng = np.random.default_rng(1)
    tokens, nexts = rng.integers(0, 7, (2, 6, 3))
    h, c = rng.normal(size=(2, 3, 5))
    _, gradients, _, _ = network.loss_and_gradients(weights, tokens, nexts, h, c)
    assert np.abs(gradients[name]).max() > 1e-3
    flat, slopes = weights[name].reshape(-1), gradients[name].reshape(-1)
    for place in rng.choice(flat.size, min(flat.size, 12), replace=False):
        kept, losses = flat[place], []
        for moved in (1e-5, -1e-5):
            flat[place] = kept + moved
            losses.append(network.loss_and_gradients(weights, tokens, nexts, h, c)[0])
        flat[place] = kept
        assert slopes[place] == pytest.approx((losses[0] - losses[1]) / 2e-5, abs=1e-7)


def test_training_learns():
    text = np.tile(np.arange(5), 400)
    weights = network.start(5, 8)
    network.train(weights, text, 60, most=150)
    h = c = np.zeros((1, 8), np.float32)
    for token in (0, 1, 2):
        _, _, h, c = network.step(weights, np.array([token]), h, c)
    assert network.log_probabilities(weights, h)[0].argmax() == 3


def test_sentences_and_bytes(address):
    done = subprocess.run([sys.executable, str(EXAMPLE / "language_model.py"), "--address", address, "--vocabulary", "3000",
                           "--hidden", "16", "--seconds", "1", "--measure", "0.2", "--json"], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["good"] and 0 < report["difference"] <= 1e-4 and report["vocabulary"] == 3000
    assert len(report["sentences"]) == 4 and all(len(line.split()) == 21 for line in report["sentences"])
    assert not any("<unk>" in line for line in report["sentences"])
    down = {row["outputs"]: row["bytes_down"] for row in report["measured"]}
    assert down["logits"] > 4 * 3000 and down["top-k"] < 500
    assert all(row["bytes_up"] < 500 and row["steps_per_second"] > 0 for row in report["measured"])


def test_a_changed_weight_shows(address):
    weights = network.start(50, 8)
    with rnnserve.Client(address, timeout=60) as client:
        client.load(language_model.MODEL, network.file(weights, 4), version=7)
        changed = {**weights, "bias": weights["bias"] + 0.1}
        assert language_model.write(client, changed, [1, 2], 3)[1] > 1e-3
        client.unload(language_model.MODEL, 7)
