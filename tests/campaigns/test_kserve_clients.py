# SPDX-License-Identifier: Apache-2.0
"""tests/integration/test_kserve*.py with an older tritonclient: the release of Triton 2.51, whose perf_analyzer runs on
Debian 12."""

from __future__ import annotations

import os
import subprocess
import sys

import wire

VERSION = "2.51.0"


def test_tritonclient_of_triton_2_51(tmp_path):
    python = [sys.executable, "-m"]
    subprocess.run([*python, "pip", "install", "-q", "--no-deps", "--target", tmp_path, f"tritonclient=={VERSION}"],
                   check=True, timeout=300)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    where = subprocess.run([sys.executable, "-c", "import tritonclient.grpc as t; print(t.__file__)"], env=environment,
                           check=True, capture_output=True, text=True, timeout=60).stdout
    assert where.startswith(str(tmp_path)), "another tritonclient would be tested"
    done = subprocess.run([*python, "pytest", "-q", *sorted((wire.REPOSITORY / "tests/integration").glob("test_kserve*.py"))],
                          env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout
