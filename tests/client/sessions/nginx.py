# SPDX-License-Identifier: Apache-2.0
"""nginx in front of a server, to be killed."""

import pathlib
import shutil
import socket
import subprocess
import tempfile

# Debian has it where only root's PATH looks.
BINARY = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
SECONDS = 30


class Nginx:
    def __init__(self, server_port):
        self._folder = tempfile.TemporaryDirectory(prefix="rnnserve-nginx-")
        folder = pathlib.Path(self._folder.name)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        paths = "".join(f"{kind}_temp_path {folder}/{kind}; "
                        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;\n"
            "events { worker_connections 256; }\n"
            f"http {{ access_log off; {paths}\n"
            f"server {{ listen 127.0.0.1:{self.port} http2; client_max_body_size 0; client_body_timeout 1h;\n"
            "grpc_read_timeout 1h; grpc_send_timeout 1h;\n"
            f"location / {{ grpc_pass grpc://127.0.0.1:{server_port}; }} }} }}\n")
        self._process = None
        self.start()

    def start(self):
        folder = self._folder.name
        self._process = subprocess.Popen([BINARY, "-c", f"{folder}/nginx.conf", "-p", folder],
                                         stderr=subprocess.DEVNULL)
        for _ in range(SECONDS * 50):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                pass
            try:
                self._process.wait(timeout=0.02)  # the pause between two tries
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"nginx ended: {pathlib.Path(folder, 'error.log').read_text()}")
        raise RuntimeError(f"nginx did not listen within {SECONDS} s")

    def restart(self):
        """Killed, with every connection through it."""
        self.kill()
        self.start()

    def kill(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        self.kill()
        self._folder.cleanup()
