# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
import zipfile

import pytest

from server_process import BINARY, Server
from session_calls import Sessions, Stream


SILERO = "silero-vad==6.2.3"


def pytest_sessionstart(session):
    if not BINARY.exists():
        pytest.exit(f"no server at {BINARY}: build it (cmake --build --preset release), or set RNNSERVE_BINARY", 2)


@pytest.fixture(scope="module")
def server():
    """One server for the tests of a file; it has to live to the end and to leave with 0 on SIGTERM."""
    running = Server("--drain_timeout=1s")  # sessions that tests leave behind are not waited for
    yield running
    assert running.alive(), f"the server died:\n{running.log()}"
    assert running.stop() == 0, "the server did not leave with status 0 on SIGTERM"


@pytest.fixture
def sessions(server):
    calls = Sessions(server.address)
    yield calls
    calls.close()


@pytest.fixture
def stream(sessions):
    running = Stream(sessions)
    yield running
    running.cancel()


@pytest.fixture(scope="module")
def silero(tmp_path_factory):
    """The folder of the package's ONNX files."""
    folder = tmp_path_factory.mktemp("silero")
    done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                           "-d", folder, SILERO], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"pip cannot get {SILERO}: {done.stderr.strip().splitlines()[-1:]}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder / "silero_vad" / "data"
