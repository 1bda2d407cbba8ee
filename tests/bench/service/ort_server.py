#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What people write themselves: a Python asyncio gRPC server around onnxruntime. A peer of docs/benchmarks.md.

    ort_server.py inline|pool [ADDRESS]

Speaks enough of rnnserve.v1.Recurrent/Infer and Stream for `rnnctl bench`: float32, an operator with its weights makes an
onnxruntime session, later requests name it by fingerprint; over a stream, states stay here between chunks. "inline" computes on the event loop with two onnxruntime threads, "pool" on two
Python threads with one onnxruntime thread each (onnxruntime lets go of the interpreter's lock).
"""

import asyncio
import concurrent.futures
import hashlib
import sys

import grpc
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from stubs import recurrent_pb2, recurrent_pb2_grpc, sessions_pb2, tensor_pb2

WEIGHTS = ("W", "R", "B", "P")
ORDER = {"LSTM": ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"),
         "GRU": ("X", "W", "R", "B", "sequence_lens", "initial_h"),
         "RNN": ("X", "W", "R", "B", "sequence_lens", "initial_h")}
OUTPUTS = {"LSTM": ("Y", "Y_h", "Y_c"), "GRU": ("Y", "Y_h"), "RNN": ("Y", "Y_h")}
TYPES = {tensor_pb2.FLOAT: np.float32, tensor_pb2.INT32: np.int32}
MAX_MESSAGE_BYTES = 64 << 20


def array(tensor):
    return np.frombuffer(tensor.raw, TYPES[tensor.data_type]).reshape(tensor.shape)


def attribute(value):
    found = getattr(value, value.WhichOneof("value"))
    return list(found.values) if hasattr(found, "values") else found


def make_session(operator, tensors, threads):
    """An onnxruntime session of one node with constant weights."""
    kind = operator.op_type
    weights = {name: value for name, value in tensors.items() if name in WEIGHTS}
    data = {name: value for name, value in tensors.items() if name not in WEIGHTS}
    attributes = {name: attribute(value) for name, value in operator.attributes.items()}
    attributes.setdefault("hidden_size", weights["R"].shape[2])
    names = [name if name in tensors else "" for name in ORDER[kind]]
    node = helper.make_node(kind, names, OUTPUTS[kind], **attributes)
    graph = helper.make_graph(
        [node], "layer",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim)
         for name, value in data.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in OUTPUTS[kind]],
        [numpy_helper.from_array(value, name) for name, value in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", operator.opset or 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return kind, onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class State:
    """A session of rnnserve: what runs, and the state as inputs of its next chunk."""

    def __init__(self, operator, weights, rows, outputs, threads):
        hidden = weights["R"].shape[2]
        names = ORDER[operator.op_type][5:7]
        self.feed = {name: np.zeros((1, rows, hidden), np.float32) for name in names}
        x = np.zeros((1, rows, weights["W"].shape[2]), np.float32)
        self.runs = make_session(operator, {**weights, "X": x, **self.feed}, threads)[1]
        self.outputs = [*outputs, "Y_h", "Y_c"][:len(outputs) + len(names)]

    def chunk(self, tensors):
        results = self.runs.run(self.outputs, {**tensors, **self.feed})
        states = results[-len(self.feed):]
        self.feed = dict(zip(self.feed, states))
        return results[:-len(self.feed)]

    def fork(self):
        """Another one from zeros, without compiling anew."""
        other = State.__new__(State)
        other.runs, other.outputs = self.runs, self.outputs
        other.feed = {name: np.zeros_like(value) for name, value in self.feed.items()}
        return other


class Recurrent(recurrent_pb2_grpc.RecurrentServicer):
    def __init__(self, pool):
        self.pool = concurrent.futures.ThreadPoolExecutor(2) if pool else None
        self.sessions, self.weights, self.forms, self.states = {}, {}, {}, {}
        self.opened = 0

    def session(self, request, tensors):
        if request.fingerprint:
            return request.fingerprint, self.sessions[request.fingerprint]
        digest = hashlib.sha256(request.operator.SerializeToString(deterministic=True))
        for name in WEIGHTS:
            if name in tensors:
                digest.update(tensors[name].tobytes())
        key = digest.hexdigest()
        if key not in self.sessions:
            self.sessions[key] = make_session(request.operator, tensors, self.threads())
            self.weights[key] = request.operator, {name: tensors[name] for name in WEIGHTS if name in tensors}
        return key, self.sessions[key]

    async def Infer(self, request, context):
        tensors = {tensor.name: array(tensor) for tensor in request.inputs}
        key, (kind, session) = self.session(request, tensors)
        feed = {name: value for name, value in tensors.items() if name not in WEIGHTS}
        outputs = list(request.outputs) or list(OUTPUTS[kind])
        if self.pool:
            results = await asyncio.get_running_loop().run_in_executor(self.pool, session.run, outputs, feed)
        else:
            results = session.run(outputs, feed)
        return recurrent_pb2.InferResponse(
            fingerprint=key, engine="onnxruntime",
            outputs=[tensor_pb2.Tensor(name=name, data_type=tensor_pb2.FLOAT, shape=value.shape, raw=value.tobytes())
                     for name, value in zip(outputs, results)])

    def threads(self):
        return 1 if self.pool else 2

    def open(self, request):
        form = request.fingerprint, request.rows, tuple(request.outputs)
        if form not in self.forms:
            operator, weights = self.weights[request.fingerprint]
            self.forms[form] = State(operator, weights, request.rows, list(request.outputs) or ["Y"], self.threads())
        self.opened += 1
        key = f"{self.opened:056d}"
        self.states[key] = self.forms[form].fork()
        return key

    def apply(self, operation):
        reply = sessions_pb2.OperationReply(request_id=operation.request_id, session=operation.session,
                                            number=operation.number, last_applied=operation.number,
                                            next_expected=operation.number + 1, engine="onnxruntime")
        reply.status.SetInParent()
        kind = operation.WhichOneof("kind")
        if kind == "open":
            reply.session = reply.open.session = self.open(operation.open)
        elif kind == "close":
            del self.states[operation.session]
        else:
            state = self.states[operation.session]
            tensors = {tensor.name: array(tensor) for tensor in operation.chunk.inputs}
            for name, value in zip(state.outputs, state.chunk(tensors)):
                reply.outputs.add(name=name, data_type=tensor_pb2.FLOAT, shape=value.shape, raw=value.tobytes())
        return reply

    async def Stream(self, request_iterator, context):
        async for message in request_iterator:
            if self.pool:
                loop = asyncio.get_running_loop()
                run = [loop.run_in_executor(self.pool, self.apply, operation) for operation in message.operations]
                replies = await asyncio.gather(*run)
            else:
                replies = [self.apply(operation) for operation in message.operations]
            yield sessions_pb2.StreamResponse(replies=replies)


async def main():
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)])
    recurrent_pb2_grpc.add_RecurrentServicer_to_server(Recurrent(sys.argv[1] == "pool"), server)
    port = server.add_insecure_port(sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:0")
    await server.start()
    print(f"listening on port {port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
