# SPDX-License-Identifier: Apache-2.0
"""The Open Inference Protocol, by an unmodified tritonclient; what it computes is measured against onnxruntime."""

from __future__ import annotations

import dataclasses
import queue

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc

import onnxruntime_side
import repository_files
import wire
from operators import WEIGHTS

CASE = repository_files.case("LSTM", 14)
NAME = "lstm"


@pytest.fixture(scope="module")
def client(server):
    running = triton.InferenceServerClient(server.address)
    running.load_model(NAME, files={"file:1/model.onnx": repository_files.model(CASE).SerializeToString()})
    yield running
    running.unload_model(NAME)
    assert not running.is_model_ready(NAME)
    running.close()


@pytest.fixture(scope="module")
def stub(server):
    with grpc.insecure_channel(server.address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def _data(case=CASE):
    return {name: value for name, value in case.tensors.items() if name not in WEIGHTS}


def _inputs(tensors):
    inputs = []
    for name, value in tensors.items():
        inputs.append(triton.InferInput(name, list(value.shape), "INT32" if value.dtype == np.int32 else "FP32"))
        inputs[-1].set_data_from_numpy(value)
    return inputs


def _expected(case=CASE):
    return onnxruntime_side.run(case)


def _x(steps=6, seed=3):
    rows, width = CASE.tensors["X"].shape[1:]
    return np.random.default_rng(seed).standard_normal((steps, rows, width), dtype=np.float32)


def _whole(x):
    """Y of all steps from zero states, by onnxruntime."""
    kept = {name: value for name, value in CASE.tensors.items() if name in WEIGHTS}
    return _expected(dataclasses.replace(CASE, tensors={"X": x, **kept}))["Y"]


def _step(client, x, at, sequence_id=7, **fields):
    result = client.infer(NAME, _inputs({"X": x[at:at + 1]}), sequence_id=sequence_id, **fields)
    return result.as_numpy("Y")


def _refused(call, *arguments, **fields):
    with pytest.raises(triton.InferenceServerException) as raised:
        call(*arguments, **fields)
    return raised.value


def test_health_and_descriptions(client):
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(NAME)
    assert not client.is_model_ready("nosuch")
    assert client.get_server_metadata().name == "rnnserve"
    metadata = client.get_model_metadata(NAME)
    assert metadata.name == NAME and list(metadata.versions) == ["1"]
    assert [(t.name, t.datatype) for t in metadata.inputs] == [("X", "FP32")], "load tools fill what is listed"
    assert list(metadata.inputs[0].shape) == [-1, -1, CASE.tensors["X"].shape[2]]
    config = client.get_model_config(NAME).config
    assert [t.name for t in config.input] == ["X"]
    assert config.max_batch_size == 0 and config.WhichOneof("scheduling_choice") == "dynamic_batching"
    streamed = client.get_model_config(NAME + "@sequence").config
    assert streamed.WhichOneof("scheduling_choice") == "sequence_batching"
    assert "initial_h" not in [t.name for t in streamed.input]
    assert NAME in [m.name for m in client.get_model_repository_index().models if m.state == "READY"]


def test_infer_raw_is_onnxruntimes(client):
    outputs = [triton.InferRequestedOutput("Y_h"), triton.InferRequestedOutput("Y")]
    result = client.infer(NAME, _inputs(_data()), outputs=outputs, request_id="r1", model_version="1", priority=2,
                          timeout=5_000_000, client_timeout=30)
    for name in ("Y", "Y_h"):
        np.testing.assert_allclose(result.as_numpy(name), _expected()[name], rtol=1e-5, atol=1e-6)
    assert result.as_numpy("Y_c") is None
    assert result.get_response().id == "r1" and result.get_response().model_version == "1"


def test_infer_typed_is_infer_raw(client, stub):
    request = service_pb2.ModelInferRequest(model_name=NAME)
    for name, value in _data().items():
        is_integer = value.dtype == np.int32
        tensor = request.inputs.add(name=name, datatype="INT32" if is_integer else "FP32", shape=value.shape)
        (tensor.contents.int_contents if is_integer else tensor.contents.fp32_contents).extend(value.ravel().tolist())
    reply = stub.ModelInfer(request)
    y = [k for k, output in enumerate(reply.outputs) if output.name == "Y"][0]
    got = np.frombuffer(reply.raw_output_contents[y], np.float32).reshape(reply.outputs[y].shape)
    np.testing.assert_allclose(got, _expected()["Y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sequence_id", [7, "user-1"])
def test_a_sequence_is_the_whole_run(client, sequence_id):
    x = _x()
    steps = [_step(client, x, k, sequence_id, sequence_start=k == 0, sequence_end=k == len(x) - 1)
             for k in range(len(x))]
    np.testing.assert_allclose(np.concatenate(steps), _whole(x), rtol=1e-5, atol=1e-6)
    assert "has ended" in _refused(_step, client, x, 0, sequence_id).message()


def test_a_sequence_as_openvino_model_server_takes_it(client):
    x = _x()
    steps = []
    for k in range(len(x)):
        control = np.array([1 if k == 0 else 2 if k == len(x) - 1 else 0], np.uint32)
        inputs = _inputs({"X": x[k:k + 1]})
        for name, value, datatype in (("sequence_id", np.array([12], np.uint64), "UINT64"),
                                      ("sequence_control_input", control, "UINT32")):
            inputs.append(triton.InferInput(name, [1], datatype))
            inputs[-1].set_data_from_numpy(value)
        result = client.infer(NAME, inputs)
        assert result.as_numpy("sequence_id") == [12]
        steps.append(result.as_numpy("Y"))
    np.testing.assert_allclose(np.concatenate(steps), _whole(x), rtol=1e-5, atol=1e-6)
    assert "has ended" in _refused(_step, client, x, 0, 12).message()


def test_a_request_sent_again_is_applied_once(client):
    x = _x()
    _step(client, x, 0, sequence_start=True, request_id="a")
    first = _step(client, x, 1, request_id="b")
    np.testing.assert_array_equal(_step(client, x, 1, request_id="b"), first)
    last = _step(client, x, 2, request_id="c", sequence_end=True)
    np.testing.assert_array_equal(_step(client, x, 2, request_id="c", sequence_end=True), last)
    np.testing.assert_allclose(last, _whole(x)[2:3], rtol=1e-5, atol=1e-6)


def test_a_start_restarts_and_one_id_for_all_means_new_requests(client):
    x = _x()
    _step(client, x, 3, sequence_start=True, request_id="mine")
    _step(client, x, 4, request_id="mine")
    for k in range(3):
        got = _step(client, x, k, request_id="mine", sequence_start=k == 0, sequence_end=k == 2)
    np.testing.assert_allclose(got, _whole(x)[2:3], rtol=1e-5, atol=1e-6)


def test_a_sequence_never_started_is_refused_with_a_reason(stub):
    x = _x(1)
    request = service_pb2.ModelInferRequest(model_name=NAME, raw_input_contents=[x.tobytes()])
    request.inputs.add(name="X", datatype="FP32", shape=x.shape)
    request.parameters["sequence_id"].int64_param = 99
    failure = wire.refusal(stub.ModelInfer, request)
    assert failure.code == grpc.StatusCode.INVALID_ARGUMENT and failure.reasons == ["SEQUENCE_UNKNOWN"]
    assert "must specify the START flag" in failure.text


def test_malformed_requests_name_the_field(stub, client):
    def field(change):
        request = service_pb2.ModelInferRequest(model_name=NAME)
        for name, value in _data().items():
            request.inputs.add(name=name, datatype="INT32" if value.dtype == np.int32 else "FP32", shape=value.shape)
            request.raw_input_contents.append(value.tobytes())
        change(request)
        failure = wire.refusal(stub.ModelInfer, request)
        assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, failure
        return failure.fields

    def clear_raw(request):
        del request.raw_input_contents[1:]

    assert field(lambda r: r.ClearField("model_name")) == ["model_name"]
    assert field(lambda r: setattr(r, "model_version", "x")) == ["model_version"]
    assert field(lambda r: setattr(r.inputs[0], "datatype", "UINT8")) == ["inputs[X].datatype"]
    assert field(lambda r: r.inputs[0].shape.append(-1)) == ["inputs[X].shape"]
    assert field(lambda r: r.inputs[0].shape.append(2)) == ["raw_input_contents"]
    assert field(clear_raw) == ["raw_input_contents"]
    assert field(lambda r: r.inputs[0].contents.fp32_contents.append(1)) == ["inputs[X].contents"]
    assert field(lambda r: setattr(r.parameters["priority"], "int64_param", -1)) == ["parameters[priority]"]
    assert field(lambda r: setattr(r.parameters["sequence_start"], "bool_param", True)) == ["parameters[sequence_id]"]


def test_400_changed_requests_are_answered_and_leave_the_numbers_alone(client, server):
    x = _x()
    steps = [_step(client, x, 0, sequence_start=True)]
    request = service_pb2.ModelInferRequest(model_name=NAME, raw_input_contents=[x[:1].tobytes()])
    request.inputs.add(name="X", datatype="FP32", shape=x[:1].shape)
    request.outputs.add(name="Y")
    request.parameters["sequence_id"].int64_param = 1234
    request.parameters["sequence_start"].bool_param = True
    sound = request.SerializeToString()
    rng = np.random.default_rng(22)
    codes = set()
    with grpc.insecure_channel(server.address) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for _ in range(400):
            changed = bytearray(sound[:rng.integers(len(sound) // 2, len(sound) + 1)])
            for at in rng.integers(0, len(changed), rng.integers(1, 4)):
                changed[at] = rng.integers(256)
            try:
                call(bytes(changed), timeout=30)
                codes.add(grpc.StatusCode.OK)
            except grpc.RpcError as error:
                codes.add(error.code())
    assert grpc.StatusCode.INVALID_ARGUMENT in codes
    assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}
    steps.append(_step(client, x, 1, sequence_end=True))
    np.testing.assert_allclose(np.concatenate(steps), _whole(x)[:2], rtol=1e-5, atol=1e-6)


def test_what_the_server_does_not_have_says_so(client):
    assert not client.get_system_shared_memory_status().regions
    client.unregister_system_shared_memory()
    assert "shares no memory" in _refused(client.register_system_shared_memory, "r", "/r", 16).message()
    assert "UNIMPLEMENTED" in _refused(client.get_trace_settings).status()
    assert "NOT_FOUND" in _refused(client.infer, "nosuch", _inputs(_data())).status()


@pytest.fixture
def answers(client):
    """Answers of a stream of the client, as (result, error)."""
    arrived = queue.Queue()
    client.start_stream(callback=lambda result, error: arrived.put((result, error)))
    yield lambda: arrived.get(timeout=60)
    client.stop_stream()


def test_a_stream_runs_sequences_in_order_and_goes_on_after_an_error(client, answers):
    x = _x()
    client.async_stream_infer(NAME, _inputs({"X": x[:1]}), sequence_id=22, request_id="bad")
    result, error = answers()
    assert result is None and "sequence 22" in error.message() and "START" in error.message()
    for k in range(len(x)):  # all at once, two sequences side by side
        for sequence in (31, 32):
            client.async_stream_infer(NAME, _inputs({"X": x[k:k + 1]}), sequence_id=sequence, request_id=f"{sequence}-{k}",
                                      sequence_start=k == 0, sequence_end=k == len(x) - 1)
    got = {}
    for _ in range(2 * len(x)):
        result, error = answers()
        assert error is None, error
        assert result.get_response().parameters["triton_final_response"].bool_param
        sequence, k = result.get_response().id.split("-")
        assert int(k) == len(got.setdefault(sequence, []))
        got[sequence].append(result.as_numpy("Y"))
    for steps in got.values():
        np.testing.assert_allclose(np.concatenate(steps), _whole(x), rtol=1e-5, atol=1e-6)


def test_a_stream_takes_whole_runs(client, answers):
    client.async_stream_infer(NAME, _inputs(_data()), request_id="w", enable_empty_final_response=True)
    result, error = answers()
    assert error is None, error
    np.testing.assert_allclose(result.as_numpy("Y"), _expected()["Y"], rtol=1e-5, atol=1e-6)


def test_statistics_count(client):
    before = client.get_inference_statistics(NAME).model_stats[0].inference_count
    client.infer(NAME, _inputs(_data()))
    stats = client.get_inference_statistics(NAME).model_stats[0]
    assert stats.inference_count == before + 1 and stats.inference_stats.success.ns > 0
