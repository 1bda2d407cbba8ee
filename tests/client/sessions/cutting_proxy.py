# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that cuts connections in the middle of whatever they carry."""

import random
import socket
import threading


class CuttingProxy:
    """Passes bytes between its port and `target_port`. After a seeded number of bytes a connection is cut in both
    directions, as long as `cuts` last; what was read and not yet passed on is lost."""

    def __init__(self, target_port, seed, cuts, least=200, most=4000):
        self.cut = 0
        self.target_port = target_port
        self._random = random.Random(seed)
        self._cuts, self._least, self._most = cuts, least, most
        self._mutex = threading.Lock()
        self._open, self._frozen = set(), set()
        self._accepted = threading.Semaphore(0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_for_connection(self, timeout):
        """For one more than have been waited for."""
        assert self._accepted.acquire(timeout=timeout), f"nobody connected within {timeout} s"

    def cut_now(self):
        """Cuts what is open, as when a cable is pulled."""
        with self._mutex:
            pairs = list(self._open)
        for pair in pairs:
            self._end(pair)

    def freeze_now(self):
        """What is open stays open and passes nothing any more, as when a route is lost."""
        with self._mutex:
            self._frozen |= self._open

    def close(self):
        self._listener.close()
        self.cut_now()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target_port))
            except OSError:
                client.close()
                continue
            with self._mutex:
                left = [None]
                if self.cut < self._cuts:
                    self.cut += 1
                    left = [self._random.randint(self._least, self._most)]
                pair = (client, server)
                self._open.add(pair)
            self._accepted.release()
            for end in pair:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self._pass, args=(source, sink, pair, left), daemon=True).start()

    def _pass(self, source, sink, pair, left):
        """left: bytes until the cut, of both directions together; None: never."""
        try:
            while data := source.recv(4096):
                with self._mutex:
                    if left[0] is not None:
                        data, left[0] = data[:left[0]], left[0] - len(data)
                    if pair in self._frozen:
                        continue
                sink.sendall(data)
                if left[0] is not None and left[0] <= 0:
                    break
        except OSError:
            pass
        self._end(pair)

    def _end(self, pair):
        with self._mutex:
            self._open.discard(pair)
        for end in pair:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
