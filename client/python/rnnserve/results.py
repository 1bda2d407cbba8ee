# SPDX-License-Identifier: Apache-2.0
"""What calls give: outputs, models and sessions as Python values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from rnnserve import tensors
from rnnserve.operators import Operator, Options, operator_from_wire, options_from_wire
from rnnserve.sessions.operations import Outputs
from rnnserve.v1 import models_pb2, recurrent_pb2, sessions_pb2, tensor_pb2


@dataclasses.dataclass
class Result:
    """What an infer call gives.

    outputs        arrays by name, of the operator's element type
    engine         the engine that ran; "" where nothing had to be computed
    fingerprint    SHA-256 over operator and weights, 64 hexadecimal digits
    queue_time     seconds from acceptance to the first slice
    compute_time   seconds in the engine
    largest_batch  the largest number of sequences that shared a slice with this call's
    warnings       remarks on a request that is valid but is read differently elsewhere
    request_id     as given
    """

    outputs: Outputs
    engine: str
    fingerprint: str
    queue_time: float
    compute_time: float
    largest_batch: int
    warnings: list[str]
    request_id: str


@dataclasses.dataclass
class TensorSpec:
    """An input or output of a model; a dimension is a number or a name ("T" steps, "N" rows)."""

    name: str
    data_type: str
    shape: list[str]
    optional: bool


@dataclasses.dataclass
class ModelInfo:
    """A model that the server holds; source is "upload" or the file's path below the repository folder.

    A stack (a model of several layers) has `layers`, first to last, and no `operator`; every other model has an
    `operator` and no layers.
    """

    name: str
    version: int
    fingerprint: str
    operator: Operator | None
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    state: list[TensorSpec]
    options: Options
    engine: str
    source: str
    weight_bytes: int
    packed_bytes: int
    layers: list[Operator] = dataclasses.field(default_factory=list[Operator])


@dataclasses.dataclass
class SessionInfo:
    """A session that the server holds.

    session       its key; it is as good as a password for the session
    name          as given when it was opened; "" without
    model         "" where an operator was brought
    fingerprint   of what it runs
    last_applied  its latest number
    position      steps it has run through
    idle          seconds since it was last used
    expires_in    seconds until it ends if it is not used
    """

    session: str
    name: str
    model: str
    fingerprint: str
    rows: int
    last_applied: int
    position: int
    idle: float
    expires_in: float
    state_bytes: int


def result(reply: recurrent_pb2.InferResponse) -> Result:
    return Result(outputs={tensor.name: tensors.decode(tensor) for tensor in reply.outputs}, engine=reply.engine,
                  fingerprint=reply.fingerprint, queue_time=reply.queue_time.ToNanoseconds() * 1e-9,
                  compute_time=reply.compute_time.ToNanoseconds() * 1e-9, largest_batch=reply.largest_batch,
                  warnings=list(reply.warnings), request_id=reply.request_id)


def model_info(model: models_pb2.ModelInfo) -> ModelInfo:
    def specs(messages: Iterable[models_pb2.TensorSpec]) -> list[TensorSpec]:
        return [TensorSpec(spec.name, tensor_pb2.DataType.Name(spec.data_type), list(spec.shape), spec.optional)
                for spec in messages]

    operator = operator_from_wire(model.operator) if model.HasField("operator") else None
    return ModelInfo(name=model.name, version=model.version, fingerprint=model.fingerprint,
                     operator=operator, inputs=specs(model.inputs),
                     outputs=specs(model.outputs), state=specs(model.state), options=options_from_wire(model.options),
                     engine=model.engine, source=model.source, weight_bytes=model.weight_bytes,
                     packed_bytes=model.packed_bytes, layers=[operator_from_wire(layer) for layer in model.layers])


def session_info(info: sessions_pb2.SessionInfo) -> SessionInfo:
    return SessionInfo(session=info.session, name=info.name, model=info.model, fingerprint=info.fingerprint,
                       rows=info.rows, last_applied=info.last_applied, position=info.position,
                       idle=info.idle.ToNanoseconds() * 1e-9, expires_in=info.expires_in.ToNanoseconds() * 1e-9,
                       state_bytes=info.state_bytes)
