# SPDX-License-Identifier: Apache-2.0
"""What a client does, however it waits: Client blocks threads, aio.Client is awaited."""

from __future__ import annotations

import collections.abc
import io
import itertools
import json
import math
import os
import pathlib
import tempfile
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, Literal, TypeVar, cast, get_args

import grpc
import numpy.typing as npt
from grpc_health.v1 import health_pb2

from rnnserve import methods, results, tensors
from rnnserve.backends import Backend, Channel, ChannelClosed, ChannelOptions, Metadata
from rnnserve.errors import RnnServeError, from_rpc_error
from rnnserve.lookup import Lookup
from rnnserve.methods import Method, ReplyT, RequestT
from rnnserve.operators import Operator, Options, options_to_wire
from rnnserve.results import ModelInfo, Result, SessionInfo
from rnnserve.servers import Servers
from rnnserve.sessions.core import SessionCore, open_session
from rnnserve.sessions.driver import Driver
from rnnserve.sessions.wire import Opening
from rnnserve.transfer import Progress, Receiving, Sending, only, shown
from rnnserve.tries import Patience, Tries
from rnnserve.v1 import models_pb2, recurrent_pb2, sessions_pb2, tensor_pb2

Inputs = Mapping[str, npt.ArrayLike | None]
Token = str | Callable[[], str]
SessionT = TypeVar("SessionT", bound=SessionCore)
LoadBalancing = Literal["spread", "pick_first"]



def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# A server that is back is noticed within a second, a route that is dead after five.
_CHANNEL = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 5000),
            ("grpc.max_reconnect_backoff_ms", 1000)]
# gRPC watches the server's health (grpc.health.v1) over the channel and fails calls at once while it is NOT_SERVING.
_WATCHED = [*_CHANNEL, ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}],
                                                            "healthCheckConfig": {"serviceName": ""}}))]
# A connection of its own, also to a name that leads elsewhere by now. A dead one is noticed 5 s after something was sent
# (gRPC sets TCP_USER_TIMEOUT from it), within a minute where it is idle (the server allows a ping every 30 s), and sought
# again at once.
_SESSION_CHANNEL = [("grpc.use_local_subchannel_pool", 1), ("grpc.keepalive_time_ms", 40_000),
                    ("grpc.keepalive_timeout_ms", 5_000), ("grpc.http2.ping_timeout_ms", 5_000),  # which, depends on gRPC
                    ("grpc.http2.max_pings_without_data", 0),
                    ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 1000),
                    ("grpc.max_reconnect_backoff_ms", 1000)]


