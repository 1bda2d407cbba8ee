# SPDX-License-Identifier: Apache-2.0
"""rnnserve.v1 over raw gRPC: stubs generated from proto/ into a temporary folder, numpy in and out.

Nothing of client/python is used, so that a mistake there can't hide one in the server.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import pathlib
import shutil
import sys
import tempfile

import grpc
import ml_dtypes
import numpy as np
from google.rpc import error_details_pb2, status_pb2
from grpc_tools import protoc

from operators import Case

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def _generate():
    folder = tempfile.mkdtemp(prefix="rnnserve-stubs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    proto = REPOSITORY / "proto"
    files = [f"rnnserve/v1/{name}.proto" for name in ("tensor", "recurrent", "models", "sessions")]
    wellknown = pathlib.Path(importlib.import_module("grpc_tools").__file__).parent / "_proto"
    status = protoc.main(["protoc", f"-I{proto}", f"-I{wellknown}", f"--python_out={folder}",
                          f"--grpc_python_out={folder}", *files])
    if status != 0:
        raise RuntimeError(f"protoc failed on {files}")
    sys.path.insert(0, folder)


# The Python client, if it is installed, for tests that use both: the stubs are a namespace of its name, which would hide
# an editable install.
with contextlib.suppress(ImportError):
    importlib.import_module("rnnserve")
_generate()
tensor_pb2 = importlib.import_module("rnnserve.v1.tensor_pb2")
recurrent_pb2 = importlib.import_module("rnnserve.v1.recurrent_pb2")
models_pb2 = importlib.import_module("rnnserve.v1.models_pb2")
sessions_pb2 = importlib.import_module("rnnserve.v1.sessions_pb2")
recurrent_grpc = importlib.import_module("rnnserve.v1.recurrent_pb2_grpc")
models_grpc = importlib.import_module("rnnserve.v1.models_pb2_grpc")
sessions_grpc = importlib.import_module("rnnserve.v1.sessions_pb2_grpc")

TYPES = {
    np.dtype(np.float32): tensor_pb2.FLOAT, np.dtype(np.int32): tensor_pb2.INT32, np.dtype(np.int64): tensor_pb2.INT64,
    np.dtype(np.float16): tensor_pb2.FLOAT16, np.dtype(np.float64): tensor_pb2.DOUBLE,
    np.dtype(ml_dtypes.bfloat16): tensor_pb2.BFLOAT16,
}
DTYPES = {v: k for k, v in TYPES.items()}
LISTS = {tensor_pb2.FLOAT: "float_data", tensor_pb2.FLOAT16: "float_data", tensor_pb2.BFLOAT16: "float_data",
         tensor_pb2.DOUBLE: "double_data", tensor_pb2.INT32: "int32_data", tensor_pb2.INT64: "int64_data"}

MAX_MESSAGE = 512 << 20


def channel(address: str) -> grpc.Channel:
    return grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", MAX_MESSAGE),
                                                   ("grpc.max_send_message_length", MAX_MESSAGE),
                                                   ("grpc.use_local_subchannel_pool", 1)])


def tensor(name: str, value: np.ndarray, typed: bool = False):
    message = tensor_pb2.Tensor(name=name, data_type=TYPES[value.dtype], shape=value.shape)
    if typed:
        values = value.astype(np.float32) if value.dtype.itemsize == 2 else value
        getattr(message, LISTS[message.data_type]).extend(values.ravel().tolist())
    else:
        message.raw = np.ascontiguousarray(value).tobytes()
    return message


def array(message) -> np.ndarray:
    return np.frombuffer(message.raw, dtype=DTYPES[message.data_type]).reshape(tuple(message.shape))


def attribute(value):
    message = tensor_pb2.Attribute()
    if isinstance(value, str):
        message.s = value
    elif isinstance(value, int):
        message.i = value
    elif isinstance(value, float):
        message.f = value
    elif all(isinstance(v, str) for v in value):
        message.strings.values.extend(value)
        message.strings.SetInParent()
    elif all(isinstance(v, int) for v in value):
        message.ints.values.extend(value)
    else:
        message.floats.values.extend(value)
    return message


def operator(case: Case):
    message = tensor_pb2.Operator(domain="openvino" if case.openvino else "", op_type=case.op)
    if case.version is not None:
        message.version = case.version
    if case.opset is not None:
        message.opset = case.opset
    for name, value in case.attributes.items():
        message.attributes[name].CopyFrom(attribute(value))
    return message


def options(case: Case):
    message = tensor_pb2.Options()
    if not case.clip_cell_input:
        message.clip_cell_input = False
    if case.empty_row_state == "initial":
        message.empty_row_state = tensor_pb2.INITIAL
    return message


def request(case: Case, *, engine="", outputs=(), typed=(), fingerprint=""):
    """`typed`: names of tensors sent as typed lists. `fingerprint`: sent instead of the operator and its weights."""
    message = recurrent_pb2.InferRequest(engine=engine, outputs=outputs, options=options(case))
    if fingerprint:
        message.fingerprint = fingerprint
    else:
        message.operator.CopyFrom(operator(case))
    for name, value in case.tensors.items():
        if not fingerprint or name not in ("W", "R", "B", "P"):
            message.inputs.append(tensor(name, value, name in typed))
    return message


def results(response) -> dict[str, np.ndarray]:
    return {t.name: array(t) for t in response.outputs}


class Failure:
    """What a refused call said: code, text, field paths, machine-readable reasons."""

    def __init__(self, error: grpc.RpcError):
        self.code: grpc.StatusCode = error.code()
        self.text: str = error.details() or ""
        self.fields: list[str] = []
        self.descriptions: list[str] = []
        self.reasons: list[str] = []
        self.infos: list[error_details_pb2.ErrorInfo] = []
        self.detail_types: list[str] = []
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                self._read(status_pb2.Status.FromString(value))

    def _read(self, status):
        for detail in status.details:
            self.detail_types.append(detail.type_url.rsplit("/", 1)[-1])
            bad, info = error_details_pb2.BadRequest(), error_details_pb2.ErrorInfo()
            if detail.Unpack(bad):
                self.fields += [v.field for v in bad.field_violations]
                self.descriptions += [v.description for v in bad.field_violations]
            elif detail.Unpack(info):
                self.reasons.append(info.reason)
                self.infos.append(info)

    def __str__(self):
        return f"{self.code.name} fields={self.fields} reasons={self.reasons}: {self.text}"


def refusal(call, *arguments, **keywords) -> Failure:
    """The failure of a call that has to fail."""
    try:
        answer = call(*arguments, **keywords)
    except grpc.RpcError as error:
        return Failure(error)
    raise AssertionError(f"expected an error, but the call was answered: {str(answer)[:500]}")
