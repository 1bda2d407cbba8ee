# SPDX-License-Identifier: Apache-2.0
"""The wire API's Python classes, generated from proto/ into a temporary folder."""

import atexit
import pathlib
import shutil
import sys
import tempfile

import grpc_tools
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[3]


def _generate():
    folder = tempfile.mkdtemp(prefix="rnnserve-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    files = [str(path) for path in (ROOT / "proto" / "rnnserve").rglob("*.proto")]
    if protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"-I{known}", f"--python_out={folder}", f"--grpc_python_out={folder}",
                    *files]) != 0:
        sys.exit("protoc failed")
    sys.path.insert(0, folder)


_generate()

from rnnserve.v1 import recurrent_pb2, recurrent_pb2_grpc, sessions_pb2, tensor_pb2  # noqa: E402, F401
