# SPDX-License-Identifier: Apache-2.0
"""Every element type and both dialects against formulas.py, which computes in double from the same given values.

Section 11: 16-bit operators keep float32 inside and round once at the end, so a result is off by half a unit in the
last place and the float32 noise of float32 operators, and no more; float64 is double throughout.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import formulas
import random_operators
import wire
from operators import OUTPUTS

CASES_EACH = 70
TYPES = {
    # type: (relative, absolute) bound; 2^-11 and 2^-8 are half a unit in the last place.
    "float16": (np.dtype(np.float16), 2.0**-11 + 1e-5, 1e-5 + 2.0**-25),
    "bfloat16": (np.dtype(ml_dtypes.bfloat16), 2.0**-8 + 1e-5, 1e-5),
    "float32": (np.dtype(np.float32), 1e-5, 1e-5),
    "float64": (np.dtype(np.float64), 1e-12, 1e-12),
}


@pytest.mark.parametrize("name", TYPES)
def test_type(server, name, capsys):
    dtype, rtol, atol = TYPES[name]
    worst, by_op, failures = 0.0, {}, []
    for k in range(CASES_EACH):
        rng = np.random.default_rng([30, list(TYPES).index(name), k])
        while True:
            case = random_operators.draw_of_type(rng, dtype)
            expected = random_operators.tame(case)
            if expected is not None:
                break
        by_op[case.op] = by_op.get(case.op, 0) + 1
        typed = [n for n in case.tensors if rng.random() < 0.25]
        wanted = [n for n in OUTPUTS[case.op] if rng.random() < 0.5] if k % 5 == 0 else []
        for engine in ("cpu", "reference"):
            response = server.recurrent.Infer(wire.request(case, engine=engine, typed=typed, outputs=wanted))
            results = wire.results(response)
            assert list(results) == (wanted or list(OUTPUTS[case.op])), str(case)
            for output, got in results.items():
                exact = expected[output]
                assert got.dtype == dtype and got.shape == exact.shape, f"{output} of {case}"
                difference = np.abs(got.astype(np.float64) - exact)
                worst = max(worst, float(difference.max(initial=0)))
                if not np.all(difference <= atol + rtol * np.abs(exact)):
                    failures.append(f"{output} on {engine} differs by up to {difference.max():.3g}: {case}")
    with capsys.disabled():
        print(f"\n{name}: {CASES_EACH} operators {by_op}, worst absolute difference {worst:.2g}")
    assert not failures, f"{len(failures)} differences:\n" + "\n".join(failures[:10])


def test_formulas_are_right():
    """The judge judged: values worked out by hand."""
    one = np.ones((1, 1, 1))
    rnn = formulas.Case("RNN", {"X": one, "W": one * 0.5, "R": one}, {}, version=14)
    assert np.isclose(formulas.run(rnn)["Y"][0, 0, 0, 0], np.tanh(0.5))
    zeros = {"X": np.zeros((2, 1, 1)), "W": np.zeros((1, 3, 1)), "R": np.zeros((1, 3, 1)),
             "initial_h": np.full((1, 1, 1), 8.0)}
    gru = formulas.Case("GRU", zeros, {}, version=14)  # z = 1/2, n = 0: halves at every step
    assert formulas.run(gru)["Y"].ravel().tolist() == [4.0, 2.0]
    lstm = formulas.Case("LSTM", {"X": np.zeros((1, 1, 1)), "W": np.zeros((1, 4, 1)), "R": np.zeros((1, 4, 1)),
                                  "initial_c": np.full((1, 1, 1), 2.0)}, {}, version=14)
    out = formulas.run(lstm)  # all gates 1/2, n = 0
    assert out["Y_c"].item() == 1.0 and np.isclose(out["Y_h"].item(), 0.5 * np.tanh(1.0))
