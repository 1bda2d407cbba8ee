# SPDX-License-Identifier: Apache-2.0
"""What tritonclient.grpc asks a server of the Open Inference Protocol: a list of (label, call). `unary128` maps X
[N, T, 128] to Y, and `step128` is called in sequences of one row and one step."""

from __future__ import annotations

import queue

import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc

X = np.random.default_rng(22).standard_normal((1, 4, 128), dtype=np.float32)
UNARY, STEP = "unary128", "step128"


def tensor(value, name="X", datatype="FP32"):
    made = triton.InferInput(name, list(value.shape), datatype)
    made.set_data_from_numpy(value)
    return made


class Conversation:
    """`step_shape`: of one step of step128. `onnx`: the bytes of unary128's file. `config`: its config, as JSON."""

    def __init__(self, address, step_shape, onnx, config):
        self.client = triton.InferenceServerClient(address)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.client._channel)
        self.step_shape, self.onnx, self.config = step_shape, onnx, config

    def infer(self, model=UNARY, x=X, **fields):
        return self.client.infer(model, [tensor(x)], **fields).get_response()

    def step(self, sequence_id, at=0, start=False, end=False, **fields):
        x = np.ascontiguousarray(X[0, at]).reshape(self.step_shape)
        return self.infer(STEP, x, sequence_id=sequence_id, sequence_start=start, sequence_end=end, **fields)

    def again(self, **fields):
        """A step sent twice; whether both replies are the same numbers."""
        self.step(51, 0, start=True, **fields)
        return np.array_equal(*(np.frombuffer(self.step(51, 1, **fields).raw_output_contents[0], np.float32)
                                for _ in range(2)))

    def raw(self, change=lambda request: None):
        request = service_pb2.ModelInferRequest(model_name=UNARY, raw_input_contents=[X.tobytes()])
        request.inputs.add(name="X", datatype="FP32", shape=X.shape)
        change(request)
        return self.stub.ModelInfer(request, timeout=20)

    def stream(self, send, count, headers=None):
        """The answers of a stream: replies, or texts of errors."""
        arrived = queue.Queue()
        self.client.start_stream(callback=lambda result, error: arrived.put((result, error)), headers=headers)
        try:
            send(self.client.async_stream_infer)
            answers = [arrived.get(timeout=20) for _ in range(count)]
        finally:
            self.client.stop_stream()
        return [result.get_response() if error is None else error for result, error in answers]

    def stream_step(self, send, sequence_id, at, **fields):
        x = np.ascontiguousarray(X[0, at]).reshape(self.step_shape)
        send(STEP, [tensor(x)], sequence_id=sequence_id, **fields)

    def load(self, model="sent", **fields):
        self.client.load_model(model, **fields)

    def calls(self):
        yield from self._descriptions()
        yield from self._repository()
        yield from self._settings()
        yield from self._infers()
        yield from self._parameters()
        yield from self._malformed()
        yield from self._sequences()
        yield from self._streams()

    def _descriptions(self):
        c = self.client
        yield "is_server_live", c.is_server_live
        yield "is_server_ready", c.is_server_ready
        yield "is_model_ready", lambda: c.is_model_ready(UNARY)
        yield "is_model_ready, of a version", lambda: c.is_model_ready(UNARY, "1")
        yield "is_model_ready, no such version", lambda: c.is_model_ready(UNARY, "9")
        yield "is_model_ready, no such model", lambda: c.is_model_ready("nosuch")
        yield "get_server_metadata", c.get_server_metadata
        yield "get_model_metadata", lambda: c.get_model_metadata(UNARY)
        yield "get_model_metadata, no such model", lambda: c.get_model_metadata("nosuch")
        yield "get_model_metadata, no such version", lambda: c.get_model_metadata(UNARY, "9")
        yield "get_model_config", lambda: c.get_model_config(UNARY)
        yield "get_model_config, of a sequence model", lambda: c.get_model_config(STEP)
        yield "get_model_config, no such model", lambda: c.get_model_config("nosuch")
        yield "get_inference_statistics", lambda: c.get_inference_statistics(UNARY)
        yield "get_inference_statistics, all models", c.get_inference_statistics
        yield "get_inference_statistics, no such model", lambda: c.get_inference_statistics("nosuch")

    def _repository(self):
        c = self.client
        file = {"file:1/model.onnx": self.onnx}
        yield "get_model_repository_index", c.get_model_repository_index
        yield "load_model, file and config", lambda: self.load(config=self.config, files=file)
        yield "is_model_ready, of the loaded one", lambda: c.is_model_ready("sent")
        yield "infer, of the loaded one", lambda: self.infer("sent")
        yield "load_model, the same again", lambda: self.load(config=self.config, files=file)
        yield "load_model, file without config", lambda: self.load("bare", files=file)
        yield "load_model, broken file", lambda: self.load("broken", config=self.config,
                                                           files={"file:1/model.onnx": b"no model"})
        yield "load_model, not in the repository", lambda: self.load("nosuch")
        yield "load_model, from the repository", lambda: self.load(UNARY)
        yield "unload_model", lambda: c.unload_model("sent")
        yield "is_model_ready, of the unloaded one", lambda: c.is_model_ready("sent")
        yield "unload_model, no such model", lambda: c.unload_model("nosuch")

    def _settings(self):
        c = self.client
        yield "get_trace_settings", c.get_trace_settings
        yield "update_trace_settings", lambda: c.update_trace_settings(settings={"trace_rate": "1000"})
        yield "get_log_settings", c.get_log_settings
        yield "update_log_settings", lambda: c.update_log_settings({"log_verbose_level": 0})
        for kind in ("system", "cuda"):
            yield f"get_{kind}_shared_memory_status", getattr(c, f"get_{kind}_shared_memory_status")
            yield f"unregister_{kind}_shared_memory", getattr(c, f"unregister_{kind}_shared_memory")
        yield "register_system_shared_memory", lambda: c.register_system_shared_memory("r", "/nosuch", 16)
        yield "register_cuda_shared_memory", lambda: c.register_cuda_shared_memory("r", b"aGFuZGxl", 0, 16)

    def _infers(self):
        yield "infer", self.infer
        yield "infer, of a version", lambda: self.infer(model_version="1")
        yield "infer, no such version", lambda: self.infer(model_version="9")
        yield "infer, version not a number", lambda: self.infer(model_version="new")
        yield "infer, no such model", lambda: self.infer("nosuch")
        yield "infer, requested output", lambda: self.infer(outputs=[triton.InferRequestedOutput("Y")])
        yield "infer, no such output", lambda: self.infer(outputs=[triton.InferRequestedOutput("Z")])
        yield "infer, class_count", lambda: self.infer(outputs=[triton.InferRequestedOutput("Y", class_count=2)])
        yield "infer, gzip", lambda: self.infer(compression_algorithm="gzip")
        yield "infer, client_timeout", lambda: self.infer(client_timeout=20)
        yield "async_infer", self._async_infer

    def _async_infer(self):
        arrived = queue.Queue()
        self.client.async_infer(UNARY, [tensor(X)], callback=lambda result, error: arrived.put((result, error)))
        result, error = arrived.get(timeout=20)
        return error or result.get_response()

    def _parameters(self):
        yield "request_id", lambda: self.infer(request_id="mine")
        for priority in (0, 1, 7):
            yield f"priority {priority}", lambda priority=priority: self.infer(priority=priority)
        yield "timeout", lambda: self.infer(timeout=10_000_000)
        yield "parameters, one of the caller's own", lambda: self.infer(parameters={"mine": 1})
        yield "priority, below 0", lambda: self.raw(lambda r: setattr(r.parameters["priority"], "int64_param", -1))
        yield "priority, a text", lambda: self.raw(lambda r: setattr(r.parameters["priority"], "string_param", "1"))
        yield "timeout, a text", lambda: self.raw(lambda r: setattr(r.parameters["timeout"], "string_param", "1"))
        yield "binary_data_output", lambda: self.raw(
            lambda r: setattr(r.parameters["binary_data_output"], "bool_param", True))
        yield "triton_enable_empty_final_response", lambda: self.raw(
            lambda r: setattr(r.parameters["triton_enable_empty_final_response"], "bool_param", True))

    def _malformed(self):
        def typed(request):
            request.ClearField("raw_input_contents")
            request.inputs[0].contents.fp32_contents.extend(X.ravel().tolist())

        def short(request):
            request.raw_input_contents[0] = X.tobytes()[:-4]

        def extra(request):
            request.inputs.add(name="Z", datatype="FP32", shape=X.shape)
            request.raw_input_contents.append(X.tobytes())

        def shape(*axes):
            return lambda request: (request.inputs[0].ClearField("shape"), request.inputs[0].shape.extend(axes))

        yield "raw stub, typed contents", lambda: self.raw(typed)
        yield "no model_name", lambda: self.raw(lambda r: r.ClearField("model_name"))
        yield "no inputs", lambda: self.raw(lambda r: (r.ClearField("inputs"), r.ClearField("raw_input_contents")))
        yield "no elements", lambda: self.raw(lambda r: r.ClearField("raw_input_contents"))
        yield "elements twice", lambda: self.raw(lambda r: r.inputs[0].contents.fp32_contents.append(1))
        yield "too few bytes", lambda: self.raw(short)
        yield "input of another name", lambda: self.raw(lambda r: setattr(r.inputs[0], "name", "Z"))
        yield "one input too many", lambda: self.raw(extra)
        yield "wrong datatype", lambda: self.raw(lambda r: setattr(r.inputs[0], "datatype", "INT32"))
        yield "no such datatype", lambda: self.raw(lambda r: setattr(r.inputs[0], "datatype", "FLOAT"))
        yield "wrong width", lambda: self.raw(shape(1, 8, 64))
        yield "wrong rank", lambda: self.raw(shape(1, 1, 4, 128))
        yield "negative dimension", lambda: self.raw(shape(-1, 4, 128))
        yield "no rows", lambda: self.infer(x=np.zeros((0, 4, 128), np.float32))
        yield "no steps", lambda: self.infer(x=np.zeros((1, 0, 128), np.float32))
        yield "shared_memory_region of none", lambda: self.raw(
            lambda r: (r.ClearField("raw_input_contents"),
                       setattr(r.inputs[0].parameters["shared_memory_region"], "string_param", "r")))

    def _sequences(self):
        yield "sequence, never started", lambda: self.step(41, 0)
        yield "sequence_start", lambda: self.step(42, 0, start=True)
        yield "sequence, second step", lambda: self.step(42, 1)
        yield "sequence_start, of a live one", lambda: self.step(42, 0, start=True)
        yield "sequence, after the restart", lambda: self.step(42, 1)
        yield "sequence_end", lambda: self.step(42, 2, end=True)
        yield "sequence, after its end", lambda: self.step(42, 3)
        yield "sequence_start and sequence_end", lambda: self.step(43, 0, start=True, end=True)
        yield "sequence_id, a text", lambda: self.step("user-1", 0, start=True, end=True)
        yield "sequence_id, 2^63 - 1", lambda: self.step(2**63 - 1, 0, start=True, end=True)
        yield "sequence_id 0", lambda: self.step(0, 0, start=True)
        yield "sequence_id, a bool", lambda: self.raw(
            lambda r: setattr(r.parameters["sequence_id"], "bool_param", True))
        yield "sequence_start, a number", lambda: self.raw(
            lambda r: (setattr(r.parameters["sequence_id"], "int64_param", 44),
                       setattr(r.parameters["sequence_start"], "int64_param", 1)))
        yield "no sequence_id, a model of sequences", lambda: self.infer(STEP, X[:, 0].reshape(self.step_shape))
        yield "sequence_id, a model without sequences", lambda: self.infer(sequence_id=45, sequence_start=True)
        yield "a request sent again, with its id: same numbers", lambda: self.again(request_id="again")
        yield "a request sent again, no id: same numbers", self.again

    def _streams(self):
        def sequence(send):
            for at in range(3):
                self.stream_step(send, 61, at, sequence_start=at == 0, sequence_end=at == 2, request_id=str(at))

        def good_after_bad(send):
            self.stream_step(send, 62, 0, request_id="bad")
            self.stream_step(send, 63, 0, request_id="good", sequence_start=True, sequence_end=True)

        yield "stream, whole runs", lambda: self.stream(lambda send: send(UNARY, [tensor(X)], request_id="w"), 1)
        yield "stream, enable_empty_final_response", lambda: self.stream(
            lambda send: send(UNARY, [tensor(X)], request_id="w", enable_empty_final_response=True), 1)
        yield "stream, a sequence", lambda: self.stream(sequence, 3)
        yield "stream, no such model", lambda: self.stream(lambda send: send("nosuch", [tensor(X)], request_id="n"), 1)
        yield "stream, an error and then a sequence", lambda: self.stream(good_after_bad, 2)
        yield "stream, header triton_grpc_error", lambda: self.stream(
            lambda send: self.stream_step(send, 64, 0), 1, headers={"triton_grpc_error": "true"})
