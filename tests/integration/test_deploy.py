# SPDX-License-Identifier: Apache-2.0
"""What lies in deploy/: alert rules by promtool's unit tests, nginx and haproxy in front of three servers, flags that
exist."""

from __future__ import annotations

import concurrent.futures
import contextlib
import re
import shutil
import signal
import socket
import subprocess

import grpc
import kubernetes_validate
import numpy as np
import pytest
import rnnserve
import yaml

import wire
from server_process import Server, run_to_end
from session_calls import Sessions, remembering_weights
from test_admin import _metrics
from test_service import SECONDS, _case

DEPLOY = wire.REPOSITORY / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
DOCS = (wire.REPOSITORY / "docs/operations.md").read_text()


def _run(*arguments, **options):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=SECONDS, check=False, **options)


def test_alert_rules():
    done = _run("promtool", "test", "rules", "alerts_test.yml", cwd=DEPLOY / "prometheus")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_has_a_paragraph_and_asks_for_metrics_that_exist():
    rules = (DEPLOY / "prometheus/alerts.yml").read_text()
    tests = (DEPLOY / "prometheus/alerts_test.yml").read_text()
    alerts = re.findall(r"- alert: (\w+)", rules)
    assert alerts and len(alerts) == len(re.findall(r"runbook: docs/operations.md#", rules))
    for alert in alerts:
        assert f"alertname: {alert}\n        exp_alerts:" in tests, alert
        assert f"#{alert.lower()}\n" in rules and f"### {alert}\n" in DOCS, alert
    for metric in set(re.findall(r"rnnserve_\w+", rules + (DEPLOY / "grafana.json").read_text())):
        assert f"`{re.sub(r'_(bucket|sum|count)$', '', metric)}`" in DOCS, metric


def test_prometheus_takes_the_configuration(tmp_path):
    text = (DEPLOY / "prometheus/prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus", str(DEPLOY / "prometheus")))
    done = _run("promtool", "check", "config", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", ["deploy/compose.yaml", "deploy/kubernetes.yaml", "deploy/kserve.yaml", "Dockerfile", "docs/operations.md"])
def test_flags_exist(file):
    known = set(re.findall(r"--(\w+)", run_to_end("--help").stdout))
    text = (wire.REPOSITORY / file).read_text()
    used = set(re.findall(r"(?:- |\"|`|rnnserve )--([a-z]\w*_\w+)", text))
    assert used, file
    assert used <= known


def test_every_flag_is_documented_with_its_default():
    flags = re.findall(r"^  --(\w+)(?:=(.*))?\n", run_to_end("--help").stdout, re.MULTILINE)
    documented = re.findall(r"^\| `--(\w+)` \| (?:`(.*?)`)? ?\|", DOCS, re.MULTILINE)
    assert sorted(documented) == sorted(flags)


def _pod():
    deployment = next(document for document in KUBERNETES if document["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"], deployment


def _seconds(arguments, flag) -> int:
    return int(next(re.fullmatch(rf"--{flag}=(\d+)s", one)[1] for one in arguments if one.startswith(f"--{flag}=")))


@pytest.mark.parametrize("version", ["1.25", "1.29", "1.33", ""])
def test_kubernetes_knows_every_field(version):
    version = version or kubernetes_validate.latest_version()
    assert len(KUBERNETES) == 5
    for document in KUBERNETES:
        kubernetes_validate.validate(document, version, strict=True)
    pod, deployment = _pod()
    pod["containers"][0]["readinessprobe"] = {}
    try:
        with pytest.raises(kubernetes_validate.ValidationError, match="readinessprobe"):
            kubernetes_validate.validate(deployment, version, strict=True)
    finally:
        del pod["containers"][0]["readinessprobe"]


def test_the_parts_of_the_manifest_fit():
    pod, deployment = _pod()
    kinds = {document["kind"]: document for document in KUBERNETES}
    policy = kinds["NetworkPolicy"]["spec"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (kinds["Service"]["spec"]["selector"], deployment["spec"]["selector"]["matchLabels"],
                     kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"], policy["podSelector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    assert kinds["PodDisruptionBudget"]["spec"]["maxUnavailable"] < deployment["spec"]["replicas"]
    assert pod["serviceAccountName"] == kinds["ServiceAccount"]["metadata"]["name"]
    server = pod["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert {port["targetPort"] for port in kinds["Service"]["spec"]["ports"]} == set(ports)
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == set(ports)
    assert all("from" in rule for rule in policy["ingress"] if {"port": "admin"} in rule["ports"]), "it asks for no token"
    assert f"--listen=0.0.0.0:{ports['grpc']}" in server["args"]
    assert f"--admin_listen=0.0.0.0:{ports['admin']}" in server["args"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        page = server[probe]["httpGet"]
        assert page["port"] == "admin" and page["path"] in ("/healthz", "/readyz")
    assert f"--workers={server['resources']['requests']['cpu']}" in server["args"]
    assert {mount["name"] for mount in server["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert server["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                         "capabilities": {"drop": ["ALL"]}}
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 65532


def test_there_is_time_to_drain():
    pod, _ = _pod()
    pods = pod["containers"][0]["args"]
    assert pod["terminationGracePeriodSeconds"] >= _seconds(pods, "drain_delay") + _seconds(pods, "drain_timeout")
    for name in ("rnnserve-a", "rnnserve-b"):
        service = COMPOSE["services"][name]
        grace = int(service["stop_grace_period"].removesuffix("s"))
        assert grace >= _seconds(service["command"], "drain_delay") + _seconds(service["command"], "drain_timeout")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _count(server) -> int:
    return int(_metrics(server)['rnnserve_requests_total{method="Recurrent.Infer",code="OK"}'])


def _remembering():
    w, r = (wire.array(tensor) for tensor in remembering_weights())
    return rnnserve.rnn(w, r, activations=["Affine"], activation_alpha=[1.0], activation_beta=[0.0])


def _live_sessions(server) -> int:
    return int(_metrics(server)['rnnserve_sessions_active{model="(inline)"}'])


def _nginx(port, servers, folder):
    binary = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    assert binary, "./setup.sh --tests installs nginx"
    text = (DEPLOY / "nginx.conf").read_text().replace("listen 8080", f"listen 127.0.0.1:{port}")
    text = text.replace("/tmp/", f"{folder}/").replace("/dev/stderr", f"{folder}/log")
    lines = "".join(f"    server {server.address} max_fails=1 fail_timeout=5s;\n" for server in servers)
    text = re.sub(r"(?:    server rnnserve-.*\n)+", lines, text)
    (folder / "nginx.conf").write_text(text)
    return [binary, "-c", folder / "nginx.conf", "-p", folder, "-g", "daemon off;"]


def _haproxy(port, servers, folder):
    binary = shutil.which("haproxy", path="/usr/sbin:/usr/bin")
    assert binary, "./setup.sh --tests installs haproxy"
    text = (DEPLOY / "haproxy.cfg").read_text().replace("bind :8080", f"bind 127.0.0.1:{port}")
    lines = "".join(f"  server s{k} {server.address} port {server.admin_port}\n" for k, server in enumerate(servers))
    text = re.sub(r"(?:  server [ab] .*\n)+", lines, text)
    (folder / "haproxy.cfg").write_text(text)
    return [binary, "-db", "-f", folder / "haproxy.cfg"]


def _listens(port) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def proxied(proxy, servers, folder):
    """The address of a proxy in front of `servers`, with the configuration of deploy/."""
    port = _free_port()
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
