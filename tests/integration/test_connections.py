# SPDX-License-Identifier: Apache-2.0
"""Connections that are no gRPC, half of one, or never say anything: the server goes on answering everybody else."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import subprocess

import grpc
import numpy as np
import pytest

import half_messages
import random_operators
import session_calls
import wire
from half_messages import PREFACE, frame
from operators import Case
from server_process import BINARY, Server, run_to_end
from test_admin import _metrics

SECONDS = 60


def _request():
    rng = np.random.default_rng(1)
    tensors = random_operators.tensors(rng, "GRU", 4, 2, 3, 5, 1, bias=True, peephole=False, lengths=False,
                                       initial_h=False, initial_c=False)
    return wire.request(Case("GRU", tensors, {}, version=14), engine="cpu")


SETTINGS = frame(4, 0, 0, b"")
GARBAGE = {
    "random bytes": np.random.default_rng(1).bytes(65536),
    "zeros": bytes(65536),
    "HTTP/1.1": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "half a preface": PREFACE[:10],
    "a preface alone": PREFACE,
    "a preface and random bytes": PREFACE + np.random.default_rng(2).bytes(65536),
    "a frame of 16 MiB announced": PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(1000),
    "headers that are no HPACK": PREFACE + SETTINGS + frame(1, 4, 1, b"\xff" * 100),
    "headers without end": PREFACE + SETTINGS + frame(1, 0, 1, b"\x82") + frame(9, 0, 1, b"\x82" * 16000) * 50,
    "data on a stream never opened": PREFACE + SETTINGS + frame(0, 1, 7, b"x" * 100),
    "a settings frame of odd size": PREFACE + frame(4, 0, 0, b"x" * 7),
    "ten thousand pings": PREFACE + SETTINGS + frame(6, 0, 0, b"12345678") * 10000,
    "ten thousand resets": PREFACE + SETTINGS + b"".join(frame(3, 0, 2 * k + 1, b"\0\0\0\x08") for k in range(10000)),
    "ten thousand settings": PREFACE + SETTINGS * 10000,
    "a window of zero": PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, 0)) + frame(8, 0, 0, b"\0\0\0\0"),
}


def _connect(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS)


def _leave(connection):
    """Once the server has let go of it, and has taken note of all that came."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
    connection.close()


def _fresh_infer(server, request):
    """Over a connection of its own, so that the server has to accept one."""
    channel = wire.channel(server.address)
    with contextlib.closing(channel):
        return wire.recurrent_grpc.RecurrentStub(channel).Infer(request, timeout=SECONDS)


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage(server, what):
    request = _request()
    first = server.recurrent.Infer(request).outputs
    held = []
    for _ in range(5):
        connection = _connect(server)
        with contextlib.suppress(OSError):  # the server may hang up at any point of it
            connection.sendall(GARBAGE[what])
        held.append(connection)
    assert _fresh_infer(server, request).outputs == first
    assert server.recurrent.Infer(request, timeout=SECONDS).outputs == first
    for connection in held:
        _leave(connection)
    assert server.recurrent.Infer(request, timeout=SECONDS).outputs == first


CALL = b"\x83\x86\x44\x1c/rnnserve.v1.Recurrent/Infer\x41\x01a\x40\x0ccontent-type\x10application/grpc\x40\x02te\x08trailers"
FLOODS = {  # what is sent first, and then again and again
    "streams, the server's settings never acknowledged": lambda k: frame(1, 4, 2 * k + 1, CALL),
    "streams reset at once": lambda k: frame(1, 4, 2 * k + 1, CALL) + frame(3, 0, 2 * k + 1, b"\0\0\0\x08"),
    "headers without end": lambda k: frame(9, 0, 1, b"\0\2aa\2bb" * 2300) if k else frame(1, 0, 1, CALL),
    "headers in empty pieces": lambda k: frame(9, 0, 1, b"") if k else frame(1, 0, 1, CALL),
    "one header without end": lambda k: frame(9, 0, 1, bytes(16384)) if k else
                                        frame(1, 0, 1, CALL + b"\0\1a\x7f\x81\xff\xff\xff\x03"),
    "settings": lambda k: frame(4, 0, 0, b""),
    "priorities": lambda k: frame(2, 0, 1, b"\0\0\0\0\1"),
    "frames of no known type": lambda k: frame(77, 0, 0, b""),
}


def flood(connection, what, most=1_000_000):
    """Whether the server hangs up before so many pieces have been sent."""
    with contextlib.suppress(OSError):
        connection.sendall(PREFACE + SETTINGS)
        for begin in range(0, most, 100):
            connection.sendall(b"".join(FLOODS[what](k) for k in range(begin, begin + 100)))
        return False
    return True


