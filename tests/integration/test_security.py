# SPDX-License-Identifier: Apache-2.0
"""TLS, mutual TLS and their renewal, bearer tokens: certificates are made by openssl while the server runs."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import queue
import re
import shutil
import socket
import ssl
import subprocess

import grpc
import numpy as np
import pytest

import wire
from server_process import Server, run_to_end
from session_calls import chunk, open_request, operation
from test_admin import _metrics
from test_connections import flood
from test_service import SECONDS, _case

RNNCTL = pathlib.Path(os.environ.get("RNNSERVE_RNNCTL") or wire.REPOSITORY / "build/release/client/rnnctl/rnnctl")
ALICE, BOB = "token-of-alice-0001", "token-of-bob-000002"


def _openssl(*arguments, before=()):
    subprocess.run([*before, "openssl", *map(str, arguments)], check=True, capture_output=True, timeout=SECONDS)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: pathlib.Path, name: str):
        self.folder, self.name = folder, name
        self.certificate = folder / f"{name}.pem"
        self.key = folder / f"{name}.key"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2,
                 "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign", "-keyout", self.key, "-out", self.certificate)

    def sign(self, name: str, serial: int, expired: bool = False) -> tuple[bytes, bytes]:
        """Certificate and key, for localhost."""
        key, request, certificate, names = (self.folder / f"{name}-{serial}.{kind}" for kind in
                                            ("key", "csr", "crt", "cnf"))
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-set_serial", serial,
                 "-days", 1, "-extfile", names, "-out", certificate, before=("faketime", "-f", "-2d") if expired else ())
        return certificate.read_bytes(), key.read_bytes()


def _put(path: pathlib.Path, content: bytes | str):
    """Whole or not at all."""
    unfinished = path.with_suffix(".next")
    unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
    unfinished.rename(path)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"), "authority")


@pytest.fixture
def served(authority, tmp_path):
    certificate, key = authority.sign("server", 1)
    _put(tmp_path / "tls.crt", certificate)
    _put(tmp_path / "tls.key", key)
    return tmp_path


def _tls_flags(folder):
    return [f"--tls_cert={folder}/tls.crt", f"--tls_key={folder}/tls.key"]


def _channel(server, authority, pair=(None, None)):
    credentials = grpc.ssl_channel_credentials(authority.certificate.read_bytes(), pair[1], pair[0])
    return grpc.secure_channel(f"localhost:{server.port}", credentials, [("grpc.use_local_subchannel_pool", 1)])


def _infer(channel, token=None):
    metadata = [("authorization", f"Bearer {token}")] if token else None
    return wire.recurrent_grpc.RecurrentStub(channel).Infer(wire.request(_case()), timeout=SECONDS, metadata=metadata)


def _serial(server, authority) -> int:
    """Of the certificate that a new connection gets."""
    context = ssl.create_default_context(cafile=authority.certificate)
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            return int(secure.getpeercert()["serialNumber"], 16)


def test_tls(served, authority):
    server = Server(*_tls_flags(served))
    try:
        with _channel(server, authority) as channel:
            assert _infer(channel).outputs
        failure = wire.refusal(server.recurrent.Infer, wire.request(_case()), timeout=SECONDS)
        assert failure.code == grpc.StatusCode.UNAVAILABLE, "in clear"
        connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=SECONDS)
        connection.request("GET", "/metrics")
        metrics = connection.getresponse().read().decode()
        expiry = float(re.search(r"^rnnserve_tls_cert_expiry_timestamp_seconds (\S+)$", metrics, re.MULTILINE)[1])
        text = subprocess.run(["openssl", "x509", "-enddate", "-noout", "-in", served / "tls.crt"], check=True,
                              capture_output=True, text=True).stdout
        assert expiry == ssl.cert_time_to_seconds(text.strip().removeprefix("notAfter="))
    finally:
        assert server.stop() == 0


def _agreed(server, authority, **wishes):
    """Version of TLS and cipher suite that a handshake with these wishes ends in."""
    context = ssl.create_default_context(cafile=authority.certificate)
    context.set_alpn_protocols(["h2"])
    context.maximum_version = wishes.get("version", ssl.TLSVersion.TLSv1_3)
    if "ciphers" in wishes:
        context.set_ciphers(wishes["ciphers"])
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            return secure.version(), secure.cipher()[0]


ONLY_1_2 = ssl.TLSVersion.TLSv1_2
STRONG, WEAKER = "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"


def test_what_handshakes_may_agree_on(served, authority):
    server = Server(*_tls_flags(served))
    try:
        assert _agreed(server, authority)[0] == "TLSv1.3"
        for ciphers in (STRONG, WEAKER):
            assert _agreed(server, authority, version=ONLY_1_2, ciphers=ciphers) == ("TLSv1.2", ciphers)
    finally:
        assert server.stop() == 0
    server = Server(*_tls_flags(served), f"--tls_ciphers={STRONG}")
    try:
        assert _agreed(server, authority, version=ONLY_1_2) == ("TLSv1.2", STRONG)
        with pytest.raises(OSError):
            _agreed(server, authority, version=ONLY_1_2, ciphers=WEAKER)
    finally:
        assert server.stop() == 0
    server = Server(*_tls_flags(served), "--tls_min_version=1.3")
    try:
        with _channel(server, authority) as channel:
            assert _infer(channel).outputs
        with pytest.raises(OSError):
            _agreed(server, authority, version=ONLY_1_2)
        assert _agreed(server, authority)[0] == "TLSv1.3"
    finally:
        assert server.stop() == 0


def test_floods_of_frames_end_within_tls(served, authority):
    server = Server(*_tls_flags(served))
    try:
        context = ssl.create_default_context(cafile=authority.certificate)
        context.set_alpn_protocols(["h2"])
        with _channel(server, authority) as channel:
            first = _infer(channel).outputs
            with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as plain:
                with context.wrap_socket(plain, server_hostname="localhost") as secure:
                    peer = "ipv4:{}:{}".format(*secure.getsockname())
                    assert flood(secure, "streams, the server's settings never acknowledged")
            assert f"peer={peer}" in server.log()
            assert _metrics(server)["rnnserve_abusive_connections_total"] == 1
            assert _infer(channel).outputs == first
    finally:
        assert server.stop() == 0


def test_a_renewed_certificate_comes_without_dropping_connections(served, authority):
    server = Server(*_tls_flags(served))
    try:
        with _channel(server, authority) as channel:
            assert _infer(channel).outputs
            assert _serial(server, authority) == 1
            certificate, key = authority.sign("server", 2)
            _put(served / "tls.key", key)
            _put(served / "tls.crt", certificate)
            while _serial(server, authority) != 2:  # the old one until both files have come
                assert _infer(channel).outputs, "the old connection goes on"
            assert _infer(channel).outputs
    finally:
        assert server.stop() == 0


def test_streams_outlive_the_certificate_they_began_with(served, authority):
    """Renewed three times while a session's stream goes on."""
    server = Server(*_tls_flags(served), "--drain_timeout=100ms")
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        channel = stack.enter_context(_channel(server, authority))
        say = queue.SimpleQueue()
        stack.callback(say.put, None)
        key = wire.sessions_grpc.SessionsStub(channel).Open(open_request(outputs=["Y_h"]), timeout=SECONDS).session
        stream = wire.recurrent_grpc.RecurrentStub(channel).Stream(iter(say.get, None))
        fed = 0

        def feed():
            nonlocal fed
            fed += 1
            say.put(wire.sessions_pb2.StreamRequest(operations=[operation(key, fed, **chunk([fed]))]))
            reply = next(stream).replies[0]
            assert reply.status.code == 0 and wire.array(reply.outputs[0])[0, 0, 0] == fed

        for serial in [7, 8, 9]:
            certificate, private = authority.sign("server", serial)
            _put(served / "tls.key", private)
            _put(served / "tls.crt", certificate)
            while _serial(server, authority) != serial:
                feed()
        feed()
        assert fed > 3
    assert server.process.returncode == 0


