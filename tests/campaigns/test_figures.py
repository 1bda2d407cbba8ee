# SPDX-License-Identifier: Apache-2.0
"""Figures of docs/operations.md: cold start."""

from __future__ import annotations

import time

import numpy as np

import repository_files
from server_process import Server
from test_admin import _get


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
