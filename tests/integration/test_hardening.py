# SPDX-License-Identifier: Apache-2.0
"""Callers that cost more than they should, one kind after the other: each is bounded, told so where the protocol has a
word for it, and everybody else is served."""

from __future__ import annotations

import contextlib
import queue
import socket
import ssl
import struct

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import wire
from half_messages import DATA, GOAWAY, HEADERS, PING, PREFACE, call_headers, frame
from server_process import Server
from session_calls import Sessions, Stream, chunk, operation
from test_admin import _metrics
from test_connections import SETTINGS, Frames, _connect
from test_security import Authority
from test_service import SECONDS, _case

ACK = 1
NO_ERROR, ENHANCE_YOUR_CALM = 0, 11  # RFC 9113, section 7
ACCEPTED = 'rnnserve_connections_total{result="accepted"}'
DISMISSED = 'rnnserve_connections_total{result="dismissed"}'


def _serves(server):
    assert server.recurrent.Infer(wire.request(_case()), timeout=SECONDS).outputs


# Reflection.

MOST_REFLECTION_STREAMS = 100


class Reflection:
    """A stream that asks when told to."""

    def __init__(self, channel):
        self._requests = queue.SimpleQueue()
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        self._call = stub.ServerReflectionInfo(iter(self._requests.get, None), timeout=SECONDS)

    def ask(self, **request):
        self._requests.put(reflection_pb2.ServerReflectionRequest(**request or {"list_services": ""}))
        return next(self._call)

    def end(self):
        self._requests.put(None)
        assert list(self._call) == []

    def cancel(self):
        self._requests.put(None)
        self._call.cancel()


def test_streams_of_reflection_are_bounded(server):
    with contextlib.ExitStack() as stack:
        def reflection():
            stream = Reflection(server.channel)
            stack.callback(stream.cancel)
            return stream

        streams = [reflection() for _ in range(MOST_REFLECTION_STREAMS)]
        for stream in streams:
            assert stream.ask().list_services_response.service
        for _ in range(30):
            failure = wire.refusal(reflection().ask)
            assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED, failure
            assert f"{MOST_REFLECTION_STREAMS} streams open" in failure.text
        _serves(server)
        assert streams[0].ask().list_services_response.service, "who is in stays in"
        streams.pop().end()
        assert reflection().ask().list_services_response.service, "room for one more"


def test_requests_of_reflection_are_bounded(server):
    """They come back as part of the answer."""
    for size in [1000, 4096, 100_000]:
        stream = Reflection(server.channel)
        try:
            assert stream.ask(file_by_filename="x" * size).error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
            assert size == 1000
        except grpc.RpcError as error:
            assert size > 1000 and error.code() == grpc.StatusCode.INVALID_ARGUMENT and "4096" in error.details()
        stream.cancel()


# Pings.


def _goaway(payload) -> tuple[int, bytes]:
    return struct.unpack(">I", payload[4:8])[0], payload[8:]


def _rest(frames) -> list[tuple[int, int, bytes]]:
    """Until the server closes the connection."""
    rest = []
    with contextlib.suppress(IndexError, ConnectionError):
        while True:
            rest.append(frames.next())
    return rest


def _call_by_hand(connection):
    """A health check, answered: the connection is gRPC's from then on."""
    connection.sendall(PREFACE + SETTINGS + frame(HEADERS, 4, 1, call_headers("/grpc.health.v1.Health/Check")) +
                       frame(DATA, 1, 1, bytes(5)))
    frames = Frames(connection)
    frames.until(HEADERS, 5)
    return frames


def test_who_pings_too_often_is_told_so(server):
    """One ping in 30 s is no offence, two more of them are forgiven, and the next one ends the connection."""
    with contextlib.closing(_connect(server)) as connection:
        frames = _call_by_hand(connection)
        for k in range(3):
            connection.sendall(frame(PING, 0, 0, b"%8d" % k))
            assert frames.until(PING, ACK) == b"%8d" % k
        connection.sendall(frame(PING, 0, 0, b"too many"))
        rest = _rest(frames)
        farewells = [_goaway(payload) for kind, _, payload in rest if kind == GOAWAY]
        assert farewells == [(ENHANCE_YOUR_CALM, b"too_many_pings")], rest
    _serves(server)