@pytest.mark.parametrize("what", FLOODS)
def test_floods_of_frames(server, what):
    request = _request()
    first = server.recurrent.Infer(request).outputs
    hung_up_on = _metrics(server)["rnnserve_abusive_connections_total"]
    with contextlib.closing(_connect(server)) as connection:
        assert flood(connection, what)
    assert _metrics(server)["rnnserve_abusive_connections_total"] == hung_up_on + 1
    assert server.recurrent.Infer(request, timeout=SECONDS).outputs == first
    assert server.resident_kib() < 500_000


def test_floods_are_told_with_their_peer():
    server = Server()
    try:
        with contextlib.closing(_connect(server)) as connection:
            peer = "ipv4:{}:{}".format(*connection.getsockname())
            assert flood(connection, "settings")
        assert re.search(rf"closed an abusive connection: too many settings peer={re.escape(peer)}$", server.log(), re.MULTILINE)
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize("function", [b"recvmsg", b"SSL_read"])
def test_a_server_that_cannot_guard_its_reads_says_so(server, tmp_path, function):
    """Its name for the function is misspelt, so gRPC's library finds the usual one. Misspelt at its begin: the linker lets
    "read" be the end of "SSL_read"."""
    assert "frames are not closed" not in server.log()
    misspelt = tmp_path / "rnnserve"
    misspelt.write_bytes(BINARY.read_bytes().replace(b"\0" + function + b"\0", b"\0_" + function[1:] + b"\0", 1))
    misspelt.chmod(0o755)
    flags = []
    if function == b"SSL_read":
        flags = [f"--tls_cert={tmp_path}/crt", f"--tls_key={tmp_path}/key"]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-subj", "/CN=x", "-keyout", tmp_path / "key", "-out", tmp_path / "crt"], check=True,
                       capture_output=True, timeout=SECONDS)
    unguarded = Server(*flags, binary=misspelt)
    log = unguarded.log()
    assert unguarded.stop() == 0
    assert log.count("frames are not closed: libraries find another " + function.decode()) == 1


class Frames:
    """Of what the server sends, one after the other."""

    def __init__(self, connection):
        self.reader = connection.makefile("rb")

    def next(self):
        """Kind, flags and payload."""
        head = self.reader.read(9)
        return head[3], head[4], self.reader.read(int.from_bytes(head[:3], "big"))

    def until(self, kind, flags):
        while (found := self.next())[:2] != (kind, flags):
            pass
        return found[2]


WINDOW, LARGEST_FRAME = 4, 5  # of a settings frame
MIB, GIB = 1 << 20, 1 << 30


def _settings(payload):
    return dict(struct.iter_unpack(">HI", payload))


@pytest.mark.parametrize("memory_limit, is_ample", [(4 * GIB, False), (8 * GIB, True)], ids=["little", "much"])
def test_a_greeting_is_answered_before_grpc_has_the_connection(memory_limit, is_ample):
    """By the frame that gRPC begins with too. Where memory is ample, gRPC's allows more bytes unread, of a call and of
    the connection, in larger frames, and nothing else."""
    server = Server(f"--memory_limit={memory_limit}")
    try:
        with contextlib.closing(_connect(server)) as connection:
            connection.sendall(PREFACE + SETTINGS)
            frames = Frames(connection)
            kind, flags, first = frames.next()
            assert (kind, flags) == (4, 0)
            greeting, own = _settings(first), _settings(frames.until(4, 0))
            assert greeting[WINDOW] == 65535
            if is_ample:
                assert own[WINDOW] >= MIB and 65535 + int.from_bytes(frames.until(8, 0), "big") >= MIB
                for setting in (WINDOW, LARGEST_FRAME):
                    greeting.pop(setting, None)
                    own.pop(setting, None)
            assert greeting == own
    finally:
        server.stop()


def test_acknowledging_what_came_before_grpc_lifts_no_limit():
    server = Server()
    try:
        with contextlib.closing(_connect(server)) as connection:
            connection.sendall(PREFACE + SETTINGS)
            assert Frames(connection).next()[:2] == (4, 0)
            connection.sendall(frame(4, 1, 0, b"") * 2)  # gRPC does not see the first one
            with pytest.raises(OSError):
                for k in range(1_000_000):
                    connection.sendall(frame(1, 4, 2 * k + 1, CALL))
        assert server.recurrent.Infer(_request(), timeout=SECONDS).outputs
        assert server.resident_kib() < 500_000
    finally:
        assert server.stop() == 0


def test_callers_that_begin_with_many_streams(server):
    """As soon as they have been answered, and before gRPC has said a word."""
    for _ in range(30):
        with contextlib.closing(_connect(server)) as connection:
            connection.sendall(PREFACE + SETTINGS)
            frames = Frames(connection)
            assert frames.next()[:2] == (4, 0)
            connection.sendall(frame(4, 1, 0, b"") + b"".join(
                frame(1, 5, 2 * k + 1, half_messages.call_headers("/no/such")) for k in range(500)))
            for _ in range(500):
                frames.until(1, 5)


