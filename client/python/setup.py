# SPDX-License-Identifier: Apache-2.0
"""Generates the stubs rnnserve/v1/*_pb2*.py while the package is built: from the repository's proto folder, or from the
copy of it that an sdist carries. With RNNSERVE_SERVER=PROGRAM in the environment the wheel carries that server and is one
for this platform (deploy/packages/wheel.sh); without it, one for all."""

import os
import pathlib
import re
import shutil
import sys

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
CARRIED = HERE / "proto"
PROTO = CARRIED if CARRIED.exists() else REPOSITORY / "proto"
SERVER = os.environ.get("RNNSERVE_SERVER")
FILES = [f"rnnserve/v1/{name}.proto" for name in ("tensor", "recurrent", "models", "sessions")]

# The generator's checks that the runtimes are at least as new as itself. What it writes runs on older ones as well, back
# to those that pyproject.toml names: tests/client/python/test_distributions.py runs it on them.
_CHECKS = {
    "_pb2.py": [re.compile(r"^from google\.protobuf import runtime_version as _runtime_version\n", re.M),
                re.compile(r"^_runtime_version\.ValidateProtobufRuntimeVersion\(\n(?:    .*\n)*\)\n", re.M)],
    "_pb2_grpc.py": [re.compile(r"^GRPC_GENERATED_VERSION = .*\n(?:.*\n)*?if _version_not_supported:\n(?:    .*\n)+", re.M)],
}


class BuildWithStubs(build_py):
    """build_py, and the stubs beside the package's modules (in place for `pip install --editable`)."""

    def run(self):
        super().run()
        target = HERE if self.editable_mode else pathlib.Path(self.build_lib)
        generate(target)
        if SERVER:
            (target / "rnnserve" / "bin").mkdir(exist_ok=True)
            shutil.copy(SERVER, target / "rnnserve" / "bin" / "rnnserve")


class PackageWithServer(Distribution):
    """What makes a wheel one for a platform are compiled parts."""

    def has_ext_modules(self):
        return bool(SERVER) or super().has_ext_modules()


class WheelForAnyPython(bdist_wheel):
    """bdist_wheel; the server in it does not mind which Python starts it."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class SdistWithProtos(sdist):
    """sdist, and in it what lies outside this folder: the protos and the licence."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        base = pathlib.Path(base_dir)
        for name in FILES:
            (base / "proto" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROTO / name, base / "proto" / name)


def generate(target):
    # Imported here: pip asks for metadata before it needs a compiler.
    import grpc_tools
    from grpc_tools import protoc

    if not (PROTO / FILES[0]).exists():
        sys.exit(f"rnnserve: {PROTO} holds no {FILES[0]}; build the package inside a checkout "
                 "(pip install ./client/python), or from its sdist")
    # google/protobuf/*.proto, as the generator brings them.
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    target.mkdir(parents=True, exist_ok=True)
    code = protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", f"--python_out={target}", f"--pyi_out={target}",
                        f"--grpc_python_out={target}", *FILES])
    if code != 0:
        sys.exit(f"rnnserve: protoc ended with {code}")
    (target / "rnnserve" / "v1" / "__init__.py").write_text("# Generated from proto/rnnserve/v1.\n")
    for file in (target / "rnnserve" / "v1").glob("*_pb2*.py"):
        file.write_text(without_version_checks(file.name, file.read_text()))


def without_version_checks(name, text):
    for pattern in next(patterns for end, patterns in _CHECKS.items() if name.endswith(end)):
        text, count = pattern.subn("", text)
        if count != 1:
            sys.exit(f"rnnserve: {name} does not have the version check that this generator writes ({pattern.pattern})")
    return text


setup(distclass=PackageWithServer, cmdclass={"bdist_wheel": WheelForAnyPython, "build_py": BuildWithStubs, "sdist": SdistWithProtos})
