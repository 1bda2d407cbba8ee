# SPDX-License-Identifier: Apache-2.0
"""Operations and states as rnnserve.v1 messages, and replies as Answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy.typing as npt
from google.protobuf import duration_pb2

from rnnserve import tensors
from rnnserve.errors import from_operation_status
from rnnserve.operators import Operator, Options, options_to_wire
from rnnserve.sessions import operations as ops
from rnnserve.sessions.entry import Sending
from rnnserve.v1 import sessions_pb2 as pb
from rnnserve.v1 import tensor_pb2


@dataclasses.dataclass
class Opening:
    """What every incarnation of a session is opened with."""

    model: str | None = None
    version: int | None = None
    fingerprint: str | None = None
    op: Operator | None = None
    options: Options = dataclasses.field(default_factory=Options)
    rows: int | None = None
    outputs: tuple[str, ...] = ()
    name: str = ""
    attach: bool = False
    must_exist: bool = False
    max_in_flight: int = 8
    idle_timeout: float | None = None
    window_operations: int | None = None
    window_bytes: int | None = None
    engine: str = ""
    state_type: str | None = None
    durability: str | None = None
    data_input: str = "X"  # what a chunk's array is called, as OpenResponse tells

    def fork(self) -> Opening:
        """The Opening of a fork: names are unique."""
        return dataclasses.replace(self, name="", attach=False, must_exist=False)

    def anew(self, state: ops.State | None) -> Opening:
        """The Opening of the same session with that state elsewhere: SelectRows may have changed its rows, which are
        the state's, and it must not meet another's of its name."""
        return dataclasses.replace(self, attach=False, must_exist=False, rows=None if state else self.rows)

    def request(self, state: Mapping[str, npt.ArrayLike] | None, request_id: str,
                known_fingerprint: str = "") -> pb.OpenRequest:
        """An OpenRequest that may be repeated; known_fingerprint stands for an operator's weights."""
        window = max(16, 2 * self.max_in_flight) if self.window_operations is None else self.window_operations
        request = pb.OpenRequest(
            request_id=request_id, name=self.name, attach=self.attach, must_exist=self.must_exist, rows=self.rows,
            outputs=self.outputs,
            max_in_flight=self.max_in_flight, window_operations=window, window_bytes=self.window_bytes,
            engine=self.engine, options=options_to_wire(self.options),
            state_type=None if self.state_type is None else self.state_type.upper(),
            durability=None if self.durability is None else self.durability.upper())
        if self.idle_timeout is not None:
            request.idle_timeout.CopyFrom(_duration(self.idle_timeout))
        if state is not None:
            request.state.CopyFrom(encode_state(state))
        fingerprint = known_fingerprint or self.fingerprint
        if self.model is not None:
            request.model.CopyFrom(tensor_pb2.ModelRef(name=self.model, version=self.version))
        elif fingerprint:
            request.fingerprint = fingerprint
        elif self.op is not None:
            request.operator.CopyFrom(self.op.to_wire())
            request.weights.extend(self.op.weights_to_wire())
        return request


def window_bytes(opened: pb.OpenResponse) -> int:
    """Of an OpenResponse; 0: no replies are kept."""
    return opened.window_bytes if opened.window_operations else 0


def is_durable(opened: pb.OpenResponse) -> bool:
    return opened.durability in (pb.OpenRequest.INTERVAL, pb.OpenRequest.SYNC)


def encode_chunk(inputs: Mapping[str, npt.ArrayLike | None]) -> list[tensor_pb2.Tensor]:
    """The list of Tensors of arrays by name."""
    return [tensors.encode(name, value) for name, value in inputs.items() if value is not None]


def encode_state(state: Mapping[str, npt.ArrayLike]) -> pb.StateTensors:
    return pb.StateTensors(tensors=[tensors.encode(name, value) for name, value in state.items()])


def decode_state(message: pb.StateTensors, fingerprint: str = "", position: int = 0) -> ops.State:
    return ops.State({tensor.name: tensors.decode(tensor) for tensor in message.tensors}, fingerprint, position)


@dataclasses.dataclass(frozen=True)
class Handle:
    """What a server calls a session, and the owner epoch that it told: where another client attaches later, operations
    that carry it are FENCED, and the session is not taken back."""

    key: str
    owner_epoch: int

    @classmethod
    def of(cls, opened: pb.OpenResponse) -> Handle:
        return cls(opened.session, opened.owner_epoch)


def encode_operation(handle: Handle, sending: Sending, now: float) -> pb.Operation:
    """The Operation of a journal's Sending."""
    operation = sending.operation
    message = pb.Operation(request_id=sending.tag, session=handle.key, number=sending.number)
    if sending.number is not None:
        message.owner_epoch = handle.owner_epoch
    match operation:
        case ops.Chunk():
            message.chunk.inputs.extend(operation.inputs)
            message.priority = operation.priority
            if sending.replayed:
                message.chunk.override_outputs = True
            else:
                if operation.outputs is not None:
                    message.chunk.override_outputs = True
                    message.chunk.outputs.extend(operation.outputs)
                timeout = operation.timeout if sending.deadline is None else _servers_part(sending.deadline - now)
                if timeout is not None:
                    message.timeout.CopyFrom(_duration(timeout))
        case ops.Reset():
            message.reset.SetInParent()
            if operation.state is not None:
                message.reset.state.CopyFrom(encode_state(operation.state))
        case ops.SetState() | ops.Rewind():
            # Of the same model, if the state says which; else of any whose shapes fit.
            message.set_state.state.CopyFrom(encode_state(operation.state))
            message.set_state.fingerprint = getattr(operation.state, "fingerprint", "")
            message.set_state.force = not message.set_state.fingerprint
        case ops.SelectRows():
            message.select_rows.rows.extend(operation.rows)
        case ops.Close():
            message.close.return_state = operation.return_state
        case ops.Fork():
            message.fork.request_id = operation.request_id
            message.fork.count = operation.count
        case _:
            message.get_state.SetInParent()
    return message


def decode_reply(reply: pb.OperationReply) -> ops.Answer:
    """The Answer of an OperationReply."""
    if reply.status.code != 0:
        return ops.Answer(error=from_operation_status(reply.status), next_expected=reply.next_expected)
    answer = ops.Answer(number=reply.number, position=reply.position, durable_number=reply.durable_number)
    kind = reply.WhichOneof("result")
    if kind == "get_state":
        state = reply.get_state
        answer.number, answer.position = state.number, state.position
        answer.value = decode_state(state.state, state.fingerprint, state.position)
    elif kind == "fork":
        answer.number = reply.fork.number
        answer.value = [Handle(key, reply.fork.owner_epoch) for key in reply.fork.sessions]
    elif kind == "final_state":
        answer.value = decode_state(reply.final_state, position=reply.position)
    else:
        answer.value = {tensor.name: tensors.decode(tensor) for tensor in reply.outputs}
    return answer


def _servers_part(left: float) -> float:
    """Of the seconds that the caller waits: so that the server's own word, that the state is as it was, comes in time."""
    return max(0.9 * left, left - 1.0, 0.001)


def _duration(seconds: float) -> duration_pb2.Duration:
    duration = duration_pb2.Duration()
    duration.FromNanoseconds(round(seconds * 1e9))
    return duration
