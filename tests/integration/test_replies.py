# SPDX-License-Identifier: Apache-2.0
"""What a reply holds beside the right numbers, and who may disturb whom."""

from __future__ import annotations

import threading

import grpc
import numpy as np
import pytest

import formulas
import random_operators
import wire
from operators import Case
from test_onnxruntime import excess

SECONDS = 60


def _case(steps=4, rows=2, inputs=3, hidden=5, **attributes) -> Case:
    rng = np.random.default_rng(1)
    tensors = random_operators.tensors(rng, "LSTM", steps, rows, inputs, hidden, 1, bias=True, peephole=False,
                                       lengths=False, initial_h=False, initial_c=False)
    return Case("LSTM", tensors, {"hidden_size": hidden, **attributes}, version=14)


@pytest.mark.parametrize("engine", ["cpu", "reference", "auto", ""])
def test_reply_fields(server, engine):
    request = wire.request(_case(), engine=engine)
    request.request_id = "an id, ä"
    reply = server.recurrent.Infer(request)
    assert reply.request_id == "an id, ä"
    assert reply.engine == engine if engine in ("cpu", "reference") else reply.engine
    assert len(reply.fingerprint) == 64 and reply.largest_batch >= 2
    assert reply.compute_time.ToNanoseconds() > 0 and reply.queue_time.ToNanoseconds() >= 0
    assert [t.name for t in reply.outputs] == ["Y", "Y_h", "Y_c"]


def test_outputs_come_in_the_operators_order(server):
    reply = server.recurrent.Infer(wire.request(_case(), outputs=["Y_c", "Y"]))
    assert [t.name for t in reply.outputs] == ["Y", "Y_c"]


def test_y_is_left_out_by_default_where_output_sequence_is_0(server):
    """Section 4: versions that have the attribute."""
    case = _case()
    case.version = 1
    assert [t.name for t in server.recurrent.Infer(wire.request(case)).outputs] == ["Y_h", "Y_c"]
    assert [t.name for t in server.recurrent.Infer(wire.request(case, outputs=["Y"])).outputs] == ["Y"]
    assert [t.name for t in server.recurrent.Infer(wire.request(case.with_attributes(output_sequence=1))).outputs] == [
        "Y", "Y_h", "Y_c"]
    case.version, case.opset = None, 6
    assert [t.name for t in server.recurrent.Infer(wire.request(case)).outputs] == ["Y_h", "Y_c"]


def test_a_request_read_otherwise_elsewhere_is_answered_with_a_warning(server):
    case = _case(activations=["Elu", "Tanh", "Tanh"], activation_alpha=[0.5, 0.6, 0.7])
    assert any("activation_alpha" in w for w in server.recurrent.Infer(wire.request(case)).warnings)
    assert not server.recurrent.Infer(wire.request(_case())).warnings


@pytest.mark.parametrize("steps, rows, inputs", [(0, 2, 3), (4, 0, 3), (4, 2, 0), (0, 0, 0)])
def test_zero_sizes(server, steps, rows, inputs):
    """Section 12."""
    case = _case()
    rng = np.random.default_rng(3)
    case = case.changed(X=rng.standard_normal((steps, rows, inputs)).astype(np.float32),
                        W=rng.standard_normal((1, 20, inputs)).astype(np.float32))
    case.tensors["initial_h"] = rng.standard_normal((1, rows, 5)).astype(np.float32)
    for engine in ("cpu", "reference", ""):
        for state in ("zeros", "initial"):
            case.empty_row_state = state
            reply = server.recurrent.Infer(wire.request(case, engine=engine))
            assert not excess(wire.results(reply), formulas.run(case))[1]


def test_nan_in_padding_and_in_another_row_disturbs_nobody(server):
    case = _case(steps=5, rows=3)
    case.tensors["sequence_lens"] = np.array([5, 2, 5], np.int32)
    expected = formulas.run(case)
    dirty = case.changed()
    dirty.tensors["X"][2:, 1] = np.nan
    dirty.tensors["X"][1, 2] = np.nan
    for engine in ("cpu", "reference", ""):
        got = wire.results(server.recurrent.Infer(wire.request(dirty, engine=engine)))
        for name, value in got.items():
            rows = value.take([0, 1], axis=-2)
            assert not excess({name: rows}, {name: expected[name].take([0, 1], axis=-2)})[1]
        assert np.isnan(got["Y_h"][0, 2]).any()


def test_expired_deadline(server):
    case = _case(steps=2000, rows=8, hidden=64)
    failure = wire.refusal(server.recurrent.Infer, wire.request(case, engine="reference"), timeout=0.001)
    assert failure.code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert server.recurrent.Infer(wire.request(_case()), timeout=SECONDS).outputs


def test_cancelled_calls_leave_the_others_alone(server):
    request = wire.request(_case())
    reply = server.recurrent.Infer(request)
    long = wire.request(_case(steps=2000, rows=8, hidden=64), engine="reference")
    calls = [server.recurrent.Infer.future(long) for _ in range(20)]
    for call in calls:
        call.cancel()
    assert server.recurrent.Infer(request, timeout=SECONDS).outputs == reply.outputs


def test_the_same_bits_when_deterministic(server):
    """Whatever shares the batch: the same request among many others."""
    rng = np.random.default_rng(4)
    case = _case(steps=9, rows=5, inputs=17, hidden=33)
    request = wire.request(case, engine="cpu")
    request.options.deterministic = True
    alone = server.recurrent.Infer(request).outputs
    others = []
    for _ in range(40):
        other = wire.request(case.changed(X=rng.standard_normal(case.tensors["X"].shape).astype(np.float32)))
        others.append(server.recurrent.Infer.future(other))
        others.append(server.recurrent.Infer.future(request))
    for call in others[1::2]:
        assert call.result(timeout=SECONDS).outputs == alone
    for call in others[::2]:
        call.result(timeout=SECONDS)


def test_many_callers_at_once(server):
    """Each gets its own numbers."""
    failures = []

    def caller(seed):
        rng = np.random.default_rng([50, seed])
        for k in range(20):
            case = random_operators.draw_for_onnxruntime(rng, ("LSTM", "GRU", "RNN")[k % 3])
            exact = random_operators.tame(case)
            if exact is None:
                continue
            beyond = excess(wire.results(server.recurrent.Infer(wire.request(case), timeout=SECONDS)), exact)[1]
            if beyond:
                failures.append(f"{beyond}: {case}")

    threads = [threading.Thread(target=caller, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:5]
