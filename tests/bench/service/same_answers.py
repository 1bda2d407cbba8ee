#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether two servers answer the same requests alike: same_answers.py ADDRESS ADDRESS. Exits with 1 where not."""

import sys

import grpc
import numpy as np

from stubs import recurrent_pb2, recurrent_pb2_grpc, tensor_pb2

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
TOLERANCE = 2e-5


def request(kind, steps, rows, units, random):
    def tensor(name, *shape, limit=1.0):
        values = random.uniform(-limit, limit, shape).astype(np.float32)
        return tensor_pb2.Tensor(name=name, data_type=tensor_pb2.FLOAT, shape=shape, raw=values.tobytes())

    bound = 1 / np.sqrt(units)
    gates = GATES[kind] * units
    operator = tensor_pb2.Operator(op_type=kind, opset=14)
    operator.attributes["hidden_size"].i = units
    return recurrent_pb2.InferRequest(operator=operator, inputs=[
        tensor("X", steps, rows, units), tensor("W", 1, gates, units, limit=bound),
        tensor("R", 1, gates, units, limit=bound), tensor("B", 1, 2 * gates, limit=bound)])


def answers(address, requests):
    options = [("grpc.max_send_message_length", 64 << 20), ("grpc.max_receive_message_length", 64 << 20)]
    with grpc.insecure_channel(address, options) as channel:
        stub = recurrent_pb2_grpc.RecurrentStub(channel)
        return [stub.Infer(one, timeout=60) for one in requests]


def main():
    random = np.random.default_rng(3)
    shapes = [("LSTM", 1, 1, 128), ("LSTM", 32, 1, 128), ("LSTM", 32, 1, 512), ("GRU", 7, 3, 64), ("RNN", 1, 32, 128)]
    requests = [request(*shape, random) for shape in shapes]
    for shape, *replies in zip(shapes, *(answers(address, requests) for address in sys.argv[1:3])):
        first, second = ({tensor.name: np.frombuffer(tensor.raw, np.float32) for tensor in reply.outputs} for reply in replies)
        far = {name for name in first if not np.allclose(first[name], second[name], rtol=0, atol=TOLERANCE)}
        if first.keys() != second.keys() or far:
            sys.exit(f"{shape}: outputs {sorted(first)} and {sorted(second)}, different: {sorted(far)}")


if __name__ == "__main__":
    main()
