# SPDX-License-Identifier: Apache-2.0
"""Callers that each have a connection of their own share slices, also after one of them has called alone."""

from __future__ import annotations

import concurrent.futures
import statistics

import grpc
import numpy as np

import random_operators
import wire
from operators import Case
from server_process import Server

CALLERS = 8
CALLS = 60


def _request(server) -> bytes:
    """A call whose slice takes long enough for the others' calls to come meanwhile, and is short for a lone caller."""
    tensors = random_operators.tensors(np.random.default_rng(1), "LSTM", 32, 1, 256, 256, 1, bias=True, peephole=False,
                                       lengths=False, initial_h=False, initial_c=False)
    request = wire.request(Case("LSTM", tensors, {"hidden_size": 256}, version=14), outputs=["Y_h"])
    print_ = server.recurrent.Infer(request).fingerprint
    short = wire.request(Case("LSTM", {"X": tensors["X"]}, {}, version=14), outputs=["Y_h"], fingerprint=print_)
    return short.SerializeToString()


def _batches(server, request: bytes) -> list[int]:
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(server.address, options=options) as channel:
        infer = channel.unary_unary("/rnnserve.v1.Recurrent/Infer", request_serializer=None,
                                    response_deserializer=wire.recurrent_pb2.InferResponse.FromString)
        return [infer(request, timeout=60).largest_batch for _ in range(CALLS)]


def test_callers_share_slices_after_one_has_called_alone():
    """Served as soon as it is taken in, each call looks like the only one: the others wait in their connections."""
    server = Server("--workers=1")  # of many, each would take a call of its own
    try:
        request = _request(server)
        assert set(_batches(server, request)) == {1}
        with concurrent.futures.ThreadPoolExecutor(CALLERS) as threads:
            several = list(threads.map(lambda _: _batches(server, request), range(CALLERS)))
    finally:
        assert server.stop() == 0, server.log()
    assert statistics.mean(sum(several, [])) > 1.3