class ClientCore:
    """Every coroutine raises RnnServeError. See Client for what the arguments mean."""

    def __init__(self, backend: Backend, address: str | Iterable[str], max_message_bytes: int,
                 credentials: grpc.ChannelCredentials | None, timeout: float | None, others: Iterable[str],
                 patience: float, token: Token | None, metadata: Metadata, options: ChannelOptions,
                 load_balancing: LoadBalancing) -> None:
        if load_balancing not in get_args(LoadBalancing):
            raise ValueError(f"load_balancing is {load_balancing!r}; expected one of {get_args(LoadBalancing)}")
        self._backend = backend
        self._addresses = addresses_in(address, others)
        self._max_message_bytes = max_message_bytes
        self._credentials = credentials
        self._token = token
        self._always = check_metadata(metadata)
        self._options = list(options)
        self._timeout = timeout
        self._patience = Patience(patience)
        self._servers = Servers(self._addresses, pick_first=load_balancing == "pick_first")
        self._lookup = Lookup(self._addresses, self._servers, backend.resolve, backend.start, self._drop)
        self._driver = Driver(backend, lambda server: self._connect(server, _SESSION_CHANNEL), self._servers, self._lookup,
                              self._patience, self._metadata)
        self._tags = map(str, itertools.count(1))
        self._mutex = threading.Lock()
        # Guarded by the mutex: fingerprints of operators whose weights a server has seen, and the channels that calls have
        # needed so far, by address and whether health is watched.
        self._fingerprints: weakref.WeakKeyDictionary[Operator, str] = weakref.WeakKeyDictionary()
        self._channels: dict[tuple[str, bool], Channel] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__module__.removesuffix('.client')}.Client of {', '.join(self._addresses)}>"

    def _close(self) -> None:
        self._driver.close()
        with self._mutex:
            channels = list(self._channels.values())
        for channel in channels:
            channel.close()

    async def _infer(self, op: Operator | str | None, inputs: Inputs | None, model: str | None, version: int | None,
                     fingerprint: str | None, outputs: str | Iterable[str], engine: str, priority: int, request_id: str,
                     timeout: float | None, options: Options) -> Result:
        if sum(target is not None for target in (op, model, fingerprint)) != 1:
            raise ValueError("give exactly one of op, model and fingerprint")
        if isinstance(op, str):
            op, model = None, op
        if version is not None and model is None:
            raise ValueError("version belongs to model, which is absent")
        inputs = _check_inputs(inputs)
        if op is not None:
            _check_operator(op)
            options = merged(op.options, options)
            twice = sorted(set(inputs) & set(op.weights))
            if twice:
                raise ValueError(f"{', '.join(twice)} is bound to the operator and given among the inputs too")
        request = recurrent_pb2.InferRequest(
            request_id=request_id, outputs=[outputs] if isinstance(outputs, str) else outputs,
            options=options_to_wire(options), engine=engine, priority=priority,
            inputs=[tensors.encode(name, value) for name, value in inputs.items() if value is not None])
        deadline = self._deadline(timeout)
        if op is not None:
            return await self._infer_operator(op, request, deadline)
        if model is not None:
            request.model.CopyFrom(model_ref(model, version))
        elif fingerprint is not None:
            request.fingerprint = fingerprint
        return results.result(await self._send(request, deadline))

    async def _infer_operator(self, op: Operator, request: recurrent_pb2.InferRequest, deadline: float | None) -> Result:
        with self._mutex:
            known = self._fingerprints.get(op)

        def with_weights() -> None:
            request.operator.CopyFrom(op.to_wire())
            request.inputs.extend(op.weights_to_wire())

        if known is not None:
            request.fingerprint = known
        else:
            with_weights()
        result = results.result(await self._send(request, deadline, with_weights))
        if op.weights and result.fingerprint:
            with self._mutex:
                self._fingerprints[op] = result.fingerprint
        return result

    async def _open_session(self, kind: type[SessionT], target: str | Operator | None, version: int | None,
                            fingerprint: str | None, state: Mapping[str, npt.ArrayLike] | None, rows: int | None,
                            outputs: str | Iterable[str], name: str, attach: bool, must_exist: bool, checkpoint_every: int,
                            max_in_flight: int, idle_timeout: float | None, window_operations: int | None,
                            window_bytes: int | None, engine: str, state_type: str | None, durability: str | None,
                            timeout: float | None,
                            options: Options) -> SessionT:
        if (target is None) == (fingerprint is None):
            raise ValueError("give exactly one of a target (a model's name or an Operator) and fingerprint")
        if version is not None and not isinstance(target, str):
            raise ValueError("version belongs to a model's name, which is absent")
        op = None
        if target is not None and not isinstance(target, str):
            op = _check_operator(target)
            options = merged(op.options, options)
        if durability not in (None, "local", "interval", "sync"):
            raise ValueError(f"durability is {durability!r}; expected local, interval or sync")
        if checkpoint_every < 0 or max_in_flight < 1:
            raise ValueError("checkpoint_every is at least 0 and max_in_flight at least 1")
        opening = Opening(model=target if isinstance(target, str) else None, version=version, fingerprint=fingerprint,
                          op=op, options=options, rows=rows,
                          outputs=(outputs,) if isinstance(outputs, str) else tuple(outputs),
                          name=name, attach=attach, must_exist=must_exist, max_in_flight=max_in_flight,
                          idle_timeout=idle_timeout, window_operations=window_operations, window_bytes=window_bytes,
                          engine=engine, state_type=state_type, durability=durability)
        return await open_session(kind, self._driver, opening, state, checkpoint_every, timeout, self._max_message_bytes,
                                  self._tags)

    async def _load(self, name: str, model: Operator | Sequence[Operator] | bytes | os.PathLike[str],
                    weights: Inputs | None, version: int | None, engine: str, progress: bool | Progress,
                    timeout: float | None, options: Options) -> ModelInfo:
        if weights is not None and not isinstance(model, Operator):
            raise ValueError("weights belong to one Operator; those of a file or of several operators are theirs")
        if isinstance(model, (bytes, os.PathLike)):
            begin = models_pb2.UploadRequest.Begin(name=name, version=version, engine=engine,
                                                   options=options_to_wire(options))
            with io.BytesIO(model) if isinstance(model, bytes) else open(model, "rb") as file:
                return await self._upload(begin, file, progress, timeout)
        request = models_pb2.LoadRequest(name=name, version=version, engine=engine)
        if isinstance(model, Operator):
            request.inline.CopyFrom(_inline(model))
            request.inline.weights.extend(tensors.encode(key, value) for key, value in (weights or {}).items()
                                          if value is not None)
            options = merged(model.options, options)
        else:
            layers = _check_layers(model)
            request.stack.layers.extend(map(_inline, layers))
            options = merged(layers[0].options, options)
        request.options.CopyFrom(options_to_wire(options))
        return results.model_info((await self._manage(methods.LOAD, request, timeout)).model)

    async def _upload(self, begin: models_pb2.UploadRequest.Begin, file: BinaryIO, progress: bool | Progress,
                      timeout: float | None) -> ModelInfo:
        begin.file_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        with shown("sent", progress) as show:
            sending = Sending(begin, file, show)
            try:
                await self._exchange(methods.UPLOAD, sending.messages(), timeout, sending.take)
            except RnnServeError:
                if sending.failure is None:
                    raise
        if sending.failure is not None:
            raise sending.failure
        return results.model_info(sending.whole())

    async def _save(self, name: str, path: str | os.PathLike[str], version: int | None, progress: bool | Progress,
                    timeout: float | None) -> ModelInfo:
        request = models_pb2.DownloadRequest(model=model_ref(name, version))
        target = pathlib.Path(path).resolve()
        if target.exists() and not target.is_file():
            raise ValueError(f"{os.fspath(path)} is there and no regular file")
        opened, name_beside = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.")
        part = pathlib.Path(name_beside)
        try:
            part.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
            with open(opened, "wb") as file, shown("got", progress) as show:
                receiving = Receiving(file, show)
                await self._exchange(methods.DOWNLOAD, only(request), timeout, receiving.take)
                info = results.model_info(receiving.whole())
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return info

    async def _load_repository(self, name: str, version: int, engine: str, timeout: float | None,
                               options: Options) -> ModelInfo:
        request = models_pb2.LoadRequest(name=name, version=version, repository=True, engine=engine,
                                         options=options_to_wire(options))
        return results.model_info((await self._manage(methods.LOAD, request, timeout)).model)

    async def _unload(self, name: str, version: int | None, timeout: float | None) -> None:
        await self._manage(methods.UNLOAD, models_pb2.UnloadRequest(model=model_ref(name, version)), timeout)

    async def _get(self, name: str | None, version: int | None, fingerprint: str | None,
                   timeout: float | None) -> ModelInfo:
        if (name is None) == (fingerprint is None):
            raise ValueError("give exactly one of name and fingerprint")
        request = models_pb2.GetModelRequest(fingerprint=fingerprint)
        if name is not None:
            request.model.CopyFrom(model_ref(name, version))
        return results.model_info((await self._manage(methods.GET_MODEL, request, timeout)).model)

    async def _list_models(self, timeout: float | None) -> models_pb2.ListModelsResponse:
        return await self._manage(methods.LIST_MODELS, models_pb2.ListModelsRequest(), timeout)

    async def _list_sessions(self, page_size: int | None, page_token: str,
                             timeout: float | None) -> tuple[list[SessionInfo], str]:
        """A page, and the token of the next one; "" after the last."""
        request = sessions_pb2.ListSessionsRequest(page_size=page_size, page_token=page_token)
        reply = await self._manage(methods.LIST_SESSIONS, request, timeout)
        return [results.session_info(info) for info in reply.sessions], reply.next_page_token

    async def _check_health(self, service: str, timeout: float | None) -> str:
        reply = await self._manage(methods.CHECK_HEALTH, health_pb2.HealthCheckRequest(service=service), timeout)
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status))

    async def _manage(self, method: Method[RequestT, ReplyT], request: RequestT, timeout: float | None) -> ReplyT:
        """A call to the first server, sent once."""
        return await self._call(self._addresses[0], False, method, request, self._deadline(timeout))

    async def _send(self, request: recurrent_pb2.InferRequest, deadline: float | None,
                    with_weights: Callable[[], None] | None = None) -> recurrent_pb2.InferResponse:
        """Infer, at the first server that takes it. with_weights() makes the request one that needs nothing on the server:
        called where the server does not have the fingerprint, before the same server is asked again."""
        await self._lookup.fresh()
        began = time.monotonic()
        with self._mutex:  # between the choice and its entry no other call chooses
            tries = Tries(self._servers.for_call(began), began)
            self._servers.began(tries.server)
        while True:
            server = tries.server
            try:
                reply = await self._call(server, len(self._servers.addresses) > 1, methods.INFER, request, deadline)
                self._patience.note()
                self._servers.took(server)
                return reply
            except RnnServeError as error:
                now = time.monotonic()
                self._patience.note(error)
                if error.reason == "FINGERPRINT_EVICTED" and with_weights is not None:
                    with_weights()
                    with_weights = None
                    self._servers.began(server)
                    continue
                if error.code != grpc.StatusCode.UNAVAILABLE:
                    raise tries.final_error(error, now) from None
                self._servers.refused(server, error, now)
                self._lookup.doubt()
                pause = tries.failed(error, now)
                end = self._patience.end(began, deadline, tries.asked_all)
                if not self._patience.seconds:  # each is asked once
                    end = now if tries.asked_all else math.inf if deadline is None else deadline
                if now + pause >= end:
                    raise tries.final_error(error, now) from None
            finally:
                if self._servers.ended(server):
                    self._drop(server)
            if pause:
                await self._driver.pause(pause)
            self._servers.began(tries.server)

    async def _call(self, server: str, watched: bool, method: Method[RequestT, ReplyT], request: RequestT,
                    deadline: float | None) -> ReplyT:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            return await self._channel_to(server, watched).unary(method, request, timeout, self._metadata())
        except grpc.RpcError as error:
            raise from_rpc_error(error, server) from None
        except ChannelClosed:
            raise RnnServeError(grpc.StatusCode.CANCELLED, "the client was closed") from None

    async def _exchange(self, method: Method[RequestT, ReplyT], requests: AsyncGenerator[RequestT, None],
                        timeout: float | None, take: Callable[[ReplyT], None]) -> None:
        """A stream with the first server, whose replies take() gets."""
        await self._exchange_over(lambda: self._channel_to(self._addresses[0], False), method, requests, timeout, take)

    async def _exchange_over(self, channel: Callable[[], Channel], method: Method[RequestT, ReplyT],
                             requests: AsyncGenerator[RequestT, None], timeout: float | None,
                             take: Callable[[ReplyT], None]) -> None:
        server = self._addresses[0]
        timeout = self._timeout if timeout is None else timeout
        try:
            call = channel().stream(method, requests, self._metadata(), timeout)
            try:
                while (reply := await call.receive()) is not None:
                    take(reply)
            finally:
                call.cancel()
        except grpc.RpcError as error:
            raise from_rpc_error(error, server) from None
        except ChannelClosed:
            raise RnnServeError(grpc.StatusCode.CANCELLED, "the client was closed") from None

    def _channel_to(self, server: str, watched: bool) -> Channel:
        with self._mutex:
            self._driver.check_open()
            key = (server, watched)
            if key not in self._channels:
                self._channels[key] = self._connect(server, _WATCHED if watched else _CHANNEL)
            return self._channels[key]

    def _own_channel(self, backend: Backend) -> Channel:
        """To the first server; the caller closes it."""
        self._driver.check_open()
        return self._connect(self._addresses[0], _CHANNEL, backend)

    def _drop(self, server: str) -> None:
        """It is not among the client's servers any more."""
        with self._mutex:
            channel = self._channels.pop((server, True), None)
        if channel is not None:
            channel.close()

    def _connect(self, address: str, more: ChannelOptions, backend: Backend | None = None) -> Channel:
        options: dict[str, Any] = {"grpc.max_receive_message_length": self._max_message_bytes,
                                   "grpc.max_send_message_length": self._max_message_bytes, **dict(more)}
        if address.startswith(("localhost:", "127.", "[::1]:")):
            options["grpc.enable_http_proxy"] = 0  # http_proxy's would look for it on its own machine
        if address in self._lookup.names:  # what its certificate and proxies know it by
            options["grpc.default_authority"] = self._lookup.names[address]
        options.update(self._options)
        return (backend or self._backend).connect(address, self._credentials, list(options.items()))

    def _metadata(self) -> Metadata:
        """Of a call that begins now. Where the function gives no token, it is asked again with the next try."""
        if self._token is None:
            return self._always
        try:
            token = self._token if isinstance(self._token, str) else self._token()
        except Exception as error:
            raise RnnServeError(grpc.StatusCode.UNAVAILABLE, f"the token function raised {error!r}") from error
        return (*self._always, ("authorization", f"Bearer {token.strip()}"))

    def _deadline(self, timeout: float | None) -> float | None:
        timeout = self._timeout if timeout is None else timeout
        return None if timeout is None else time.monotonic() + timeout


