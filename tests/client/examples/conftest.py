# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
BINARY = pathlib.Path(os.environ.get("RNNSERVE_BINARY") or REPOSITORY / "build/release/server/rnnserve").resolve()


def pytest_sessionstart(session):
    if not BINARY.exists():
        pytest.exit(f"no server at {BINARY}: build it (cmake --build --preset release), or set RNNSERVE_BINARY", 2)


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    """HOST:PORT of a server that has to live until the last test and to leave with status 0."""
    folder = tmp_path_factory.mktemp("server")
    port, log = folder / "port", folder / "log"
    with open(log, "wb") as output:
        process = subprocess.Popen([BINARY, "--listen=127.0.0.1:0", f"--port_file={port}"], stdout=output,
                                   stderr=subprocess.STDOUT)
    try:
        for _ in range(3000):
            if port.exists() and port.read_text().strip():
                break
            try:
                process.wait(timeout=0.02)  # the pause between two looks, which ends early with the server
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(f"the server ended at start:\n{log.read_text()}")
        else:
            pytest.fail(f"the server wrote no port:\n{log.read_text()}")
        yield f"127.0.0.1:{port.read_text().strip()}"
        assert process.poll() is None, f"the server died:\n{log.read_text()}"
        process.terminate()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
