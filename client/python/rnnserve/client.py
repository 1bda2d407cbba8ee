# SPDX-License-Identifier: Apache-2.0
"""The client: a channel to a server, and to others where there are any."""

import collections.abc
import dataclasses
import itertools
import threading
import time
import weakref

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc

from rnnserve import tensors
from rnnserve.errors import RnnServeError, from_rpc_error
from rnnserve.operators import Operator, operator_from_wire, options_from_wire, options_to_wire
from rnnserve.sessions.hub import Hub
from rnnserve.sessions.session import open_session
from rnnserve.sessions.wire import Opening
from rnnserve.tries import Patience, Places, Tries
from rnnserve.v1 import models_pb2, models_pb2_grpc, recurrent_pb2, recurrent_pb2_grpc, tensor_pb2

# A server that is back is noticed within a second, a route that is dead after five.
_CHANNEL = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 5000),
            ("grpc.max_reconnect_backoff_ms", 1000)]
# A connection of its own, also to a name that leads elsewhere by now. Idle ones that are dead are noticed within a minute
# (the server allows a ping every 30 s), and lost ones sought again at once.
_SESSION_CHANNEL = [("grpc.use_local_subchannel_pool", 1), ("grpc.keepalive_time_ms", 40_000),
                    ("grpc.keepalive_timeout_ms", 15_000), ("grpc.http2.ping_timeout_ms", 15_000),  # which, depends on gRPC
                    ("grpc.http2.max_pings_without_data", 0),
                    ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 1000),
                    ("grpc.max_reconnect_backoff_ms", 1000)]


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

    outputs: dict[str, np.ndarray]
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
    options: dict
    engine: str
    source: str
    weight_bytes: int
    packed_bytes: int
    layers: list[Operator] = dataclasses.field(default_factory=list)