def merged(first: Options, second: Options) -> Options:
    """What the second says, else the first."""
    options = first.copy()
    options.update(second)
    return options


def addresses_in(address: str | Iterable[str], others: Iterable[str] = ()) -> list[str]:
    """Each once: of "a:1,b:2", or of a list of such texts."""
    texts = [address] if isinstance(address, str) else [*address]
    found = [part.strip() for text in (*texts, *others) for part in text.split(",")]
    if not found:
        raise ValueError("no address is given; give HOST:PORT, such as 127.0.0.1:50051")
    return list(dict.fromkeys(map(check_address, found)))


def check_address(address: str) -> str:
    """The address, or ValueError for two slips that gRPC itself answers with riddles."""
    url = address.startswith(("http://", "https://"))
    if url or ":" not in address:
        raise ValueError(f"address {address!r} {'is a URL' if url else 'has no port'}; give HOST:PORT, such as "
                         "127.0.0.1:50051, or unix:PATH")
    return address


def check_metadata(metadata: Metadata) -> Metadata:
    """The pairs, or ValueError for what HTTP/2 does not carry."""
    for key, value in metadata:
        if key != key.lower() or not key.isascii() or not key:
            raise ValueError(f"metadata key {key!r}: keys are lower-case ASCII, such as {key.lower() or 'x-tenant'!r}")
        if isinstance(value, bytes) != key.endswith("-bin"):
            raise ValueError(f"metadata {key!r} has a value of type {type(value).__name__}; keys that end in -bin have "
                             "bytes, all others str")
    return tuple(metadata)


