# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import multiprocessing
import pickle

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from rnnserve import RnnServeError, errors


class RpcError(grpc.RpcError):
    def __init__(self, code, text, trailers):
        self._parts = code, text, trailers

    def code(self):
        return self._parts[0]

    def details(self):
        return self._parts[1]

    def trailing_metadata(self):
        return self._parts[2]


def parse(*details, text="what is wrong"):
    status = status_pb2.Status(code=3, message=text)
    for detail in details:
        status.details.add().Pack(detail)
    trailers = (("other", "x"), ("grpc-status-details-bin", status.SerializeToString()))
    return errors.from_rpc_error(RpcError(grpc.StatusCode.INVALID_ARGUMENT, text, trailers))


def test_the_field_paths_of_a_bad_request():
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="inputs[1].shape", description="first")
    bad.field_violations.add(field="outputs[0]", description="second")
    error = parse(bad)
    assert error.code == grpc.StatusCode.INVALID_ARGUMENT and error.message == "what is wrong"
    assert error.field == "inputs[1].shape"
    assert error.fields == [("inputs[1].shape", "first"), ("outputs[0]", "second")]
    assert str(error) == "INVALID_ARGUMENT [inputs[1].shape]: what is wrong"


def test_reason_and_retry():
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1250)
    error = parse(error_details_pb2.ErrorInfo(reason="LIMIT_EXCEEDED", metadata={"limit": "4"}), retry)
    assert (error.reason, error.metadata, error.retry_after) == ("LIMIT_EXCEEDED", {"limit": "4"}, 1.25)
    assert error.field == "" and error.fields == []


def test_details_of_other_kinds_are_passed_over():
    assert parse(error_details_pb2.Help(), error_details_pb2.ErrorInfo(reason="R")).reason == "R"


@pytest.mark.parametrize("trailers", [None, (), (("grpc-status-details-bin", b"\xff\xff\xff"),)])
def test_code_and_text_stand_without_details(trailers):
    error = errors.from_rpc_error(RpcError(grpc.StatusCode.UNAVAILABLE, None, trailers))
    assert (error.code, error.message, error.reason, error.retry_after) == (grpc.StatusCode.UNAVAILABLE, "", "", None)


def test_a_broken_detail_does_not_hide_the_others():
    status = status_pb2.Status()
    status.details.append(any_pb2.Any(type_url="type.googleapis.com/google.rpc.BadRequest", value=b"\xff"))
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="R"))
    error = errors.from_rpc_error(RpcError(grpc.StatusCode.NOT_FOUND, "gone",
                                           (("grpc-status-details-bin", status.SerializeToString()),)))
    assert error.reason == "R"


def test_an_error_travels_between_processes():
    error = RnnServeError(grpc.StatusCode.NOT_FOUND, "no such model", [("model.name", "unknown")], "MODEL_UNKNOWN",
                          {"model": "m"}, 1.5)
    error.add_note("seen by a worker") if hasattr(error, "add_note") else None
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is RnnServeError and str(again) == str(error) and vars(again) == vars(error)


def fail():
    raise RnnServeError(grpc.StatusCode.UNAVAILABLE, "nobody there", reason="DRAINING")


def test_a_call_in_a_process_pool_raises_it_where_its_result_is_asked_for():
    context = multiprocessing.get_context("spawn")  # gRPC's threads do not outlive a fork
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        with pytest.raises(RnnServeError, match="nobody there") as caught:
            pool.submit(fail).result(timeout=120)
    assert caught.value.reason == "DRAINING" and caught.value.code is grpc.StatusCode.UNAVAILABLE
