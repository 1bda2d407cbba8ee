# SPDX-License-Identifier: Apache-2.0
"""A DNS that gives the same IPv4 addresses for every name, over UDP (RFC 1035)."""

from __future__ import annotations

import socket
import struct
import threading

IS_ANSWER, RECURSION = 0x8400, 0x0180
TYPE_A, CLASS_IN = 1, 1
NAME_OF_QUESTION = 0xC00C  # a pointer to behind the header
HEADER = struct.Struct(">6H")


class SmallDns:
    def __init__(self, addresses: set[str]):
        self.addresses = addresses
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def _answer(self, query: bytes) -> bytes:
        identity = HEADER.unpack_from(query)[0]
        end = query.index(b"\0", HEADER.size) + 5  # of the name, type and class
        asks_for_ipv4 = struct.unpack(">2H", query[end - 4:end]) == (TYPE_A, CLASS_IN)
        addresses = self.addresses if asks_for_ipv4 else ()
        records = b"".join(struct.pack(">3HIH", NAME_OF_QUESTION, TYPE_A, CLASS_IN, 0, 4) + socket.inet_aton(address)
                           for address in addresses)
        return HEADER.pack(identity, IS_ANSWER | RECURSION, 1, len(addresses), 0, 0) + query[HEADER.size:end] + records

    def _serve(self):
        while True:
            query, caller = self._socket.recvfrom(4096)
            if not query:
                return
            self._socket.sendto(self._answer(query), caller)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()
