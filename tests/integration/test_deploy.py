# SPDX-License-Identifier: Apache-2.0
"""What lies in deploy/: alert rules by promtool's unit tests, flags that exist, times that fit."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

import wire
from server_process import run_to_end
from test_service import SECONDS

DEPLOY = wire.REPOSITORY / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
REPLICAS = yaml.safe_load((DEPLOY / "compose.replicas.yaml").read_text())
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
    for metric in set(re.findall(r"rnnserve_\w+", rules + (DEPLOY / "grafana/dashboard.json").read_text())):
        assert f"`{re.sub(r'_(bucket|sum|count)$', '', metric)}`" in DOCS, metric


def test_prometheus_takes_the_configuration(tmp_path):
    text = (DEPLOY / "prometheus/prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus", str(DEPLOY / "prometheus")))
    done = _run("promtool", "check", "config", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", ["deploy/compose.yaml", "deploy/compose.replicas.yaml", "deploy/kubernetes/base/deployment.yaml",
                                  "deploy/kubernetes/overlays/replicas/store.yaml", "deploy/kserve.yaml", "Dockerfile",
                                  "docs/operations.md"])
def test_flags_exist(file):
    known = set(re.findall(r"--(\w+)", run_to_end("--help").stdout))
    text = (wire.REPOSITORY / file).read_text()
    used = set(re.findall(r"(?:- |value: |\"|`|rnnserve )--([a-z]\w*_\w+)", text))
    assert used, file
    assert used <= known


def test_every_flag_is_documented_with_its_default():
    flags = re.findall(r"^  --(\w+)(?:=(.*))?\n", run_to_end("--help").stdout, re.MULTILINE)
    documented = re.findall(r"^\| `--(\w+)` \| (?:`(.*?)`)? ?\|", DOCS, re.MULTILINE)
    assert sorted(documented) == sorted(flags)


def seconds(arguments, flag) -> int:
    return int(next(re.fullmatch(rf"--{flag}=(\d+)s", one)[1] for one in arguments if one.startswith(f"--{flag}=")))


def test_there_is_time_to_drain():
    for service in (COMPOSE["services"]["rnnserve-a"], COMPOSE["services"]["rnnserve-b"], REPLICAS["services"]["rnnserve"]):
        grace = int(service["stop_grace_period"].removesuffix("s"))
        assert grace >= seconds(service["command"], "drain_delay") + seconds(service["command"], "drain_timeout")


def test_the_replicas_find_each_other():
    """Names and ports of compose.replicas.yaml are those of its proxy, its store and its secret."""
    services = REPLICAS["services"]
    flags = services["rnnserve"]["command"]
    host, port = re.search(r"--store=redis://([^:]+):(\d+)", " ".join(flags)).groups()
    assert host in services and port == "6379"
    assert f"--session_secret_file=/run/secrets/{services['rnnserve']['secrets'][0]}" in flags
    proxy = (DEPLOY / "haproxy.cfg").read_text()
    name, port, admin = re.search(r"server-template \w+ \d+ (\w+):(\d+) port (\d+)", proxy).groups()
    assert name == "rnnserve" and f"--listen=0.0.0.0:{port}" in flags and f"--admin_listen=0.0.0.0:{admin}" in flags
    shared = set(services["rnnserve"]["networks"])
    assert set(services["haproxy"]["networks"]) <= shared and set(services["redis"]["networks"]) <= shared
    assert not set(services["haproxy"]["networks"]) & set(services["redis"]["networks"]), "the store asks for no password"
