# SPDX-License-Identifier: Apache-2.0
"""What lies in deploy/: alert rules by promtool's unit tests, nginx in front of two servers, flags that exist."""

from __future__ import annotations

import contextlib
import http.client
import re
import shutil
import socket
import subprocess

import pytest

import wire
from server_process import Server, run_to_end
from test_service import SECONDS, _case

DEPLOY = wire.REPOSITORY / "deploy"
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
    for metric in set(re.findall(r"rnnserve_\w+", rules)):
        assert f"`{re.sub(r'_bucket$', '', metric)}`" in DOCS, metric


def test_prometheus_takes_the_configuration(tmp_path):
    text = (DEPLOY / "prometheus/prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus", str(DEPLOY / "prometheus")))
    done = _run("promtool", "check", "config", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", ["deploy/compose.yaml", "deploy/kubernetes.yaml", "Dockerfile", "docs/operations.md"])
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


def test_the_pod_has_time_to_drain():
    text = (DEPLOY / "kubernetes.yaml").read_text()
    grace = int(re.search(r"terminationGracePeriodSeconds: (\d+)", text)[1])
    assert int(re.search(r"--drain_timeout=(\d+)s", text)[1]) < grace
    compose = (DEPLOY / "compose.yaml").read_text()
    grace = int(re.search(r"stop_grace_period: (\d+)s", compose)[1])
    assert int(re.search(r"--drain_timeout=(\d+)s", compose)[1]) < grace


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _count(server) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    return int(re.search(r'rnnserve_requests_total\{method="Recurrent.Infer",code="OK"\} (\d+)', text)[1])


def test_nginx_keeps_a_route_and_spreads_the_rest(tmp_path):
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    assert nginx, "./setup.sh --tests installs nginx"
    servers = [Server(), Server()]
    port = _free_port()
    text = (DEPLOY / "nginx.conf").read_text().replace("listen 8080", f"listen 127.0.0.1:{port}")
    for name, server in zip("ab", servers):
        text = text.replace(f"rnnserve-{name}:50051", server.address)
    (tmp_path / "nginx.conf").write_text(text.replace("/tmp/", f"{tmp_path}/").replace("/dev/stderr", f"{tmp_path}/log"))
    proxy = subprocess.Popen([nginx, "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path), "-g", "daemon off;"])
    try:
        with wire.channel(f"127.0.0.1:{port}") as channel:
            stub = wire.recurrent_grpc.RecurrentStub(channel)

            def infer(**options):
                return stub.Infer(wire.request(_case()), timeout=SECONDS, wait_for_ready=True, **options)

            for _ in range(40):
                assert infer().outputs
            assert all(_count(server) > 0 for server in servers), "spread"
            before = [_count(server) for server in servers]
            for _ in range(20):
                assert infer(metadata=[("x-session-route", "one-session")]).outputs
            grown = [_count(server) - count for server, count in zip(servers, before)]
            assert sorted(grown) == [0, 20], "a route stays at one server"
            servers[grown.index(20)].stop()
            assert infer(metadata=[("x-session-route", "one-session")]).outputs, "and moves when that one has gone"
    finally:
        proxy.terminate()
        proxy.wait(timeout=SECONDS)
        for server in servers:
            server.stop()
