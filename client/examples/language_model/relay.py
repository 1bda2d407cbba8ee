# SPDX-License-Identifier: Apache-2.0
"""A relay between a client and its server that counts the bytes of each way, HTTP/2 and all."""

import socket
import threading
from types import TracebackType


class Relay:
    """with Relay("127.0.0.1:50051") as relay: ... relay.address ... relay.up, relay.down"""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.up = self.down = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            for one, other, is_up in ((near, far, True), (far, near, False)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pump, args=(one, other, is_up), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket, is_up: bool) -> None:
        try:
            while data := one.recv(65536):
                if is_up:
                    self.up += len(data)
                else:
                    self.down += len(data)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other way has ended it