class Client:
    """A connection to an rnnserve server, to be shared by any number of threads.

    address            "host:port", or "unix:path"
    max_message_bytes  bound of one request and one reply (gRPC's own default would be 4 MiB for replies);
                       raise it together with the server's
    credentials        grpc.ChannelCredentials for TLS; None: plain text
    timeout            seconds that a call may take where it names none; None: no limit
    others             addresses of further servers with the same models: where infer turns to when the first one takes
                       no calls, and sessions move when theirs leaves
    patience           seconds that a session, or an infer without a timeout, may be without a server that takes it

    An infer that a server refuses as UNAVAILABLE, as one does that leaves, or that finds none, is sent again: to each
    address in turn, to the same one when it said or after 0.05 s, 0.1 s, ... 1 s, until its timeout has passed, or
    `patience` where it has none. So is one whose connection broke while it was under way: it keeps nothing on the
    server, so to run it twice does no harm. So is the opening of a session, until `patience` is over. Where the engine
    that a call names is out of service, only the other addresses are asked. Where nobody has ever answered this client,
    5 s is all once each address was asked: they may be wrong. patience=0: nothing is sent again. Other errors, and calls
    that manage models, are never sent again.

    Every call raises RnnServeError with the server's code, text and field. Close it, or use it in a `with`.
    """

    def __init__(self, address, *, max_message_bytes=64 * 1024 * 1024, credentials=None, timeout=None, others=(),
                 patience=60.0):
        self._address = _check_address(address)
        self._max_message_bytes = max_message_bytes
        self._credentials = credentials
        self._channel = self._connect(address, _CHANNEL)
        self._models = models_pb2_grpc.ModelsStub(self._channel)
        self._health = health_pb2_grpc.HealthStub(self._channel)
        self._timeout = timeout
        self._addresses = [address, *map(_check_address, others)]
        self._patience = Patience(patience)
        self._places = Places(len(self._addresses))
        self._hub = Hub(lambda place: self._connect(place, _SESSION_CHANNEL), self._addresses, self._patience)
        self._tags = map(str, itertools.count(1))
        self._mutex = threading.Lock()
        # Guarded by the mutex: fingerprints of operators whose weights the server has seen, and, by place in `_addresses`,
        # the channels that infer has needed so far, with its stubs.
        self._fingerprints = weakref.WeakKeyDictionary()
        self._lines = {0: (self._channel, recurrent_pb2_grpc.RecurrentStub(self._channel))}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the connection; calls under way end with CANCELLED, and so do sessions that are still open."""
        self._hub.close()
        with self._mutex:
            lines = list(self._lines.values())
        for channel, _ in lines:
            channel.close()

    def infer(self, op=None, inputs=None, *, model=None, version=None, fingerprint=None, outputs=(), engine="",
              priority=0, request_id="", timeout=None, **options):
        """Runs one operator over whole sequences and returns a Result.

        Exactly one of op (an Operator), model (a name; version absent: the highest) and fingerprint says what to run.
        inputs: arrays by name. Weights that are bound to op go along by themselves: in full with the first call of
        this client, as a fingerprint after it, and in full again if the server has dropped them meanwhile.
        outputs: names wanted; none: the operator's default. engine: by name, "" lets the server choose.
        priority: -100 to 100, larger first. timeout: seconds, those included in which no server takes it.
        options: clip_cell_input, empty_row_state ("zeros" or "initial"), deterministic, allow_reduced_precision.
        """
        if sum(target is not None for target in (op, model, fingerprint)) != 1:
            raise ValueError("give exactly one of op, model and fingerprint")
        if version is not None and model is None:
            raise ValueError("version belongs to model, which is absent")
        inputs = _check_inputs(inputs)
        outputs = [outputs] if isinstance(outputs, str) else outputs
        if op is not None:
            _check_operator(op)
            options = {**op.options, **options}
            twice = sorted(set(inputs) & set(op.weights))
            if twice:
                raise ValueError(f"{', '.join(twice)} is bound to the operator and given among the inputs too")
        request = recurrent_pb2.InferRequest(
            request_id=request_id, outputs=outputs, options=options_to_wire(options), engine=engine, priority=priority,
            inputs=[tensors.encode(name, value) for name, value in inputs.items() if value is not None])
        if model is not None:
            request.model.CopyFrom(_model_ref(model, version))
        elif fingerprint is not None:
            request.fingerprint = fingerprint
        else:
            return self._infer_operator(op, request, self._deadline(timeout))
        return _result(self._send(request, self._deadline(timeout)))

    def session(self, target=None, *, version=None, fingerprint=None, state=None, rows=1, outputs=(), name="",
                attach=False, checkpoint_every=0, max_in_flight=8, idle_timeout=None, window_operations=None,
                window_bytes=None, engine="", state_type=None, timeout=60.0, **options):
        """Opens a Session: state kept between chunks. Close it, or use it in a `with`.

        target            a model's name (version absent: the highest) or an Operator with its weights; or fingerprint
        state             where to start: arrays by name (initial_h, initial_c), or the State of another session
        rows              parallel sequences
        outputs           names wanted of each chunk; none: the operator's default
        name, attach      a name unique on the server; with attach, a live session of that name is gone on with
        checkpoint_every  ask for the state after so many operations and keep those since, so that the session survives
                          a server that was killed; 0: such a session ends with DATA_LOSS
        max_in_flight     operations without an answer
        idle_timeout      seconds after which the server ends an idle session; None: its default (10 minutes)
        window_operations, window_bytes  replies that the server keeps for repetition; None: enough, and those of
                          256 steps. A chunk whose reply does not fit is refused. What they may take is charged to the
                          session, and no more is sent at once than has its replies there
        state_type        "float16" or "bfloat16": what the server keeps the state in between chunks, rounded once after each;
                          half its memory. None: as it is computed
        timeout           seconds that the server may take for a chunk; None: no limit
        options           as of infer
        """
        if (target is None) == (fingerprint is None):
            raise ValueError("give exactly one of a target (a model's name or an Operator) and fingerprint")
        if version is not None and not isinstance(target, str):
            raise ValueError("version belongs to a model's name, which is absent")
        if target is not None and not isinstance(target, str):
            _check_operator(target)
            options = {**target.options, **options}
        if checkpoint_every < 0 or max_in_flight < 1:
            raise ValueError("checkpoint_every is at least 0 and max_in_flight at least 1")
        outputs = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        opening = Opening(model=target if isinstance(target, str) else None, version=version, fingerprint=fingerprint,
                          op=None if isinstance(target, str) else target, options=options, rows=rows, outputs=outputs,
                          name=name, attach=attach, max_in_flight=max_in_flight, idle_timeout=idle_timeout,
                          window_operations=window_operations, window_bytes=window_bytes, engine=engine, state_type=state_type)
        return open_session(self._hub, opening, state, checkpoint_every, timeout, self._max_message_bytes, self._tags)

    def load(self, name, op, weights=None, *, version=1, engine="", timeout=None, **options):
        """Uploads an operator with its weights (bound to it, or given here by name) under a name.

        It lives as long as the server's process. Equal content under an existing name and version is fine; other
        content raises ALREADY_EXISTS. engine and options are the defaults of calls to this model. Returns ModelInfo.
        """
        _check_operator(op)
        inline = models_pb2.InlineModel(operator=op.to_wire(), weights=op.weights_to_wire())
        inline.weights.extend(tensors.encode(key, value) for key, value in (weights or {}).items() if value is not None)
        request = models_pb2.LoadRequest(name=name, version=version, inline=inline, engine=engine,
                                         options=options_to_wire({**op.options, **options}))
        return _model_info(self._call(self._models.Load, request, self._deadline(timeout)).model)

    def load_repository(self, name, version=1, *, engine="", timeout=None, **options):
        """Loads NAME/VERSION/model.onnx of the server's repository folder. Returns ModelInfo."""
        request = models_pb2.LoadRequest(name=name, version=version, repository=True, engine=engine,
                                         options=options_to_wire(options))
        return _model_info(self._call(self._models.Load, request, self._deadline(timeout)).model)

    def unload(self, name, version=None, *, timeout=None):
        """Ends new use of a model (version absent: the highest); running calls and open sessions keep it."""
        request = models_pb2.UnloadRequest(model=_model_ref(name, version))
        self._call(self._models.Unload, request, self._deadline(timeout))

    def get(self, name=None, version=None, *, fingerprint=None, timeout=None):
        """The ModelInfo of a name (and version) or of a fingerprint."""
        if (name is None) == (fingerprint is None):
            raise ValueError("give exactly one of name and fingerprint")
        request = models_pb2.GetModelRequest()
        if name is not None:
            request.model.CopyFrom(_model_ref(name, version))
        else:
            request.fingerprint = fingerprint
        return _model_info(self._call(self._models.Get, request, self._deadline(timeout)).model)

    def models(self, *, timeout=None):
        """The ModelInfo of every model, by name and version."""
        reply = self._call(self._models.List, models_pb2.ListModelsRequest(), self._deadline(timeout))
        return [_model_info(model) for model in reply.models]

    def repository_failures(self, *, timeout=None):
        """(path, reason) of every file of the repository folder that could not be loaded."""
        reply = self._call(self._models.List, models_pb2.ListModelsRequest(), self._deadline(timeout))
        return [(failure.path, failure.reason) for failure in reply.failures]

    def health(self, service="", *, timeout=None):
        """ "SERVING" or "NOT_SERVING", of the server as a whole or of one service; an unknown one is NOT_FOUND."""
        request = health_pb2.HealthCheckRequest(service=service)
        reply = self._call(self._health.Check, request, self._deadline(timeout))
        return health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)

    def _connect(self, address, more=()):
        options = [("grpc.max_receive_message_length", self._max_message_bytes),
                   ("grpc.max_send_message_length", self._max_message_bytes), *more]
        if address.startswith(("localhost:", "127.", "[::1]:")):
            options.append(("grpc.enable_http_proxy", 0))  # http_proxy's would look for it on its own machine
        if self._credentials is None:
            return grpc.insecure_channel(address, options=options)
        return grpc.secure_channel(address, self._credentials, options=options)

    def _infer_operator(self, op, request, deadline):
        with self._mutex:
            known = self._fingerprints.get(op)
        if known is not None:
            request.fingerprint = known
            try:
                return _result(self._send(request, deadline))
            except RnnServeError as error:
                if error.code != grpc.StatusCode.NOT_FOUND or error.reason != "FINGERPRINT_EVICTED":
                    raise
            # The server dropped the weights: send them again, below.
        request.operator.CopyFrom(op.to_wire())
        request.inputs.extend(op.weights_to_wire())
        result = _result(self._send(request, deadline))
        if op.weights and result.fingerprint:
            with self._mutex:
                self._fingerprints[op] = result.fingerprint
        return result

    def _deadline(self, timeout):
        timeout = self._timeout if timeout is None else timeout
        return None if timeout is None else time.monotonic() + timeout

    def _send(self, request, deadline):
        """Infer, at the first server that takes it."""
        began = time.monotonic()
        tries = Tries(self._places.in_order(began), began)
        while True:
            place = tries.place
            try:
                reply = self._call(self._infer_at(place), request, deadline, self._addresses[place])
                self._patience.hear()
                self._places.took(place)
                return reply
            except RnnServeError as error:
                now = time.monotonic()
                self._patience.hear(error)
                if error.code != grpc.StatusCode.UNAVAILABLE:
                    raise tries.told(error, now) from None
                self._places.refused(place, error, now)
                pause = tries.failed(error, now)
                if not self._patience.seconds or now + pause >= self._patience.end(began, deadline, tries.asked_all):
                    raise tries.told(error, now) from None
            if pause:
                self._hub.pause(pause)

    def _infer_at(self, place):
        with self._mutex:
            if place not in self._lines:
                self._hub.check_open()
                channel = self._connect(self._addresses[place], _CHANNEL)
                self._lines[place] = (channel, recurrent_pb2_grpc.RecurrentStub(channel))
            return self._lines[place][1].Infer

    def _call(self, method, request, deadline, address=None):
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            raise from_rpc_error(error, address or self._address) from None


