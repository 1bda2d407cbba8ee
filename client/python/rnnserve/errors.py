# SPDX-License-Identifier: Apache-2.0
"""What a call that failed tells."""

from collections.abc import Iterable, Mapping
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

_DETAILS = "grpc-status-details-bin"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class RnnServeError(Exception):
    """A call that the server, or the way to it, refused.

    code         grpc.StatusCode, e.g. grpc.StatusCode.INVALID_ARGUMENT
    message      what is wrong and how to mend it
    field        path of the first field at fault, e.g. "inputs[X].shape"; "" where none is named
    fields       (path, description) of every field at fault
    reason       machine-readable, e.g. "MODEL_UNKNOWN" or "FINGERPRINT_EVICTED"; "" where none is given
    metadata     what comes with the reason, e.g. limit and value of "LIMIT_EXCEEDED"
    retry_after  seconds after which the same call may succeed; None where the server asks for no retry

    It can be pickled, so a call in a ProcessPoolExecutor raises it where its result is asked for.
    """

    def __init__(self, code: grpc.StatusCode, message: str, fields: Iterable[tuple[str, str]] = (), reason: str = "",
                 metadata: Mapping[str, str] | None = None, retry_after: float | None = None) -> None:
        self.code = code
        self.message = message
        self.fields = list(fields)
        self.field = self.fields[0][0] if self.fields else ""
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.retry_after = retry_after
        place = f" [{self.field}]" if self.field else ""
        why = f" ({self.reason})" if self.reason else ""
        super().__init__(f"{code.name}{place}{why}: {message}")

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception's own way would call the class with the one text that __str__ shows.
        arguments = (self.code, self.message, self.fields, self.reason, self.metadata, self.retry_after)
        return type(self), arguments, self.__dict__


def from_rpc_error(error: grpc.RpcError, address: str = "") -> RnnServeError:
    """The RnnServeError of a grpc.RpcError, with the google.rpc details of its trailer."""
    call: Any = error  # what a call raises is a grpc.Call as well
    code: grpc.StatusCode = call.code()
    trailers = call.trailing_metadata() or ()
    packed = next((value for key, value in trailers if key == _DETAILS), b"")
    message = call.details() or ""
    if code == grpc.StatusCode.UNAVAILABLE and not packed and address:
        # Not from the server, whose refusals carry a retry delay: the call reached no server.
        message = f"no answer from {address}: {message}; is rnnserve running there?"
    status = status_pb2.Status()
    try:
        status.ParseFromString(packed)
    except DecodeError:
        # A proxy has damaged the details; code and text are still valid.
        return RnnServeError(code, message)
    return _from_details(code, message, status.details)


def from_operation_status(status: Any) -> RnnServeError:
    """The RnnServeError of an rnnserve.v1.OperationStatus that is not OK."""
    return _from_details(_CODES.get(status.code, grpc.StatusCode.UNKNOWN), status.message, status.details)


def _from_details(code: grpc.StatusCode, message: str, details: Iterable[Any]) -> RnnServeError:
    fields: list[tuple[str, str]] = []
    reason, metadata, retry_after = "", dict[str, str](), None
    for detail in details:
        bad_request, info = error_details_pb2.BadRequest(), error_details_pb2.ErrorInfo()
        retry = error_details_pb2.RetryInfo()
        try:
            if detail.Unpack(bad_request):
                fields += [(violation.field, violation.description) for violation in bad_request.field_violations]
            elif detail.Unpack(info):
                reason, metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(retry):
                retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos * 1e-9
        except DecodeError:
            continue
    return RnnServeError(code, message, fields, reason, metadata, retry_after)
