# SPDX-License-Identifier: Apache-2.0
"""Sigmoid, Tanh and the fused functions of LSTM and GRU over float32, against libm in double: one float in 61, or one in
RNNSERVE_FLOAT_STEP; 1 takes all (5 to 35 minutes of one CPU; all passed on 2026-11-26, a Zen 5 with AVX-512, and on
2026-11-28, a Xeon, with AVX-512 and held to AVX2)."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess

from server_process import BINARY

PROGRAM = BINARY.parents[1] / "tests/engine/cpu/cpu_parts_test"
STEP = os.environ.get("RNNSERVE_FLOAT_STEP", "61")


def _run(name):
    return subprocess.run([PROGRAM, f"--gtest_filter=GateFunctionsTest.{name}"], capture_output=True, text=True,
                          check=False, env={**os.environ, "RNNSERVE_FLOAT_STEP": STEP})


def test_gates_are_exact_for_every_float():
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(_run, ["Lstm", "Gru", "Tanh", "Sigmoid"]):
            assert done.returncode == 0 and "1 test from 1 test suite ran" in done.stdout, done.stdout