def _check_address(address):
    """The address, or ValueError for two slips that gRPC itself answers with riddles."""
    url = address.startswith(("http://", "https://"))
    if url or ":" not in address:
        raise ValueError(f"address {address!r} {'is a URL' if url else 'has no port'}; give HOST:PORT, such as "
                         "127.0.0.1:50051, or unix:PATH")
    return address


def _check_inputs(inputs):
    if inputs is None:
        return {}
    if not isinstance(inputs, collections.abc.Mapping):
        raise TypeError(f'inputs is of type {type(inputs).__name__}; give arrays by name, such as {{"X": x}}')
    return dict(inputs)


def _check_operator(op):
    if not isinstance(op, Operator):
        more = "; torch's converters give one Operator a layer, so run them in turn" if isinstance(op, list) else ""
        raise TypeError(f"op is of type {type(op).__name__}; give an Operator, such as rnnserve.lstm(W, R){more}")


def _model_ref(name, version):
    return tensor_pb2.ModelRef(name=name, version=version)


def _result(reply):
    return Result(outputs={tensor.name: tensors.decode(tensor) for tensor in reply.outputs}, engine=reply.engine,
                  fingerprint=reply.fingerprint, queue_time=reply.queue_time.ToNanoseconds() * 1e-9,
                  compute_time=reply.compute_time.ToNanoseconds() * 1e-9, largest_batch=reply.largest_batch,
                  warnings=list(reply.warnings), request_id=reply.request_id)


def _model_info(model):
    def specs(messages):
        return [TensorSpec(spec.name, tensor_pb2.DataType.Name(spec.data_type), list(spec.shape), spec.optional)
                for spec in messages]

    operator = operator_from_wire(model.operator) if model.HasField("operator") else None
    return ModelInfo(name=model.name, version=model.version, fingerprint=model.fingerprint,
                     operator=operator, inputs=specs(model.inputs),
                     outputs=specs(model.outputs), state=specs(model.state), options=options_from_wire(model.options),
                     engine=model.engine, source=model.source, weight_bytes=model.weight_bytes,
                     packed_bytes=model.packed_bytes, layers=[operator_from_wire(layer) for layer in model.layers])
