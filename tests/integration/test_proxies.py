# SPDX-License-Identifier: Apache-2.0
"""nginx and haproxy with the configurations of deploy/ in front of real servers."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request

import grpc
import numpy as np
import pytest
import rnnserve

import wire
from redis_process import HAS_REDIS, WITHOUT_REDIS, Redis, free_port
from server_process import Server
from session_calls import Sessions, open_request, remembering_weights
from small_dns import SmallDns
from test_admin import _metrics
from test_deploy import DEPLOY
from test_service import SECONDS, _case


def _count(server) -> int:
    return int(_metrics(server)['rnnserve_requests_total{method="Recurrent.Infer",code="OK"}'])


def _remembering():
    w, r = (wire.array(tensor) for tensor in remembering_weights())
    return rnnserve.rnn(w, r, activations=["Affine"], activation_alpha=[1.0], activation_beta=[0.0])


def _live_sessions(server) -> int:
    return int(_metrics(server)['rnnserve_sessions_active{model="(inline)"}'])


def _binary(name) -> str:
    binary = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/bin")
    if not binary:
        pytest.skip(f"no {name}: ./setup.sh --tests installs it")
    return binary


def _replace(pattern, lines, text) -> str:
    changed, count = re.subn(pattern, lines, text)
    assert count == 1, f"deploy/ has no such line any more: {pattern}"
    return changed


def _nginx_with(port, lines, folder):
    text = (DEPLOY / "nginx.conf").read_text().replace("listen 8080", f"listen 127.0.0.1:{port}")
    text = text.replace("/tmp/", f"{folder}/").replace("/dev/stderr", f"{folder}/log")
    (folder / "nginx.conf").write_text(_replace(r"(?:    server rnnserve-.*\n)+", lines, text))
    return [_binary("nginx"), "-c", folder / "nginx.conf", "-p", folder, "-g", "daemon off;"]


def _nginx(port, servers, folder):
    lines = "".join(f"    server {server.address} max_fails=1 fail_timeout=5s;\n" for server in servers)
    return _nginx_with(port, lines, folder)


def _nginx_by_dns(port, found, folder):
    """As _haproxy_by_dns."""
    told = subprocess.run([_binary("nginx"), "-v"], capture_output=True, text=True, check=True).stderr
    if tuple(map(int, re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", told).groups())) < (1, 27, 3):
        pytest.skip(f"{told.strip()}: DNS tells the servers of an upstream from nginx 1.27.3 on")
    server, _, dns = found
    comment = re.findall(r"    #   (.*;\n)", (DEPLOY / "nginx.conf").read_text())
    lines = _replace("rnnserve:50051", f"rnnserve.test:{server}", "".join(comment))
    return _nginx_with(port, _replace(r"127\.0\.0\.11", f"127.0.0.1:{dns}", lines), folder)


def _haproxy(port, servers, folder):
    text = (DEPLOY / "haproxy.cfg").read_text().replace("bind :8080", f"bind 127.0.0.1:{port}")
    lines = "".join(f"  server s{k} {server.address} port {server.admin_port}\n" for k, server in enumerate(servers))
    (folder / "haproxy.cfg").write_text(_replace(r"  server-template .*\n", lines, text))
    return [_binary("haproxy"), "-db", "-f", folder / "haproxy.cfg"]


def _haproxy_by_dns(port, found, folder):
    """`found`: the port of the servers, that of their admin ports, and that of the DNS which has their addresses."""
    server, admin, dns = found
    text = (DEPLOY / "haproxy.cfg").read_text().replace("bind :8080", f"bind 127.0.0.1:{port}")
    text = _replace("rnnserve:50051 port 9464", f"rnnserve.test:{server} port {admin}", text)
    (folder / "haproxy.cfg").write_text(_replace("parse-resolv-conf", f"nameserver test 127.0.0.1:{dns}", text))
    return [_binary("haproxy"), "-db", "-f", folder / "haproxy.cfg"]


def _listens(port) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def proxied(proxy, servers, folder):
    """The address of a proxy in front of `servers`, with the configuration of deploy/."""
    port = free_port()
    process = subprocess.Popen(proxy(port, servers, folder))
    try:
        while not _listens(port):
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise RuntimeError(f"the proxy ended with {process.wait(timeout=0.02)}")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=SECONDS)


PROXIES = pytest.mark.parametrize("proxy", [_nginx, _haproxy], ids=["nginx", "haproxy"])


@PROXIES
def test_a_route_stays_and_the_rest_is_spread(tmp_path, proxy):
    servers = [Server(), Server(), Server()]
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)
        channel = stack.enter_context(wire.channel(stack.enter_context(proxied(proxy, servers, tmp_path))))
        stub = wire.recurrent_grpc.RecurrentStub(channel)

        def infer(**options):
            return stub.Infer(wire.request(_case()), timeout=SECONDS, wait_for_ready=True, **options)

        for _ in range(60):
            assert infer().outputs
        assert all(_count(server) > 0 for server in servers), "spread"
        before = [_count(server) for server in servers]
        for _ in range(20):
            assert infer(metadata=[("x-session-route", "one-session")]).outputs
        grown = [_count(server) - count for server, count in zip(servers, before)]
        assert sorted(grown) == [0, 0, 20], "a route stays at one server"
        servers[grown.index(20)].stop()
        answered = None
        while answered is None:  # haproxy looks once a second
            try:
                answered = infer(metadata=[("x-session-route", "one-session")])
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert answered.outputs, "and moves when that one has gone"


@PROXIES
@pytest.mark.parametrize("end", ["leaves", "is killed"])
def test_sessions_go_on_behind_a_proxy(tmp_path, proxy, end):
    """Our client, in front of which a server leaves in good order or is killed: it goes on at another one."""
    servers = [Server(), Server(), Server()]
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)
        address = stack.enter_context(proxied(proxy, servers, tmp_path))
        client = stack.enter_context(rnnserve.Client(address))
        session = client.session(_remembering(), outputs=["Y_h"], checkpoint_every=5 if end == "is killed" else 0)
        for value in range(1, 41):
            if value == 20:
                there = next(server for server in servers if _live_sessions(server) == 1)
                there.process.send_signal(signal.SIGTERM if end == "leaves" else signal.SIGKILL)
            seen = session.feed(np.array([[[value]]], np.float32))["Y_h"][0, 0]
            assert list(seen[:value]) == list(range(value, 0, -1)), "nothing is lost, nothing comes twice"
        assert there.process.wait(timeout=SECONDS) == (0 if end == "leaves" else -signal.SIGKILL)
        session.close()


@PROXIES
def test_nobody_notices_a_restart_behind_a_proxy(tmp_path, proxy):
    """Of two servers one leaves, and a session keeps it from going: our client's calls and new sessions find the other
    one, also where the proxy goes on sending them to both."""
    leaving, other = servers = [Server("--drain_timeout=60s"), Server()]
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)
        keeper = Sessions(leaving.address)
        key = keeper.open()
        address = stack.enter_context(proxied(proxy, servers, tmp_path))
        client = stack.enter_context(rnnserve.Client(address))
        cell, x = _remembering(), np.array([[[1]], [[2]]], np.float32)

        def infer(_):
            return list(client.infer(cell, {"X": x}, outputs=["Y_h"]).outputs["Y_h"][0, 0, :3])

        def open_and_feed(_):  # each from a client of its own, as after a start
            with rnnserve.Client(address) as newcomer, newcomer.session(cell, outputs=["Y_h"]) as session:
                return list(session.feed(x)["Y_h"][0, 0, :3])

        assert infer(0) == [2, 1, 0]
        leaving.process.send_signal(signal.SIGTERM)
        while True:
            try:
                leaving.recurrent.Infer(wire.request(_case()), timeout=SECONDS)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE
                break
        refused = _refused_for_draining(leaving)
        with concurrent.futures.ThreadPoolExecutor(12) as users:
            answers = [*users.map(infer, range(12)), *users.map(open_and_feed, range(12))]
        assert answers == [[2, 1, 0]] * 24
        assert leaving.alive(), "it was there all the time"
        if proxy is _nginx:
            assert _refused_for_draining(leaving) > refused, "and was asked"
        keeper.state(key)  # all that it waits for
        keeper.close()
        assert leaving.process.wait(timeout=SECONDS) == 0
        assert other.alive()


def _refused_for_draining(server) -> int:
    return int(_metrics(server)['rnnserve_rejected_total{reason="draining"}'])


class AtAddress(Server):
    """A server on a loopback address of its own, so that several have the same ports, as containers do."""

    def __init__(self, host, port=0, admin_port=0):
        super().__init__(listen=f"{host}:{port}", admin_listen=f"{host}:{admin_port}")
        self.host = host

    def answered(self) -> int:
        with urllib.request.urlopen(f"http://{self.host}:{self.admin_port}/metrics", timeout=SECONDS) as page:
            line = re.search(rb'rnnserve_requests_total{method="Recurrent.Infer",code="OK"} (\d+)', page.read())
        return int(line[1])


@pytest.mark.parametrize("proxy", [_nginx_by_dns, _haproxy_by_dns], ids=["nginx", "haproxy"])
def test_a_proxy_finds_servers_by_dns(tmp_path, proxy):
    """A server that DNS tells gets calls, one that DNS no longer tells gets none: no list, no reload."""
    with contextlib.ExitStack() as stack:
        first = AtAddress("127.0.0.2")
        stack.callback(first.stop)
        second = AtAddress("127.0.0.3", first.port, first.admin_port)
        stack.callback(second.stop)
        dns = stack.enter_context(SmallDns({"127.0.0.2"}))
        found = first.port, first.admin_port, dns.port
        channel = stack.enter_context(wire.channel(stack.enter_context(proxied(proxy, found, tmp_path))))
        stub = wire.recurrent_grpc.RecurrentStub(channel)

        def infer_until(enough):
            answered = 0
            while not enough():
                try:
                    assert stub.Infer(wire.request(_case()), timeout=SECONDS).outputs
                    answered += 1
                except grpc.RpcError as error:  # before the first answer of DNS there is no server
                    assert not answered and error.code() == grpc.StatusCode.UNAVAILABLE, error

        infer_until(lambda: first.answered() >= 10)
        assert second.answered() == 0
        dns.addresses = {"127.0.0.2", "127.0.0.3"}
        infer_until(lambda: second.answered() >= 10)
        dns.addresses = {"127.0.0.3"}

        def first_has_rest():
            before = first.answered()
            for _ in range(10):
                assert stub.Infer(wire.request(_case()), timeout=SECONDS).outputs
            return first.answered() == before

        infer_until(first_has_rest)


def _listening_again(server, *flags) -> Server:
    return Server(*flags, listen=server.address, admin_listen=f"127.0.0.1:{server.admin_port}")


def _teach(server) -> str:
    """The fingerprint of the remembering cell, which the server knows from then on."""
    calls = Sessions(server.address)
    opened = calls.stub.Open(open_request())
    calls.apply(opened.session, close=wire.sessions_pb2.Close())
    calls.close()
    return opened.fingerprint


@pytest.mark.skipif(not HAS_REDIS, reason=WITHOUT_REDIS)
@PROXIES
def test_a_durable_session_outlives_each_server_behind_a_proxy(tmp_path, proxy):
    """Two servers with a store, killed and started again in turn at the same address: no operation fails or is lost, and
    the proxy comes back to a server that is back."""
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef\n")
    with contextlib.ExitStack() as stack:
        redis = Redis()
        stack.callback(redis.stop)
        flags = (f"--store=redis://127.0.0.1:{redis.port}", f"--session_secret_file={secret}")
        servers = [Server(*flags), Server(*flags)]
        stack.callback(lambda: [server.stop(signal.SIGKILL) for server in servers])
        fingerprint = [_teach(server) for server in servers][0]
        client = stack.enter_context(rnnserve.Client(stack.enter_context(proxied(proxy, servers, tmp_path))))
        session = client.session(fingerprint=fingerprint, outputs=["Y_h"], durability="sync")

        def infer(_):
            return client.infer(_remembering(), {"X": np.array([[[1]]], np.float32)}, outputs=["Y_h"]).outputs

        killed = set()
        for value in range(1, 41):
            if value in (10, 25):
                at = next(k for k, server in enumerate(servers) if _live_sessions(server) == 1)
                servers[at].stop(signal.SIGKILL)
                killed.add(at)
            seen = session.feed(np.array([[[value]]], np.float32))["Y_h"][0, 0]
            assert list(seen[:value]) == list(range(value, 0, -1)), "nothing is lost, nothing comes twice"
            if value in (15, 30):
                servers[at] = _listening_again(servers[at], *flags)
                assert _teach(servers[at]) == fingerprint
                with concurrent.futures.ThreadPoolExecutor(4) as users:
                    while not _count(servers[at]):
                        assert all(users.map(infer, range(8)))
        session.close()
        assert killed == {0, 1}
