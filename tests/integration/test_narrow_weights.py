# SPDX-License-Identifier: Apache-2.0
"""weight_type through the Python client: calls, sessions and models have the same bits, and a loss that is small."""

from __future__ import annotations

import numpy as np
import pytest
import rnnserve

MOST = {"float16": 1e-3, "bfloat16": 1e-2, "int8": 1e-2}


@pytest.fixture(scope="module")
def client(server):
    with rnnserve.Client(server.address) as connected:
        yield connected


def _operator() -> tuple[rnnserve.Operator, np.ndarray]:
    rng = np.random.default_rng(3)
    weights = [(rng.standard_normal((1, 51, n)) / 4).astype(np.float32) for n in (8, 17)]
    return rnnserve.gru(*weights, hidden_size=17), rng.standard_normal((9, 1, 8)).astype(np.float32)


@pytest.mark.parametrize("name", MOST)
def test_calls_sessions_and_models_agree(client, name):
    op, x = _operator()
    exact = client.infer(op, {"X": x}, engine="reference").outputs["Y"]
    options = {"weight_type": name, "allow_reduced_precision": True, "deterministic": True}
    narrow = client.infer(op, {"X": x}, **options).outputs["Y"]
    assert 1e-6 < np.abs(narrow - exact).max() < MOST[name]
    with client.session(op, **options) as session:
        steps = [session.feed(x[k:k + 1])["Y"] for k in range(len(x))]
    np.testing.assert_array_equal(np.concatenate(steps), narrow)
    assert client.load(f"narrow_{name}", op, **options).options == options
    np.testing.assert_array_equal(client.infer(f"narrow_{name}", {"X": x}).outputs["Y"], narrow)
    given = client.infer(f"narrow_{name}", {"X": x}, weight_type="as_given").outputs["Y"]
    np.testing.assert_allclose(given, exact, atol=1e-6)


def test_a_model_is_refused_without_reduced_precision(client):
    op, _ = _operator()
    with pytest.raises(rnnserve.RnnServeError, match="options.weight_type.*set allow_reduced_precision as well"):
        client.load("narrow_refused", op, weight_type="int8")
