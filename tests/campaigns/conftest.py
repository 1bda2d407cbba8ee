# SPDX-License-Identifier: Apache-2.0
"""Longer campaigns: `./test.sh campaigns`. They prove what the integration tests show in short, with real parts and
under load, and print figures. They use the helpers of tests/integration."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from server_process import BINARY  # noqa: E402


def pytest_sessionstart(session):
    if not BINARY.exists():
        pytest.exit(f"no server at {BINARY}: build it (cmake --build --preset release), or set RNNSERVE_BINARY", 2)


@pytest.fixture
def tell(capsys):
    """Prints a figure, whatever pytest captures."""

    def print_figure(text):
        with capsys.disabled():
            print(f"\n  {text}", flush=True)

    return print_figure