def test_who_pings_before_it_calls_is_answered(server):
    with contextlib.ExitStack() as stack:
        pinging = [stack.enter_context(contextlib.closing(_connect(server))) for _ in range(20)]
        for connection in pinging:
            connection.sendall(PREFACE + SETTINGS)
            assert Frames(connection).next()[:2] == (4, 0)
        for k, connection in enumerate(pinging):
            connection.sendall(frame(6, 0, 0, b"ping %3d" % k))
        for k, connection in enumerate(pinging):
            assert Frames(connection).until(6, 1) == b"ping %3d" % k


def test_callers_that_connect_long_before_they_call(server):
    before = _metrics(server)
    with contextlib.ExitStack() as stack:
        channels = [stack.enter_context(wire.channel(server.address)) for _ in range(100)]
        for ready in [grpc.channel_ready_future(channel) for channel in channels]:
            ready.result(timeout=SECONDS)
        request = _request()
        first = server.recurrent.Infer(request, timeout=SECONDS).outputs
        for channel in channels:
            assert wire.recurrent_grpc.RecurrentStub(channel).Infer(request, timeout=SECONDS).outputs == first
    for result in ("refused", "dismissed"):
        name = f'rnnserve_connections_total{{result="{result}"}}'
        assert _metrics(server)[name] == before[name]


def test_many_idle_connections(server):
    request = _request()
    first = server.recurrent.Infer(request).outputs
    with contextlib.ExitStack() as stack:
        for k in range(400):
            connection = stack.enter_context(_connect(server))
            if k % 2:
                connection.sendall(PREFACE + SETTINGS)
        assert _fresh_infer(server, request).outputs == first
    assert _fresh_infer(server, request).outputs == first


def test_connections_that_are_reset(server):
    request = _request()
    first = server.recurrent.Infer(request).outputs
    for _ in range(200):
        connection = _connect(server)
        connection.sendall(PREFACE + SETTINGS)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # sends RST
    assert _fresh_infer(server, request).outputs == first


def test_many_health_watchers_leave_room_for_others(server):
    """Health runs on gRPC's own few threads: watchers must not use them up."""
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    stub = health_pb2_grpc.HealthStub(server.channel)
    watches = [stub.Watch(health_pb2.HealthCheckRequest(service=""), timeout=SECONDS) for _ in range(100)]
    for watch in watches:
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    assert stub.Check(health_pb2.HealthCheckRequest(service=""), timeout=SECONDS).status
    assert server.recurrent.Infer(_request(), timeout=SECONDS).outputs
    for watch in watches:
        watch.cancel()


def test_one_connection_cannot_have_all_health_watches(server):
    """A balancer that is refused its Watch takes the server for a broken one."""
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    request = health_pb2.HealthCheckRequest(service="")
    stub = health_pb2_grpc.HealthStub(server.channel)
    greedy = [stub.Watch(request, timeout=SECONDS) for _ in range(1000)]
    with contextlib.closing(wire.channel(server.address)) as channel:
        assert wire.refusal(next, greedy[-1]).code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert next(health_pb2_grpc.HealthStub(channel).Watch(request, timeout=SECONDS)).status == 1
    for watch in greedy:
        watch.cancel()


def test_stopping_with_open_connections():
    server = Server()
    with contextlib.ExitStack() as stack:
        for k in range(50):
            connection = stack.enter_context(_connect(server))
            connection.sendall((PREFACE + SETTINGS)[: 10 * (k % 5)])
        assert server.recurrent.Infer(_request()).outputs
        assert server.stop() == 0


def test_a_message_above_the_transports_limit():
    """gRPC answers by itself, and the connection goes on."""
    server = Server("--max_message_bytes=100000")
    try:
        first = server.recurrent.Infer(_request()).outputs
        big = _request()
        big.inputs[0].raw += bytes(100000)
        for _ in range(20):
            failure = wire.refusal(server.recurrent.Infer, big, timeout=SECONDS)
            assert failure.code == grpc.StatusCode.RESOURCE_EXHAUSTED and not failure.fields
        assert server.recurrent.Infer(_request(), timeout=SECONDS).outputs == first
    finally:
        assert server.stop() == 0


