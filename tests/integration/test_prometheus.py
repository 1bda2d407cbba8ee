# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus with the rules of deploy/ scrapes a server in use: sessions and slices are seen to move."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import yaml

import wire
from redis_process import Redis
from server_process import Server
from session_calls import Sessions, open_request

PROMETHEUS = wire.REPOSITORY / "deploy/prometheus"
SECONDS = 60


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus:
    """With the configuration of deploy/, which `edit` makes fit."""

    def __init__(self, targets, folder, file="prometheus.yml"):
        self.addresses = targets
        self.port = _free_port()
        config = (PROMETHEUS / file).read_text().replace("/etc/prometheus", str(PROMETHEUS))
        (folder / "prometheus.yml").write_text(self.edit(config, folder))
        self.log = open(folder / "log", "wb")
        self.process = subprocess.Popen(
            [shutil.which("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"], stdout=self.log, stderr=self.log)

    def edit(self, config, _folder) -> str:
        config = config.replace('"rnnserve-a:9464", "rnnserve-b:9464"', json.dumps(self.addresses)[1:-1])
        return config.replace("scrape_interval: 5s", "scrape_interval: 200ms")

    def query(self, expression) -> dict[str, float] | None:
        """Values by labels; None while it does not answer."""
        address = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                result = json.load(answer)["data"]["result"]
        except (urllib.error.URLError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise RuntimeError(f"prometheus ended with {self.process.wait(timeout=0.05)}")
            return None
        return {json.dumps(sample["metric"], sort_keys=True): float(sample["value"][1]) for sample in result}

    def await_value(self, expression, accept) -> float:
        while True:
            values = self.query(expression)
            if values and accept(next(iter(values.values()))):
                return next(iter(values.values()))

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=SECONDS)
        self.log.close()


class InCluster(Prometheus):
    """With the configuration for Kubernetes, and pods as its discovery would tell them: Debian builds Prometheus without."""

    def edit(self, config, _folder) -> str:
        def pod(address, app, port_name, phase="Running"):
            return {"targets": [address], "labels": {
                "__meta_kubernetes_pod_label_app": app, "__meta_kubernetes_pod_container_port_name": port_name,
                "__meta_kubernetes_pod_phase": phase, "__meta_kubernetes_namespace": "speech",
                "__meta_kubernetes_pod_name": "rnnserve-1"}}

        server, = self.addresses
        parsed = yaml.safe_load(config)
        job, = parsed["scrape_configs"]
        assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
        job["static_configs"] = [pod(server, "rnnserve", "admin"), pod("127.0.0.1:1", "rnnserve", "grpc"),
                                 pod("127.0.0.1:2", "nginx", "admin"), pod("127.0.0.1:3", "rnnserve", "admin", "Failed")]
        parsed["global"]["scrape_interval"] = "200ms"
        return yaml.safe_dump(parsed)


def test_in_kubernetes_the_job_is_the_one_of_the_alerts(tmp_path):
    with contextlib.ExitStack() as stack:
        server = Server("--drain_timeout=100ms")
        stack.callback(server.stop)
        prometheus = InCluster([f"127.0.0.1:{server.admin_port}"], tmp_path, "kubernetes.yml")
        stack.callback(prometheus.stop)
        prometheus.await_value("sum(up)", lambda value: value == 1)
        scraped, = prometheus.query("up")
        assert json.loads(scraped) == {"__name__": "up", "job": "rnnserve", "app": "rnnserve", "namespace": "speech",
                                       "pod": "rnnserve-1", "instance": f"127.0.0.1:{server.admin_port}"}


def test_sessions_and_slices_are_seen_to_move(tmp_path):
    (tmp_path / "secret").write_text("0123456789abcdef0123456789abcdef\n")
    with contextlib.ExitStack() as stack:
        redis = Redis()
        stack.callback(redis.stop)
        server = Server("--drain_timeout=100ms", f"--store=redis://127.0.0.1:{redis.port}",
                        f"--session_secret_file={tmp_path}/secret")
        stack.callback(server.stop)
        calls = Sessions(server.address)
        stack.callback(calls.close)
        prometheus = Prometheus([f"127.0.0.1:{server.admin_port}"], tmp_path)
        stack.callback(prometheus.stop)
        active = 'sum(rnnserve_sessions_active)'
        prometheus.await_value(active, lambda value: value == 0)
        slices = prometheus.await_value('sum(rnnserve_slices_total) or vector(0)', lambda value: True)
        opened = calls.stub.Open(open_request())
        durable = calls.open(fingerprint=opened.fingerprint, durability=wire.sessions_pb2.OpenRequest.SYNC)
        sessions = [opened.session, calls.open(), durable]
        for session in sessions:
            calls.feed(session, 1, [1, 2, 3])
        prometheus.await_value(active, lambda value: value == 3)
        prometheus.await_value('sum(rnnserve_slices_total)', lambda value: value >= slices + 3)
        assert prometheus.query('up{job="rnnserve"} == 1'), "scraped under the job that the alerts name"
        prometheus.await_value('sum(rnnserve_session_state_bytes)', lambda value: value >= 3 * 256)
        # Series that appear have no rate before they grow once more.
        for session in sessions:
            calls.feed(session, 2, [4])
        prometheus.await_value('sum(rnnserve_slices_total)', lambda value: value >= slices + 6)
        calls.apply(sessions[0], 3, close=wire.sessions_pb2.Close())
        prometheus.await_value(active, lambda value: value == 2)
        rules = json.load(urllib.request.urlopen(f"http://127.0.0.1:{prometheus.port}/api/v1/rules"))["data"]["groups"]
        assert all(rule["health"] in ("ok", "unknown") for group in rules for rule in group["rules"]) and rules
        _dashboard_shows_something(prometheus)


def _dashboard_shows_something(prometheus):
    """Each panel of deploy/grafana/dashboard.json, of a server that is in use."""
    panels = json.loads((wire.REPOSITORY / "deploy/grafana/dashboard.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels if panel["type"] != "row" for target in panel["targets"]]
    assert len(panels) == 19 and len({panel["title"] for panel in panels}) == len({panel["id"] for panel in panels}) == 19
    for expression in expressions:
        assert 'instance=~"$instance"' in expression, expression
        asked = expression.replace("$instance", ".*").replace("$__rate_interval", "1m")
        while not (values := prometheus.query(asked)):  # of rates once there have been two scrapes
            assert prometheus.process.poll() is None
        assert any(not math.isnan(value) for value in values.values()), expression
