# SPDX-License-Identifier: Apache-2.0
"""A caller that announces large messages and leaves off shortly before their ends: HTTP/2 by hand, because no client
library does that."""

from __future__ import annotations

import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
LONGEST_QUEUE = 1 << 20


def frame(kind, flags, stream, payload) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _literal(name: str, value: str) -> bytes:
    """HPACK: a literal without indexing."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def call_headers(path: str) -> bytes:
    return b"".join(_literal(*pair) for pair in [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"),
        ("content-type", "application/grpc"), ("te", "trailers")])


class Stream:
    def __init__(self, window: int, announced: int, to_send: int):
        self.window = window
        self.left = to_send + 5
        self.head = struct.pack(">BI", 0, announced)


class HalfMessages:
    """`streams` calls on one connection, each a message of `size` bytes without its last thousand."""

    def __init__(self, port: int, path: str, streams: int, size: int):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self._out = bytearray(PREFACE + frame(SETTINGS, 0, 0, b""))
        self._in = bytearray()
        self._window = self._stream_window = 65535
        self._largest_frame = 16384
        self.streams = {}
        self.given_up = 0  # streams that the server reset
        self.closed = False
        for k in range(streams):
            self._out += frame(HEADERS, 4, 2 * k + 1, call_headers(path))
            self.streams[2 * k + 1] = Stream(self._stream_window, size, size - 1000)

    def close(self):
        self.socket.close()

    def done(self) -> bool:
        return self.closed or not any(stream.left for stream in self.streams.values())

    def pump(self):
        """Sends and receives what can be without waiting."""
        if self.closed:
            return
        self._fill()
        try:
            if self._out:
                del self._out[: self.socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
        try:
            data = self.socket.recv(1 << 16)
            self.closed |= not data
            self._in += data
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
        while len(self._in) >= 9 and len(self._in) >= 9 + (size := int.from_bytes(self._in[:3], "big")):
            kind, flags = self._in[3], self._in[4]
            stream = int.from_bytes(self._in[5:9], "big") & 0x7FFFFFFF
            self._take(kind, flags, stream, bytes(self._in[9: 9 + size]))
            del self._in[: 9 + size]

    def _fill(self):
        for number, stream in self.streams.items():
            while len(self._out) < LONGEST_QUEUE:
                size = min(stream.left, stream.window, self._window, self._largest_frame)
                if size <= 0:
                    break
                payload = stream.head[:size].ljust(size, b"\0")
                stream.head = stream.head[size:]
                self._out += frame(DATA, 0, number, payload)
                stream.left -= size
                stream.window -= size
                self._window -= size

    def _take(self, kind, flags, number, payload):
        if kind == WINDOW_UPDATE:
            increment = int.from_bytes(payload, "big")
            if number == 0:
                self._window += increment
            elif number in self.streams:
                self.streams[number].window += increment
        elif kind == SETTINGS and not flags & 1:
            for k in range(0, len(payload), 6):
                setting, value = struct.unpack(">HI", payload[k: k + 6])
                if setting == 4:
                    for stream in self.streams.values():
                        stream.window += value - self._stream_window
                    self._stream_window = value
                elif setting == 5:
                    self._largest_frame = value
            self._out += frame(SETTINGS, 1, 0, b"")
        elif kind == PING and not flags & 1:
            self._out += frame(PING, 1, 0, payload)
        elif kind == RESET:
            self.given_up += self.streams.pop(number, None) is not None
        elif kind == GOAWAY:
            self.closed = True


def pump_until_done(connections, seconds) -> None:
    deadline = time.monotonic() + seconds
    while not all(connection.done() for connection in connections):
        assert time.monotonic() < deadline, "the server takes no more, and gives up nothing"
        for connection in connections:
            connection.pump()