def test_messages_that_never_end():
    """What callers send of messages that they do not finish is bounded, all connections together."""
    quota = 32 << 20
    server = Server(f"--memory_limit={8 * quota}")
    attackers = []
    try:
        first = server.recurrent.Infer(_request()).outputs
        before = server.resident_kib()
        for _ in range(4):
            attackers.append(half_messages.HalfMessages(server.port, "/rnnserve.v1.Recurrent/Infer", 10, 16 << 20))
        half_messages.pump_until_done(attackers, SECONDS)
        assert (server.resident_kib() - before) * 1024 < 4 * quota, "640 MiB were sent"
        assert any(attacker.given_up for attacker in attackers)
        for attacker in attackers:
            attacker.close()
        assert _fresh_infer(server, _request()).outputs == first
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize("kind", ["silent", "greeting", "slow headers", "never reading"])
def test_ten_times_as_many_connections_as_descriptors(kind):
    """Whoever only holds connections loses them to those who call."""
    descriptors = 256
    server = Server(descriptors=descriptors)
    greetings = {"silent": b"", "greeting": PREFACE + SETTINGS, "slow headers": PREFACE + SETTINGS + frame(1, 0, 1, b"\x82"),
                 "never reading": PREFACE + SETTINGS + frame(6, 0, 0, b"12345678") * 2}
    request = _request()
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        first = server.recurrent.Infer(request, timeout=SECONDS).outputs
        for _ in range(10 * descriptors):
            connection = stack.enter_context(_connect(server))
            with contextlib.suppress(OSError):  # refused ones
                connection.sendall(greetings[kind])
        assert server.recurrent.Infer(request, timeout=SECONDS).outputs == first, "whoever calls keeps its connection"
        channel = stack.enter_context(wire.channel(server.address))
        stub = wire.recurrent_grpc.RecurrentStub(channel)
        assert stub.Infer(request, timeout=SECONDS, wait_for_ready=True).outputs == first, "they are all still there"
    assert server.process.returncode == 0


def test_the_limit_of_connections():
    server = Server("--max_connections=3")
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        first = server.recurrent.Infer(_request(), timeout=SECONDS).outputs
        stubs = []
        for _ in range(2):
            channel = stack.enter_context(wire.channel(server.address))
            stubs.append(wire.recurrent_grpc.RecurrentStub(channel))
            assert stubs[-1].Infer(_request(), timeout=SECONDS).outputs == first
        channel = stack.enter_context(wire.channel(server.address))
        assert wire.refusal(wire.recurrent_grpc.RecurrentStub(channel).Infer, _request(),
                            timeout=SECONDS).code == grpc.StatusCode.UNAVAILABLE
        for stub in [server.recurrent, *stubs]:
            assert stub.Infer(_request(), timeout=SECONDS).outputs == first


def test_more_connections_than_descriptors_are_refused_at_start():
    done = run_to_end("--listen=127.0.0.1:0", "--max_connections=2000000000")
    assert done.returncode == 1 and "--max_connections=2000000000" in done.stderr


def test_a_stream_is_handed_over_before_its_connection_goes():
    """All that was read has been answered, and nothing else was applied."""
    server = Server("--max_connection_age=1s", "--max_call_duration=1s", "--drain_timeout=100ms")
    calls = session_calls.Sessions(server.address)
    try:
        key, number = calls.open(), 0
        for _ in range(3):
            stream = session_calls.Stream(calls)
            with pytest.raises(grpc.RpcError) as ended:
                while True:
                    stream.send(session_calls.operation(key, number + 1, **session_calls.chunk([number + 1])))
                    assert stream.receive().status.code == 0
                    number += 1
            assert ended.value.code() == grpc.StatusCode.UNAVAILABLE and "has reached its age" in ended.value.details()
            stream.cancel()
            assert calls.state(key).number == number
        assert calls.log(key) == [float(value) for value in range(1, number + 1)][-session_calls.H:]
        samples = _metrics(server)
        assert samples['rnnserve_requests_total{method="Recurrent.Stream",code="UNAVAILABLE"}'] == 3
        assert samples['rnnserve_rejected_total{reason="draining"}'] == 0
        assert samples['rnnserve_connections_total{result="accepted"}'] >= 2, "connections have been told to go"
    finally:
        calls.close()
        assert server.stop() == 0


def test_a_port_alone_is_that_of_all_addresses():
    server = Server(listen=":0")
    try:
        for host in ["127.0.0.1", "::1"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]:
            with socket.create_connection((host, server.port), timeout=SECONDS):
                pass
        assert server.recurrent.Infer(_request(), timeout=SECONDS).outputs
    finally:
        assert server.stop() == 0


def test_a_closed_standard_error_is_nobodys_connection(tmp_path):
    """Whoever gets its number would get the log."""
    port_file = tmp_path / "port"
    command = f'exec "{BINARY}" --listen=127.0.0.1:0 --admin_listen= --port_file="{port_file}" <&- >&- 2>&-'
    process = subprocess.Popen(["sh", "-c", command])
    try:
        while not port_file.exists():
            assert process.poll() is None
        # gRPC leaks an eventfd before main, which takes the lowest number.
        assert [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in (1, 2)] == ["/dev/null"] * 2
    finally:
        process.terminate()
        assert process.wait(timeout=SECONDS) == 0