def model_ref(name: str, version: int | None) -> tensor_pb2.ModelRef:
    return tensor_pb2.ModelRef(name=name, version=version)


def _check_inputs(inputs: object) -> dict[str, npt.ArrayLike | None]:
    if inputs is None:
        return {}
    if not isinstance(inputs, collections.abc.Mapping):
        raise TypeError(f'inputs is of type {type(inputs).__name__}; give arrays by name, such as {{"X": x}}')
    return dict(cast("Inputs", inputs))


def _check_operator(op: object) -> Operator:
    if not isinstance(op, Operator):
        name = op.__class__.__name__
        more = "; torch's converters give one Operator a layer: client.load(name, operators) makes them one model" \
            if name == "list" else ""
        raise TypeError(f"op is of type {name}; give a model's name, or an Operator such as rnnserve.lstm(W, R){more}")
    return op


def _check_layers(model: object) -> Sequence[Operator]:
    name = model.__class__.__name__
    layers: Sequence[object] = ()
    if isinstance(model, collections.abc.Sequence) and not isinstance(model, str):
        layers = cast("Sequence[object]", model)
    if not layers or not all(isinstance(layer, Operator) for layer in layers):
        what = f"of type {name}" if name != "list" else "an empty list, or holds other things"
        raise TypeError(f"model is {what}; give an Operator, a list of them (layer by layer, as torch_lstm gives), or "
                        "an ONNX file, as pathlib.Path or bytes")
    checked = cast("Sequence[Operator]", layers)
    if any(layer.options != checked[0].options for layer in checked):
        raise ValueError("the layers have different options, but a model has one set: give them to load")
    return checked


def _inline(op: Operator) -> models_pb2.InlineModel:
    return models_pb2.InlineModel(operator=op.to_wire(), weights=op.weights_to_wire())
