# SPDX-License-Identifier: Apache-2.0
"""Which engine runs: by request, model and server; two engines that watch each other."""

from __future__ import annotations

import numpy as np
import pytest

import wire
from operators import Case
from server_process import Server, run_to_end
from test_admin import _metrics
from test_service import SECONDS


def _lstm(**attributes):
    rng = np.random.default_rng(5)
    tensors = {"X": rng.standard_normal((7, 3, 8)), "W": rng.standard_normal((1, 64, 8)) / 3,
               "R": rng.standard_normal((1, 64, 16)) / 4}
    return Case("LSTM", {name: value.astype(np.float32) for name, value in tensors.items()},
                {"hidden_size": 16, **attributes}, version=14)


@pytest.fixture(scope="module")
def watched():
    server = Server("--engine=onednn", "--verify_share=1")
    yield server
    assert server.stop() == 0


def test_the_servers_engine_runs_what_it_can(watched):
    assert watched.recurrent.Infer(wire.request(_lstm()), timeout=SECONDS).engine == "onednn"
    assert watched.recurrent.Infer(wire.request(_lstm(clip=0.5)), timeout=SECONDS).engine == "cpu"
    assert watched.recurrent.Infer(wire.request(_lstm(), engine="cpu"), timeout=SECONDS).engine == "cpu"
    refused = wire.refusal(watched.recurrent.Infer, wire.request(_lstm(clip=0.5), engine="onednn"), timeout=SECONDS)
    assert refused.code.name == "UNIMPLEMENTED" and "clip is set" in refused.text
    assert refused.reasons == ["ENGINE_UNSUPPORTED"]


def test_every_call_runs_on_a_second_engine_too(watched):
    agreed = 'rnnserve_verified_total{outcome="agreed"}'
    before = _metrics(watched)
    first = wire.results(watched.recurrent.Infer(wire.request(_lstm()), timeout=SECONDS))
    second = wire.results(watched.recurrent.Infer(wire.request(_lstm(), engine="reference"), timeout=SECONDS))
    after = _metrics(watched)
    assert after[agreed] - before[agreed] == 2
    assert after['rnnserve_verified_total{outcome="differed"}'] == after['rnnserve_verified_total{outcome="failed"}'] == 0
    difference = max(np.abs(first[name] - second[name]).max() for name in first)
    assert difference < 1e-5 and 0 < after["rnnserve_verify_largest_difference"] < 1e-5
    assert "largest difference so far" in watched.log()


def _narrow(case, name, *, allowed=True, engine=""):
    request = wire.request(case, engine=engine)
    request.options.weight_type = wire.tensor_pb2.Options.WeightType.Value(name)
    request.options.allow_reduced_precision = allowed
    return request


def test_narrow_weights_run_beside_those_as_given():
    server = Server("--engine=auto", "--verify_share=1")
    try:
        exact = wire.results(server.recurrent.Infer(wire.request(_lstm(), engine="reference"), timeout=SECONDS))
        worst = {}
        for name, most in (("FLOAT16", 1e-3), ("BFLOAT16", 1e-2), ("INT8", 1e-2)):
            before = _metrics(server)
            reply = server.recurrent.Infer(_narrow(_lstm(), name), timeout=SECONDS)
            assert reply.engine == "cpu"  # the only one that can
            worst[name] = max(np.abs(values - exact[key]).max() for key, values in wire.results(reply).items())
            assert 1e-5 < worst[name] < most
            after = _metrics(server)
            for outcome in ("agreed", "differed", "failed"):
                key = f'rnnserve_verified_total{{outcome="{outcome}"}}'
                assert after[key] - before[key] == (outcome == "agreed")
            assert after["rnnserve_verify_largest_difference"] == pytest.approx(max(worst.values()), abs=1e-5)
    finally:
        assert server.stop() == 0


def test_narrow_weights_are_asked_for_in_full(server):
    refused = wire.refusal(server.recurrent.Infer, _narrow(_lstm(), "INT8", allowed=False), timeout=SECONDS)
    assert refused.code.name == "INVALID_ARGUMENT" and "set allow_reduced_precision as well" in refused.text
    assert refused.fields == ["options.weight_type"]
    for engine in ("reference", "onednn"):
        refused = wire.refusal(server.recurrent.Infer, _narrow(_lstm(), "INT8", engine=engine), timeout=SECONDS)
        assert refused.code.name == "UNIMPLEMENTED" and "weight_type is INT8" in refused.text
    broken = _lstm()
    broken.tensors["R"][0, 3, 2] = np.nan
    refused = wire.refusal(server.recurrent.Infer, _narrow(broken, "INT8"), timeout=SECONDS)
    assert refused.code.name == "INVALID_ARGUMENT" and "R has NaN" in refused.text


def test_auto_answers_alike_again_and_again(server):
    case = _lstm()
    exact = wire.results(server.recurrent.Infer(wire.request(case, engine="reference"), timeout=SECONDS))
    for _ in range(200):  # past the first figures that are measured anew
        reply = server.recurrent.Infer(wire.request(case), timeout=SECONDS)
        assert reply.engine in ("cpu", "onednn")
        for name, values in wire.results(reply).items():
            np.testing.assert_allclose(values, exact[name], atol=1e-5)


@pytest.mark.parametrize("flag, words", [("--engine=abacus", "there is no engine"), ("--verify_share=2", "expected 0 to 1"),
                                         ("--verify_share=nan", "expected 0 to 1")])
def test_wrong_flags(flag, words):
    done = run_to_end("--listen=127.0.0.1:0", flag)
    assert done.returncode == 1 and words in done.stderr