def _expired(server, authority) -> bool:
    try:
        return not _serial(server, authority)
    except ssl.SSLCertVerificationError:
        return True


@pytest.mark.parametrize("broken", ["tls.crt cut off", "tls.key of another"])
def test_what_cannot_be_used_is_told_once_and_the_old_one_stays(served, authority, broken):
    _put(served / "ca.crt", authority.certificate.read_bytes())
    server = Server(*_tls_flags(served), f"--tls_client_ca={served}/ca.crt", "--log_format=json")
    pair = authority.sign("client", 41)
    name = broken.split()[0]
    whole = (served / name).read_bytes()
    try:
        expiry = _metrics(server)["rnnserve_tls_cert_expiry_timestamp_seconds"]
        _put(served / name, {"tls.crt cut off": whole[:len(whole) // 2],
                             "tls.key of another": authority.sign("other", 42)[1]}[broken])
        while "stays as it was" not in server.log():
            with _channel(server, authority, pair) as channel:
                assert _infer(channel).outputs, "new connections come in all the while"
        assert _metrics(server)["rnnserve_tls_cert_expiry_timestamp_seconds"] == expiry
        _put(served / name, whole)
        certificate, key = authority.sign("server", 43)
        _put(served / "tls.key", key)
        _put(served / "tls.crt", certificate)
        while "read again" not in server.log():
            with _channel(server, authority, pair) as channel:
                assert _infer(channel).outputs
    finally:
        events = [json.loads(line) for line in server.log().splitlines()]
        assert server.stop() == 0
    told = [event["message"] for event in events if event["level"] == "error"]
    assert len(told) == 1 and f"{served}/{name}: " in told[0], events


def _mount(folder, number, files):
    """As Kubernetes puts a volume's next content in place: all at once, by renaming one link."""
    content = folder / f"..2026_{number}"
    content.mkdir(parents=True)
    for name, text in files.items():
        (content / name).write_bytes(text.encode() if isinstance(text, str) else text)
    (folder / "..data_tmp").symlink_to(content.name)
    (folder / "..data_tmp").rename(folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def test_all_files_change_at_once(authority, tmp_path):
    """Certificate, key, callers' authority and tokens, in a volume of Kubernetes."""
    second = Authority(tmp_path, "second")
    volume = tmp_path / "volume"

    def mount(number, callers, token):
        certificate, key = authority.sign("server", 30 + number)
        _mount(volume, number, {"tls.crt": certificate, "tls.key": key, "ca.crt": callers.certificate.read_bytes(),
                                "tokens": f"alice {token}\n"})

    mount(1, authority, ALICE)
    server = Server(*_tls_flags(volume), f"--tls_client_ca={volume}/ca.crt", f"--tokens_file={volume}/tokens")
    old, new = authority.sign("client", 34), second.sign("client", 35)

    def served(pair, token):
        with _channel(server, authority, pair) as channel:
            try:
                return bool(_infer(channel, token).outputs)
            except grpc.RpcError:
                return False

    try:
        assert served(old, ALICE) and not served(new, ALICE)
        mount(2, second, BOB)
        shutil.rmtree(volume / "..2026_1")
        while not served(new, BOB):
            assert server.alive()
        assert not served(old, BOB) and not served(new, ALICE)
        for name in ("tls.crt", "tls.key", "ca.crt", "tokens"):
            (volume / name).unlink()
        while "tokens stay as they were" not in server.log():
            assert server.alive()
        assert served(new, BOB), "what is gone changes nothing"
    finally:
        assert server.stop() == 0


def test_mutual_tls(served, authority, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    server = Server(*_tls_flags(served), f"--tls_client_ca={authority.certificate}")
    try:
        with _channel(server, authority, authority.sign("client", 3)) as channel:
            assert _infer(channel).outputs
        for pair in [(None, None), stranger.sign("client", 4), authority.sign("client", 5, expired=True)]:
            with _channel(server, authority, pair) as channel:
                assert wire.refusal(_infer, channel).code == grpc.StatusCode.UNAVAILABLE
    finally:
        assert server.stop() == 0


def test_an_expired_certificate_is_told_and_refused_by_callers(authority, tmp_path):
    certificate, key = authority.sign("server", 21, expired=True)
    _put(tmp_path / "tls.crt", certificate)
    _put(tmp_path / "tls.key", key)
    server = Server(*_tls_flags(tmp_path))
    try:
        assert f"{tmp_path}/tls.crt has expired" in server.log()
        with _channel(server, authority) as channel:
            assert wire.refusal(_infer, channel).code == grpc.StatusCode.UNAVAILABLE
        expiry = _metrics(server)["rnnserve_tls_cert_expiry_timestamp_seconds"]
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            _serial(server, authority)
        certificate, key = authority.sign("server", 22)
        _put(tmp_path / "tls.key", key)
        _put(tmp_path / "tls.crt", certificate)
        while _expired(server, authority):
            pass
        with _channel(server, authority) as channel:
            assert _infer(channel).outputs, "no restart was needed"
        assert _metrics(server)["rnnserve_tls_cert_expiry_timestamp_seconds"] > expiry
    finally:
        assert server.stop() == 0


def test_an_expired_certificate_of_a_caller_is_told_once(served, authority):
    server = Server(*_tls_flags(served), f"--tls_client_ca={authority.certificate}")
    pair = authority.sign("client", 23, expired=True)
    try:
        for _ in range(5):
            with _channel(server, authority, pair) as channel:
                assert wire.refusal(_infer, channel).code == grpc.StatusCode.UNAVAILABLE
        with _channel(server, authority, authority.sign("client", 24)) as channel:
            assert _infer(channel).outputs
    finally:
        log = server.log()
        assert server.stop() == 0
    told = [line for line in log.splitlines() if "TLS: " in line]
    assert told and len(told) < 5 and "certificate" in told[0].lower(), log


def test_files_that_cannot_be_used_are_told(served, authority):
    other_key = authority.sign("other", 6)[1]
    _put(served / "other.key", other_key)
    (served / "empty").write_text("")
    (served / "lines").write_text("\n\n")
    whole = (served / "tls.crt").read_bytes()
    (served / "chain").write_bytes(whole + whole[:-100])
    crt, key = f"{served}/tls.crt", f"{served}/tls.key"
    for flags, wrong in [([f"--tls_cert={served}/none", f"--tls_key={key}"], f"{served}/none"),
                         ([f"--tls_cert={crt}", f"--tls_key={served}/other.key"], f"{served}/other.key"),
                         ([f"--tls_cert={crt}", f"--tls_key={key}", f"--tls_client_ca={served}/empty"], "/empty"),
                         ([f"--tls_cert={crt}", f"--tls_key={key}", f"--tls_client_ca={served}/lines"], "/lines"),
                         ([f"--tls_cert={served}/chain", f"--tls_key={key}"], f"{served}/chain: a certificate after"),
                         ([f"--tls_cert={crt}"], "--tls_key"),
                         ([f"--tls_client_ca={crt}"], "--tls_client_ca"),
                         ([f"--tls_cert={crt}", f"--tls_key={key}", "--tls_ciphers=good:best"], "--tls_ciphers=good:best"),
                         (["--tls_min_version=1.1"], "--tls_min_version=1.1: expected 1.2, 1.3"),
                         ([f"--tokens_file={served}/none"], f"{served}/none")]:
        done = run_to_end("--listen=127.0.0.1:0", "--admin_listen=", *flags)
        assert done.returncode == 1 and wrong in done.stderr, done.stderr


def _with_all_files(authority, folder) -> list[str]:
    for name, content in {"ca.crt": authority.certificate.read_bytes(), "tokens": f"alice {ALICE}\n"}.items():
        _put(folder / name, content)
    return [*_tls_flags(folder), f"--tls_client_ca={folder}/ca.crt", f"--tokens_file={folder}/tokens"]


NAMED = ["tls.crt", "tls.key", "ca.crt", "tokens"]


@pytest.mark.parametrize("name", NAMED)
def test_a_pipe_in_place_of_a_file_is_told_at_the_start(served, authority, name):
    flags = _with_all_files(authority, served)
    (served / name).unlink()
    os.mkfifo(served / name)
    done = run_to_end("--listen=127.0.0.1:0", "--admin_listen=", *flags)
    assert done.returncode == 1 and f"{served}/{name}: cannot be read: it is no plain file" in done.stderr, done.stderr


@pytest.mark.parametrize("name", NAMED)
def test_a_pipe_in_place_of_a_file_holds_nothing_up(served, authority, name):
    """Neither serving nor leaving: whoever reads it would wait for somebody who writes."""
    server = Server(*_with_all_files(authority, served))
    try:
        os.mkfifo(served / "pipe")
        (served / "pipe").rename(served / name)
        told = f"{served}/{name}: cannot be read: it is no plain file"
        while told not in server.log():
            with _channel(server, authority, authority.sign("client", 51)) as channel:
                assert _infer(channel, ALICE).outputs
        assert server.log().count(told) == 1
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize("listen, flags, is_open", [
    ("127.0.0.1:0,localhost:0,unix:{}/s", [], ""), ("0.0.0.0:0", [], "0.0.0.0:0"),
    ("127.0.0.1:0,0.0.0.0:0", [], "0.0.0.0:0"), ("0.0.0.0:0", ["--tls_cert={}/tls.crt", "--tls_key={}/tls.key"], "0.0.0.0:0"),
    ("0.0.0.0:0", ["--tls_cert={}/tls.crt", "--tls_key={}/tls.key", "--tls_client_ca={}/tls.crt"], ""),
    ("0.0.0.0:0", ["--tokens_file={}/tokens"], "")])
def test_who_is_open_to_all_is_told(served, listen, flags, is_open):
    _put(served / "tokens", f"alice {ALICE}\n")
    server = Server(*[flag.format(served) for flag in flags], listen=listen.format(served))
    told = [line for line in server.log().splitlines() if "load and unload models" in line]
    assert server.stop() == 0
    assert len(told) == bool(is_open) and all(f"reaches {is_open} may" in line for line in told), told


# Tokens.


def _load(server, token):
    return server.models.Load(wire.models_pb2.LoadRequest(name="m"), timeout=SECONDS,
                              metadata=[("authorization", f"Bearer {token}")])


def test_rnnctl_with_certificates_and_a_token(served, authority, tmp_path):
    """Its unary calls, and a stream, which the C++ client makes on a connection of its own."""
    pair = authority.sign("rnnctl", 9)
    for name, content in (("mine.crt", pair[0]), ("mine.key", pair[1]), ("token", f"{ALICE}\n"),
                          ("tokens", f"alice {ALICE} models\n")):
        _put(tmp_path / name, content)
    server = Server(*_tls_flags(served), f"--tls_client_ca={authority.certificate}", f"--tokens_file={tmp_path}/tokens")
    known = {"RNNCTL_SERVER": server.address, "RNNCTL_TLS_CA": str(authority.certificate),
             "RNNCTL_TLS_CERT": f"{tmp_path}/mine.crt", "RNNCTL_TLS_KEY": f"{tmp_path}/mine.key",
             "RNNCTL_TOKEN_FILE": f"{tmp_path}/token"}

    def rnnctl(environment, *arguments):
        return subprocess.run([RNNCTL, *arguments, "--timeout=10s"], env=os.environ | environment, capture_output=True,
                              text=True, timeout=SECONDS)

    hidden, arrays = 3, {"W": (1, 12, 1), "R": (1, 12, 3), "x": (5, 1, 1)}
    for name, shape in arrays.items():
        np.save(tmp_path / f"{name}.npy", np.full(shape, 0.5, np.float32))
    feed = ["stream", f"{tmp_path}/x.npy", "--op=LSTM", "--opset=14", f"--attr=hidden_size={hidden}",
            f"--tensor=W={tmp_path}/W.npy", f"--tensor=R={tmp_path}/R.npy", "--chunk=2", "--json"]
    listed = rnnctl(known, "models", "ls")
    assert listed.returncode == 0, listed.stderr
    fed = rnnctl(known, *feed)
    assert fed.returncode == 0 and len(fed.stdout.splitlines()) >= 3, fed.stderr
    bench = ["bench", "--hidden=8", "--requests=10", "--warm-up=0s"]
    for arguments in (bench, [*bench, "--sessions=1", "--outputs=Y"]):
        measured = rnnctl(known, *arguments)
        assert measured.returncode == 0, measured.stderr
    for missing, told in (("RNNCTL_TOKEN_FILE", "UNAUTHENTICATED"), ("RNNCTL_TLS_CERT", ""), ("RNNCTL_TLS_CA", "")):
        for arguments in (["models", "ls"], feed, bench):
            refused = rnnctl({key: value for key, value in known.items() if key != missing}, *arguments)
            assert refused.returncode != 0 and told in refused.stderr, (missing, refused.stderr)
    wrong = rnnctl(known | {"RNNCTL_TLS_CA": f"{tmp_path}/none"}, "models", "ls")
    assert "RNNCTL_TLS_CA" in wrong.stderr and "none" in wrong.stderr
    assert server.stop() == 0


def test_tokens(tmp_path):
    file = tmp_path / "tokens"
    _put(file, f"alice {ALICE} models\nbob {BOB}\n")
    server = Server(f"--tokens_file={file}")
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        assert _infer(server.channel, ALICE).outputs and _infer(server.channel, BOB).outputs
        for token in [None, "wrong", ALICE + "1", ALICE[:-1], "sha256:" + 64 * "0"]:
            assert wire.refusal(_infer, server.channel, token).code == grpc.StatusCode.UNAUTHENTICATED
        stub = server.recurrent
        for value in [ALICE, f"Basic {ALICE}", "Bearer", "Bearer "]:
            failure = wire.refusal(stub.Infer, wire.request(_case()), timeout=SECONDS,
                                   metadata=[("authorization", value)])
            assert failure.code == grpc.StatusCode.UNAUTHENTICATED
        assert wire.refusal(_load, server, BOB).code == grpc.StatusCode.PERMISSION_DENIED
        assert wire.refusal(_load, server, ALICE).code not in (grpc.StatusCode.PERMISSION_DENIED,
                                                               grpc.StatusCode.UNAUTHENTICATED)
        _put(file, f"bob {BOB} models\n")
        while True:  # until it has been read
            try:
                _infer(server.channel, ALICE)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAUTHENTICATED
                break
        assert wire.refusal(_load, server, BOB).code != grpc.StatusCode.PERMISSION_DENIED
        assert _infer(server.channel, BOB).outputs
        log = server.log()
        assert "refused" in log and ALICE not in log and BOB not in log
        assert log.count("refused") < 8, "not a line for each"
    assert server.process.returncode == 0


def test_a_token_taken_away_ends_its_streams(tmp_path):
    """An idle one as well; those of others go on."""
    file = tmp_path / "tokens"
    _put(file, f"alice {ALICE}\nbob {BOB}\n")
    server = Server(f"--tokens_file={file}")
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        streams = {}
        for token in [ALICE, BOB]:
            say = queue.SimpleQueue()
            call = server.recurrent.Stream(iter(say.get, None), metadata=[("authorization", f"Bearer {token}")])
            streams[token] = say, call
            say.put(wire.sessions_pb2.StreamRequest(operations=[operation("no such key", 1, **chunk([1]))]))
            assert next(call).replies[0].status.code == grpc.StatusCode.NOT_FOUND.value[0]
        _put(file, f"bob {BOB}\n")
        ended = wire.refusal(next, streams[ALICE][1])
        assert ended.code == grpc.StatusCode.CANCELLED, ended
        while _metrics(server)['rnnserve_requests_total{method="Recurrent.Stream",code="CANCELLED"}'] == 0:
            assert server.alive()
        say, call = streams[BOB]
        say.put(wire.sessions_pb2.StreamRequest(operations=[operation("no such key", 1, **chunk([1]))]))
        assert next(call).replies[0].status.code == grpc.StatusCode.NOT_FOUND.value[0]
        for say, _ in streams.values():
            say.put(None)
    assert server.process.returncode == 0


def test_thousands_of_wrong_tokens_make_neither_metrics_nor_log_grow(tmp_path):
    _put(tmp_path / "tokens", f"alice {ALICE}\n")
    server = Server(f"--tokens_file={tmp_path}/tokens")
    try:
        calls = [server.recurrent.Infer.future(wire.request(_case()), timeout=SECONDS,
                                               metadata=[("authorization", f"Bearer wrong-{k}")]) for k in range(2000)]
        assert {call.code() for call in calls} == {grpc.StatusCode.UNAUTHENTICATED}
        connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=SECONDS)
        connection.request("GET", "/metrics")
        metrics = connection.getresponse().read().decode()
        assert 'code="UNAUTHENTICATED"} 2000' in metrics and "wrong-" not in metrics
        assert len(server.log()) < 20000
    finally:
        assert server.stop() == 0


def test_ten_thousand_tenants_are_no_labels(tmp_path):
    """Each calls; the metrics stay what they were, and none of them is named anywhere."""
    tenants = [f"tenant-{k:05}" for k in range(10_000)]
    _put(tmp_path / "tokens", "".join(f"{tenant} token-of-{tenant}-0123\n" for tenant in tenants))
    server = Server(f"--tokens_file={tmp_path}/tokens", "--drain_timeout=100ms")
    try:
        assert _infer(server.channel, f"token-of-{tenants[0]}-0123").outputs
        before = set(_metrics(server))
        for begin in range(0, len(tenants), 500):
            calls = [server.recurrent.Infer.future(wire.request(_case()), timeout=SECONDS,
                                                   metadata=[("authorization", f"Bearer token-of-{tenant}-0123")])
                     for tenant in tenants[begin:begin + 500]]
            assert {call.code() for call in calls} == {grpc.StatusCode.OK}
        after = _metrics(server)
        assert set(after) == before and "tenant-" not in "".join(after)
        assert after['rnnserve_requests_total{method="Recurrent.Infer",code="OK"}'] == len(tenants) + 1
        assert "tenant-" not in server.log()
    finally:
        assert server.stop() == 0
