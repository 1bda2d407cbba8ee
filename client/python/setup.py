# SPDX-License-Identifier: Apache-2.0
"""Generates the stubs rnnserve/v1/*_pb2*.py from the repository's proto folder while the package is built."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
FILES = ["tensor", "recurrent", "models", "sessions"]


class BuildWithStubs(build_py):
    """build_py, and the stubs beside the package's modules (in place for `pip install --editable`)."""

    def run(self):
        super().run()
        generate(HERE if self.editable_mode else pathlib.Path(self.build_lib))


def generate(target):
    # Imported here: pip asks for metadata before it needs a compiler.
    import grpc_tools
    from grpc_tools import protoc

    if not (PROTO / "rnnserve" / "v1" / "tensor.proto").exists():
        sys.exit(f"rnnserve: {PROTO} holds no rnnserve/v1/*.proto; build the package inside a checkout: "
                 "pip install ./client/python")
    # google/protobuf/*.proto, as the generator brings them.
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    target.mkdir(parents=True, exist_ok=True)
    code = protoc.main(
        ["protoc", f"-I{PROTO}", f"-I{well_known}", f"--python_out={target}", f"--grpc_python_out={target}"]
        + [f"rnnserve/v1/{name}.proto" for name in FILES])
    if code != 0:
        sys.exit(f"rnnserve: protoc ended with {code}")
    (target / "rnnserve" / "v1" / "__init__.py").write_text("# Generated from proto/rnnserve/v1.\n")


setup(cmdclass={"build_py": BuildWithStubs})
