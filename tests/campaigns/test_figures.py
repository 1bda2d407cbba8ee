# SPDX-License-Identifier: Apache-2.0
"""Figures of docs/operations.md: cold start, memory of a connection."""

from __future__ import annotations

import time

import grpc
import numpy as np
import pytest

import repository_files
import wire
from server_process import Server
from test_admin import _get
from test_security import Authority
from test_service import SECONDS, _case


def test_cold_start(tell, tmp_path):
    """From exec to /readyz, with a model."""
    repository_files.write(tmp_path / "m" / "1", repository_files.model(repository_files.case("LSTM", 14)))
    took = []
    for _ in range(20):
        began = time.perf_counter()
        server = Server(f"--models={tmp_path}")
        assert _get(server, "/readyz")[0] == 200
        took.append(1e3 * (time.perf_counter() - began))
        assert server.stop() == 0
    tell(f"cold start: ready after {np.median(took):.0f} ms (longest {max(took):.0f}; the test looks every 20 ms)")


@pytest.mark.parametrize("tls", [False, True])
def test_memory_of_a_connection(tell, tmp_path, tls):
    """Connections that have made a call and are idle since."""
    flags, credentials = [], None
    if tls:
        authority = Authority(tmp_path, "authority")
        certificate, key = authority.sign("server", 2)
        (tmp_path / "cert").write_bytes(certificate)
        (tmp_path / "key").write_bytes(key)
        flags = [f"--tls_cert={tmp_path}/cert", f"--tls_key={tmp_path}/key"]
        credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    server = Server(*flags)
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
    request = wire.request(_case())
    channels, kib = [], {}
    for count in [1, 500, 1000]:  # of one, so that what only the first call takes is not counted
        while len(channels) < count:
            channels.append(grpc.secure_channel(server.address, credentials, options) if tls else
                            grpc.insecure_channel(server.address, options))
            wire.recurrent_grpc.RecurrentStub(channels[-1]).Infer(request, timeout=SECONDS)
        kib[count] = server.resident_kib()
    for channel in channels:
        channel.close()
    assert server.stop() == 0
    tell(f"{'TLS' if tls else 'plain'} connections, idle after a call: resident {kib} KiB, "
         f"{(kib[500] - kib[1]) / 499:.1f} KiB each of the first 500, {(kib[1000] - kib[500]) / 500:.1f} of the next")
