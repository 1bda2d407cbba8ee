# SPDX-License-Identifier: Apache-2.0
"""The wheel and the sdist: what they hold, that they install, and that they run on the oldest versions they ask for."""

import email
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
# As low as pyproject.toml goes. numpy and ml_dtypes: what has wheels for this Python.
OLDEST = ["grpcio==1.66.2", "grpcio-health-checking==1.62.3", "googleapis-common-protos==1.63.2", "protobuf==4.25.8"]
TRY = """
import rnnserve
from rnnserve.v1 import sessions_pb2_grpc
print(rnnserve.__file__, rnnserve.lstm([[[1.0]] * 4], [[[1.0]] * 4]).to_wire().version, sessions_pb2_grpc.SessionsStub)
"""


def run(*command, cwd=None, path=None):
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    done = subprocess.run([sys.executable, *map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of a checkout and, made of nothing but it, the wheel."""
    checkout = tmp_path_factory.mktemp("checkout")
    shutil.copytree(REPOSITORY / "client/python", checkout / "client/python", symlinks=True,
                    ignore=shutil.ignore_patterns("build", "v1", "*.egg-info", "__pycache__", ".mypy_cache"))
    shutil.copytree(REPOSITORY / "proto", checkout / "proto")
    shutil.copy(REPOSITORY / "LICENSE", checkout)
    # This environment's generator is newer than the one pyproject.toml names: what it writes has to do as well.
    run("-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", checkout / "dist", "client/python",
        cwd=checkout)
    (sdist,), (wheel,) = (checkout / "dist").glob("*.tar.gz"), (checkout / "dist").glob("*.whl")
    return sdist, wheel


def test_what_they_hold(built):
    sdist, wheel = built
    with tarfile.open(sdist) as archive:
        members = {member.name.split("/", 1)[1]: member for member in archive.getmembers() if "/" in member.name}
    for name in ("LICENSE", "README.md", "proto/rnnserve/v1/sessions.proto", "rnnserve/py.typed", "setup.py"):
        assert members[name].isfile() and members[name].size or name.endswith("py.typed"), name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = email.message_from_bytes(archive.read(next(name for name in names if name.endswith("/METADATA"))))
        licence = archive.read(next(name for name in names if name.endswith("/licenses/LICENSE")))
    assert licence == (REPOSITORY / "LICENSE").read_bytes()
    assert {"rnnserve/py.typed", "rnnserve/aio/client.py", "rnnserve/v1/models_pb2.pyi"} <= set(names)
    assert not [name for name in names if name.startswith(("proto/", "tests/"))]
    assert (metadata["Name"], metadata["License-Expression"], metadata["Author"]) == (
        "rnnserve", "Apache-2.0", "The rnnserve authors")
    assert {label.split(",")[0] for label in metadata.get_all("Project-URL")} == {
        "Homepage", "Documentation", "Changelog", "Issues"}
    assert metadata["Description-Content-Type"] == "text/markdown" and "# rnnserve for Python" in metadata.get_payload()


def test_a_wheel_that_carries_a_server(built, tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho served \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("RNNSERVE_SERVER", str(program))
    pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--target"]
    run("-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "-w", tmp_path, built[0])
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith(f"-py3-none-linux_{os.uname().machine}.whl") and built[1].name.endswith("-py3-none-any.whl")
    run(*pip, tmp_path / "with", wheel)
    assert run("-m", "rnnserve.server", "--listen=a", "b c", cwd=tmp_path, path=tmp_path / "with") == "served --listen=a b c\n"
    run(*pip, tmp_path / "without", built[1])
    with pytest.raises(AssertionError, match="installed without the server"):
        run("-m", "rnnserve.server", cwd=tmp_path, path=tmp_path / "without")


@pytest.mark.parametrize("which", ["sdist", "wheel"])
def test_they_install(built, tmp_path, which):
    run("-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--target",
        tmp_path / "site", built[which == "wheel"])
    told = run("-c", TRY, cwd=tmp_path, path=tmp_path / "site")
    assert told.startswith(str(tmp_path)) and " 14 " in told


def test_the_oldest_versions(built, tmp_path):
    pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--target"]
    done = subprocess.run([sys.executable, *pip, tmp_path / "site", *OLDEST], capture_output=True, text=True, timeout=300,
                          check=False)
    if done.returncode != 0:
        pytest.skip(f"pip cannot get {', '.join(OLDEST)}: {done.stderr.strip().splitlines()[-1:]}")
    run(*pip, tmp_path / "site", built[1])
    told = run("-c", "import google.protobuf, grpc; print(google.protobuf.__version__, grpc.__version__)",
               path=tmp_path / "site")
    assert told.split() == ["4.25.8", "1.66.2"]
    tests = [HERE / f"test_{name}.py" for name in ("client", "aio", "errors", "tensors", "operators")]
    # Its metadata is that of the environment's, not of this folder's: -p no:cacheprovider leaves nothing behind.
    told = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, path=tmp_path / "site")
    assert " passed" in told and "failed" not in told
