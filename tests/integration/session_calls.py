# SPDX-License-Identifier: Apache-2.0
"""rnnserve.v1.Sessions and Recurrent.Stream over raw gRPC, and a cell that remembers everything.

The remembering cell is an RNN with Affine whose R is a shift matrix and whose W writes x into slot 0: its state is the
log of the last H inputs, the newest first, so that a lost, doubled, reordered or leaked chunk shows in every later state.
"""

from __future__ import annotations

import queue

import numpy as np

import wire

H = 64


def remembering_operator(hidden=H, layout=0):
    operator = wire.tensor_pb2.Operator(op_type="RNN", version=14)
    operator.attributes["hidden_size"].i = hidden
    operator.attributes["activations"].strings.values.append("Affine")
    operator.attributes["activation_alpha"].floats.values.append(1.0)
    operator.attributes["activation_beta"].floats.values.append(0.0)
    if layout:
        operator.attributes["layout"].i = layout
    return operator


def remembering_weights(hidden=H, dtype=np.float32):
    w = np.zeros((1, hidden, 1), dtype)
    w[0, 0, 0] = 1
    r = np.zeros((1, hidden, hidden), dtype)
    r[0, np.arange(1, hidden), np.arange(hidden - 1)] = 1
    return [wire.tensor("W", w), wire.tensor("R", r)]


def open_request(**fields):
    """Of the remembering cell, unless `fields` name something else to run."""
    if not {"model", "fingerprint", "operator"} & set(fields):
        fields = {"operator": remembering_operator(), "weights": remembering_weights(), **fields}
    return wire.sessions_pb2.OpenRequest(**fields)


def chunk(values, dtype=np.float32, **fields):
    """X of one row, or of several: `values` is [steps] or [steps, rows]."""
    x = np.asarray(values, dtype)
    x = x.reshape(len(x), -1 if x.size else 1, 1)
    return {"chunk": wire.sessions_pb2.Chunk(inputs=[wire.tensor("X", x)], **fields)}


def operation(session, number=None, **kind):
    return wire.sessions_pb2.Operation(session=session, number=number, **kind)


def tensors(message) -> dict[str, np.ndarray]:
    return {tensor.name: wire.array(tensor) for tensor in message}


def log_of(state_message, row=0, name="initial_h") -> list[float]:
    """What a session of the remembering cell has seen, the oldest first, without the zeros before it."""
    slots = list(tensors(state_message.state.tensors)[name][0, row])
    while slots and slots[-1] == 0:
        slots.pop()
    return [float(value) for value in reversed(slots)]


class Sessions:
    """Calls on one server."""

    def __init__(self, address: str):
        self.channel = wire.channel(address)
        self.stub = wire.sessions_grpc.SessionsStub(self.channel)
        self.recurrent = wire.recurrent_grpc.RecurrentStub(self.channel)

    def open(self, **fields) -> str:
        return self.stub.Open(open_request(**fields)).session

    def apply(self, session, number=None, call_timeout=60, **kind):
        request = wire.sessions_pb2.ApplyRequest(operation=operation(session, number, **kind))
        return self.stub.Apply(request, timeout=call_timeout).reply

    def feed(self, session, number, values, **fields):
        return self.apply(session, number, **chunk(values, **fields))

    def state(self, session, after_number=None):
        return self.stub.GetState(wire.sessions_pb2.GetStateRequest(session=session, after_number=after_number))

    def log(self, session, row=0) -> list[float]:
        return log_of(self.state(session), row)

    def fork(self, session, **fields):
        return self.stub.Fork(wire.sessions_pb2.ForkRequest(session=session, **fields))

    def checkpoint(self, session, name, after_number=None):
        return self.stub.Checkpoint(
            wire.sessions_pb2.CheckpointRequest(session=session, name=name, after_number=after_number))

    def close(self):
        self.channel.close()


class Stream:
    """One Recurrent.Stream: send operations, receive replies in the order they come."""

    def __init__(self, sessions: Sessions):
        self._requests = queue.SimpleQueue()
        self._replies = []
        self.drains = []
        self.call = sessions.recurrent.Stream(iter(self._requests.get, None))

    def send(self, *operations):
        self._requests.put(wire.sessions_pb2.StreamRequest(operations=operations))

    def receive(self):
        """The next reply."""
        while not self._replies:
            message = next(self.call)
            if message.HasField("drain"):
                self.drains.append(message.drain)
            self._replies.extend(message.replies)
        return self._replies.pop(0)

    def receive_many(self, count):
        return [self.receive() for _ in range(count)]

    def end(self):
        """No more operations; the replies that were still to come."""
        self._requests.put(None)
        rest, self._replies = self._replies, []
        for message in self.call:
            rest.extend(message.replies)
        return rest

    def cancel(self):
        self._requests.put(None)
        self.call.cancel()

