# SPDX-License-Identifier: Apache-2.0
"""The server against onnxruntime: random operators over gRPC on every engine.

Both sides compute in float32 (the engine "reference" in double), so they are judged at atol = rtol = 1e-5, section 11.
deviations.py lists what is left out, rule by rule.
"""

from __future__ import annotations

import collections

import grpc
import numpy as np
import pytest

import formulas
import onnxruntime_side
import random_operators
import wire
from deviations import RULES
from operators import OUTPUTS, Case

ATOL = RTOL = 1e-5
OPERATORS_EACH = 700  # of LSTM, GRU and RNN
ENGINES = ("cpu", "reference", "")


def excess(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> tuple[float, list[str]]:
    """The largest absolute difference, and what is beyond the tolerance or of another shape."""
    worst, beyond = 0.0, []
    if list(got) != list(expected):
        beyond.append(f"outputs {list(got)}, not {list(expected)}")
    for name in got.keys() & expected.keys():
        a, b = got[name].astype(np.float64), expected[name].astype(np.float64)
        if a.shape != b.shape:
            beyond.append(f"{name} has shape {list(a.shape)}, not {list(b.shape)}")
            continue
        if not np.array_equal(np.isnan(a), np.isnan(b)):
            beyond.append(f"{name} has NaN at other places")
            continue
        difference = np.abs(np.nan_to_num(a) - np.nan_to_num(b))
        if difference.size:
            worst = max(worst, float(difference.max()))
            if not np.all(difference <= ATOL + RTOL * np.abs(np.nan_to_num(b))):
                beyond.append(f"{name} differs by up to {difference.max():.3g}")
    return worst, beyond


def _draw(op: str, k: int, thrown: collections.Counter) -> tuple[Case, np.random.Generator, dict]:
    rng = np.random.default_rng([20, ord(op[0]), k])
    while True:
        case = random_operators.draw_for_onnxruntime(rng, op)
        exact = random_operators.tame(case)
        if exact is not None:
            return case, rng, exact
        thrown[op] += 1


def _spelled(rng, case: Case) -> Case:
    """The same operator as another caller would write it: names in any case (section 6), no hidden_size (section 3),
    an opset or a version."""
    other = case.with_attributes()
    if "activations" in other.attributes and rng.random() < 0.3:
        other.attributes["activations"] = [str(rng.choice([n.lower(), n.upper(), n]))
                                           for n in other.attributes["activations"]]
    if rng.random() < 0.3:
        del other.attributes["hidden_size"]
    if case.opset is not None and rng.random() < 0.3:
        other.version, other.opset = random_operators.version_of(case.op, case.opset), None
    return other


def _data_again(rng, case: Case) -> Case:
    """Other data for the same weights."""
    return case.changed(**{k: rng.uniform(-1, 1, v.shape).astype(np.float32)
                           for k, v in case.tensors.items() if k in ("X", "initial_h", "initial_c")})


def test_random_operators(server, capsys):
    worst, compared, calls = 0.0, collections.Counter(), collections.Counter()
    thrown, failures, ran = collections.Counter(), [], collections.Counter()
    for k in range(OPERATORS_EACH):
        for op in ("LSTM", "GRU", "RNN"):
            case, rng, exact = _draw(op, k, thrown)
            session = onnxruntime_side.Session(case)
            expected = session.run(case)
            # Typed lists and raw bytes, all outputs and some, the operator and its fingerprint, in turn.
            typed = [name for name in case.tensors if rng.random() < 0.2]
            wanted = [n for n in OUTPUTS[op] if rng.random() < 0.6] if rng.random() < 0.3 else []
            names = wanted or list(expected)
            again = _data_again(rng, case) if k % 4 == 0 else None
            if again and random_operators.tame(again) is None:
                again = None
            fingerprints = set()
            for engine in ENGINES if k % 3 == 0 else ENGINES[:2]:
                def compare(sent: Case, expected, **how):
                    nonlocal worst
                    response = server.recurrent.Infer(wire.request(sent, engine=engine, outputs=wanted, **how))
                    calls[engine or "auto"] += 1
                    ran[response.engine] += 1
                    assert response.engine == engine or not engine or not response.engine, str(sent)
                    difference, beyond = excess(wire.results(response), {n: expected[n] for n in names})
                    worst = max(worst, difference)
                    if beyond:
                        mine, _ = excess(wire.results(response), {n: exact[n] for n in names})
                        theirs, _ = excess(expected, exact)
                        failures.append(f"{op} #{k} on {engine or 'auto'}: {beyond}; from the formulas: server "
                                        f"{mine:.2g}, onnxruntime {theirs:.2g}; {sent}")
                    return response.fingerprint

                fingerprints.add(compare(_spelled(rng, case), expected, typed=typed))
                if again:
                    compare(again, session.run(again), fingerprint=next(iter(fingerprints)))
            assert len(fingerprints) == 1, f"one operator, several fingerprints: {fingerprints} {case}"
            compared[op] += 1
    with capsys.disabled():
        print(f"\nonnxruntime: {sum(compared.values())} operators {dict(compared)}, {sum(calls.values())} requests "
              f"{dict(calls)}, ran on {dict(ran)}, {sum(thrown.values())} draws thrown away; "
              f"worst absolute difference {worst:.2g}")
    assert not failures, f"{len(failures)} differences:\n" + "\n".join(failures[:20])
    assert sum(compared.values()) >= 2000


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_deviation(server, rule):
    case = rule.show()
    exact = formulas.run(case)
    for engine in ENGINES:
        _, beyond = excess(wire.results(server.recurrent.Infer(wire.request(case, engine=engine))), exact)
        assert not beyond, f"the server leaves the formulas: {beyond}"
    if rule.onnxruntime == "refuses":
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            onnxruntime_side.run(case)
    else:
        _, beyond = excess(onnxruntime_side.run(case), exact)
        assert beyond, "onnxruntime agrees here by now: drop the rule and let the differential test cover it"


def test_negative_clip_is_none_in_rnn_of_onnxruntime(server):
    """Section 3: refused here; onnxruntime's RNN reads it as no clip. The draws have positive clips only."""
    rng = np.random.default_rng(1)
    tensors = random_operators.tensors(rng, "RNN", 2, 2, 3, 4, 1, bias=True, peephole=False, lengths=False,
                                       initial_h=False, initial_c=False)
    case = Case("RNN", tensors, {"hidden_size": 4}, version=14)
    without = formulas.run(case)
    _, beyond = excess(onnxruntime_side.run(case.with_attributes(clip=-1.0)), without)
    assert not beyond
    failure = wire.refusal(server.recurrent.Infer, wire.request(case.with_attributes(clip=-1.0)))
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT and failure.fields == ["operator.attributes[clip]"]