def test_calls_go_on_after_pings(server):
    """Below the limit the connection keeps serving, and each answer forgives pings."""
    with contextlib.closing(_connect(server)) as connection:
        frames = _call_by_hand(connection)
        for k in range(5):
            connection.sendall(frame(PING, 0, 0, b"%8d" % k))
            assert frames.until(PING, ACK) == b"%8d" % k
            stream = 2 * k + 3
            connection.sendall(frame(HEADERS, 4, stream, call_headers("/grpc.health.v1.Health/Check")) +
                               frame(DATA, 1, stream, bytes(5)))
            frames.until(HEADERS, 5)


# Handshakes.


def _client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def _await_end(connection):
    """Reads until the server has closed it, for as long as its timeout lets it."""
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(1 << 16):
            pass


def test_greetings_that_never_come(server, tmp_path):
    """Silent connections and halves of a greeting are closed and counted, with TLS as without; and so are handshakes that
    begin and stop, which came as far as gRPC and are counted as accepted."""
    authority = Authority(tmp_path, "authority")
    for path, content in zip((tmp_path / "crt", tmp_path / "key"), authority.sign("server", 1)):
        path.write_bytes(content)
    secure = Server(f"--tls_cert={tmp_path}/crt", f"--tls_key={tmp_path}/key")
    hello = _client_hello()
    greetings = {secure: [b"", hello[:3], hello[: len(hello) // 2]], server: [b"", PREFACE[:10], PREFACE]}
    try:
        before = {each: _metrics(each)[DISMISSED] for each in greetings}
        accepted = _metrics(secure)[ACCEPTED]
        with contextlib.ExitStack() as stack:
            def connect(to, greeting):
                connection = stack.enter_context(_connect(to))
                connection.sendall(greeting)
                return connection

            connections = [connect(each, greeting) for each in greetings for greeting in greetings[each]]
            stopped = connect(secure, hello)
            assert stopped.recv(1)[0] == 22, "the server's half of the handshake"
            _serves(server)
            for connection in [*connections, stopped]:
                _await_end(connection)
        for each in greetings:
            assert _metrics(each)[DISMISSED] - before[each] == len(greetings[each])
        assert _metrics(secure)[ACCEPTED] == accepted + 1
        with grpc.secure_channel(f"localhost:{secure.port}",
                                 grpc.ssl_channel_credentials(authority.certificate.read_bytes())) as channel:
            assert wire.recurrent_grpc.RecurrentStub(channel).Infer(wire.request(_case()), timeout=SECONDS).outputs
        _serves(server)
    finally:
        assert secure.stop() == 0


# Connections that have nothing to do, or are old.


def test_idle_connections_are_told_to_go():
    """Not those with a call or a stream on them, and callers go on over another one without a word."""
    server = Server("--max_connection_idle=1s", "--drain_timeout=1s")
    calls = Sessions(server.address)
    stream = Stream(calls)
    try:
        key = calls.open()
        stream.send(operation(key, 1, **chunk([1])))
        assert stream.receive().status.code == 0
        with contextlib.closing(_connect(server)) as connection:
            rest = _rest(_call_by_hand(connection))
            farewell, = (payload for kind, _, payload in rest if kind == GOAWAY)
            assert _goaway(farewell)[1] == b"enter idle", rest
        stream.send(operation(key, 2, **chunk([2])), operation(key, 3, close={}))
        assert [reply.status.code for reply in stream.receive_many(2)] == [0, 0]
        assert stream.end() == []
        _serves(server)
    finally:
        stream.cancel()
        calls.close()
        assert server.stop() == 0


def test_old_connections_are_told_to_go():
    """Though they are busy; a call that is on one ends as it would anyway, here by its deadline, and is not cut off."""
    server = Server("--max_connection_age=1s", "--max_call_duration=2s")
    try:
        endless = wire.request(_case(steps=20000, rows=64, hidden=128), engine="reference", outputs=["Y_h"])
        late = server.recurrent.Infer.future(endless)
        with contextlib.closing(_connect(server)) as connection:
            frames = _call_by_hand(connection)
            connection.sendall(frame(HEADERS, 4, 3, call_headers("/grpc.health.v1.Health/Check")))
            assert _goaway(frames.until(GOAWAY, 0)) == (NO_ERROR, b"")
            connection.sendall(frame(DATA, 1, 3, bytes(5)))
            frames.until(HEADERS, 5)
            _rest(frames)
        assert late.exception(timeout=SECONDS).code() == grpc.StatusCode.DEADLINE_EXCEEDED
        _serves(server)
    finally:
        assert server.stop() == 0
