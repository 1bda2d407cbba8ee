# SPDX-License-Identifier: Apache-2.0
"""How soon streams end once their token has gone from the file."""

from __future__ import annotations

import os
import queue
import time

import grpc
import numpy as np

import wire
from server_process import Server
from session_calls import chunk, operation
from test_security import ALICE, BOB, _put
from test_service import _case

ROUNDS = int(os.environ.get("RNNSERVE_ROUNDS", "10"))
STREAMS = 20


def _begin(server):
    """A stream that has been answered, so that the server knows whose it is."""
    say = queue.SimpleQueue()
    call = server.recurrent.Stream(iter(say.get, None), metadata=[("authorization", f"Bearer {ALICE}")])
    say.put(wire.sessions_pb2.StreamRequest(operations=[operation("no such key", 1, **chunk([1]))]))
    assert next(call).replies[0].status.code == grpc.StatusCode.NOT_FOUND.value[0]
    return say, call


def test_streams_end_with_their_token(tell, tmp_path):
    file, took = tmp_path / "tokens", []
    _put(file, f"alice {ALICE}\nbob {BOB}\n")
    server = Server(f"--tokens_file={file}")
    try:
        for k in range(ROUNDS):
            streams = [_begin(server) for _ in range(STREAMS)]
            time.sleep(0.13 * k)  # anywhere between two looks at the file
            began = time.monotonic()
            _put(file, f"bob {BOB}\n")
            for say, call in streams:
                assert wire.refusal(next, call).code == grpc.StatusCode.CANCELLED
                took.append(time.monotonic() - began)
                say.put(None)
            _put(file, f"alice {ALICE}\nbob {BOB}\n")
            while True:  # until it has been read
                try:
                    server.recurrent.Infer(wire.request(_case()), metadata=[("authorization", f"Bearer {ALICE}")])
                    break
                except grpc.RpcError as error:
                    assert error.code() == grpc.StatusCode.UNAUTHENTICATED
    finally:
        assert server.stop() == 0
    tell(f"a token taken away, {ROUNDS} times: {STREAMS} idle streams ended after {np.median(took):.2f} s, at most {max(took):.2f}")
    assert max(took) < 5
