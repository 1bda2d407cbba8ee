# SPDX-License-Identifier: Apache-2.0
"""deploy/compose.yaml, started as it is: two servers, nginx, Prometheus. Sessions stick to a server through nginx, both
servers are scraped, the rules are loaded; a server that is stopped leaves with 0, its sessions go on at the other one,
and RnnserveDown rings until it is back."""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import numpy as np
import pytest
import rnnserve
import yaml

import wire
from containers import TOOLS, Engine, why_not
from test_deploy import COMPOSE, DEPLOY, REPLICAS
from test_rolling_restart import H, remembering
from test_service import SECONDS, _case

PROJECT = "rnnserve-campaign"
SESSIONS = 12
PATIENCE_SECONDS = 240


def _published(service) -> str:
    """Where COMPOSE puts the only port of a service."""
    return COMPOSE["services"][service]["ports"][0].rpartition(":")[0]


def _prometheus(path, **query):
    address = f"http://{_published('prometheus')}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=SECONDS) as answer:
        return json.load(answer)["data"]
    return None


def _await(what, look):
    """What `look` says, once that is true."""
    deadline, pause = time.monotonic() + PATIENCE_SECONDS, threading.Event()
    while time.monotonic() < deadline:
        if found := look():
            return found
        pause.wait(0.2)
    raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what}")


def _by_instance(expression) -> dict[str, float]:
    data = _prometheus("query", query=expression)
    return {one["metric"]["instance"]: float(one["value"][1]) for one in data["result"]} if data else {}


def _alert() -> str:
    alerts = _prometheus("alerts")["alerts"]
    states = {alert["state"] for alert in alerts if alert["labels"]["alertname"] == "RnnserveDown"}
    return "firing" if "firing" in states else "pending" if states else "inactive"


class Feeder(threading.Thread):
    def __init__(self, client, stop):
        super().__init__(daemon=True)
        self.client, self.stop, self.fed, self.trouble = client, stop, 0, None

    def run(self):
        try:
            with self.client.session(remembering(), outputs=["Y_h"]) as session:
                while not self.stop.wait(0.02):
                    seen = session.feed(np.array([[[self.fed + 1]]], np.float32))["Y_h"][0, 0]
                    self.fed += 1
                    assert list(seen) == [max(self.fed - k, 0) for k in range(H)], self.fed
        except BaseException as error:  # told by the test, whatever it is
            self.trouble = error


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    if reason := why_not():
        pytest.skip(reason)
    engine = Engine(tmp_path_factory.mktemp("engine"))
    if TOOLS:
        for name, tag in (("nginx", "nginx:stable"), ("prometheus", "prom/prometheus:latest")):
            engine.build(pathlib.Path(__file__).parent / "compose" / name, tag)
    if not engine.run("image", "ls", "-q", "rnnserve:latest").strip():
        engine.build(wire.REPOSITORY, "rnnserve:latest")
    return engine


@pytest.fixture(scope="module")
def names(engine, tmp_path_factory):
    """Of the containers, by service."""
    folder = tmp_path_factory.mktemp("compose") / "deploy"
    shutil.copytree(DEPLOY, folder)
    (folder / "models").mkdir(exist_ok=True)
    compose = ["-p", PROJECT, "-f", str(folder / "compose.yaml")]
    stop = threading.Event()
    engine.run_compose(*compose, "up", "-d", "--no-build")
    try:
        listed = engine.run("ps", "--filter", f"name={PROJECT}", "--format", "{{.Names}}").split()
        names = {service: next(name for name in listed if service in name) for service in COMPOSE["services"]}
        servers = [name for service, name in names.items() if service.startswith("rnnserve")]
        asking = threading.Thread(target=engine.ask_for_health, args=(servers, stop), daemon=True)
        asking.start()
        yield names
    finally:
        stop.set()
        engine.run_compose(*compose, "down", "-t", "45")


def _is_healthy(engine, name):
    return engine.run("inspect", "--format", "{{.State.Health.Status}}", name).strip() == "healthy"


@pytest.mark.parametrize("name, said", [("compose.yaml", COMPOSE), ("compose.replicas.yaml", REPLICAS)])
def test_docker_compose_takes_the_file(name, said):
    done = subprocess.run(["docker-compose", "-f", DEPLOY / name, "config"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == set(said["services"])


def test_the_composition(engine, names, tell):
    began = time.monotonic()
    for service in ("rnnserve-a", "rnnserve-b"):
        _await(f"{service} is healthy", lambda: _is_healthy(engine, names[service]))
    tell(f"both servers healthy {time.monotonic() - began:.1f} s after `compose up` returned")
    everyone = {"rnnserve-a:9464", "rnnserve-b:9464"}
    up = 'up{job="rnnserve"} == 1'
    _await("both targets are up", lambda: set(_by_instance(up)) == everyone)
    rules = {rule["name"] for group in _prometheus("rules")["groups"] for rule in group["rules"]}
    assert rules == set(re.findall(r"- alert: (\w+)", (DEPLOY / "prometheus/alerts.yml").read_text()))
    tell(f"Prometheus: both targets up, {len(rules)} rules loaded")

    answered = 'sum by (instance) (rnnserve_requests_total{method="Recurrent.Infer",code="OK"})'
    with wire.channel(_published("nginx")) as channel:
        stub = wire.recurrent_grpc.RecurrentStub(channel)

        def infer(**options):
            assert stub.Infer(wire.request(_case()), timeout=SECONDS, wait_for_ready=True, **options).outputs

        for _ in range(60):
            infer()
        _await("60 calls are counted", lambda: sum(_by_instance(answered).values()) == 60)
        spread = _by_instance(answered)
        assert all(spread.values()), spread
        for _ in range(40):
            infer(metadata=[("x-session-route", "one-session")])
        _await("40 more are", lambda: sum(_by_instance(answered).values()) == 100)
        grown = {instance: count - spread[instance] for instance, count in _by_instance(answered).items()}
        assert sorted(grown.values()) == [0, 40]
        tell(f"nginx: calls by server, 60 without a route {sorted(map(int, spread.values()))}, 40 of one route "
             f"{sorted(map(int, grown.values()))}")


def test_a_server_is_stopped_and_comes_back(engine, names, tell):
    stop = threading.Event()
    clients = [rnnserve.Client(_published("nginx")) for _ in range(4)]
    users = [Feeder(clients[k % len(clients)], stop) for k in range(SESSIONS)]
    try:
        for user in users:
            user.start()
        active = "sum by (instance) (rnnserve_sessions_active)"
        _await("all sessions are seen", lambda: sum(_by_instance(active).values()) == SESSIONS)
        held = {instance: int(count) for instance, count in _by_instance(active).items()}
        assert len(held) == 2 and all(held.values()), f"they are spread: {held}"
        _await("no alert", lambda: _alert() == "inactive")
        grace = re.sub(r"\D", "", COMPOSE["services"]["rnnserve-a"]["stop_grace_period"])
        began = time.monotonic()
        engine.run("stop", "-t", grace, names["rnnserve-a"])
        left = time.monotonic() - began
        assert engine.run("inspect", "--format", "{{.State.ExitCode}}", names["rnnserve-a"]).strip() == "0"
        _await("it is pending", lambda: _alert() == "pending")
        _await("all sessions are at the other one",
               lambda: _by_instance(active).get("rnnserve-b:9464") == SESSIONS)
        _await("it rings", lambda: _alert() == "firing")
        rang = time.monotonic() - began
        engine.run("start", names["rnnserve-a"])
        _await("it stops ringing", lambda: _alert() == "inactive")
        quiet = time.monotonic() - began - rang
        tell(f"rnnserve-a stopped: left with 0 after {left:.1f} s, of {held} its sessions went on at rnnserve-b; "
             f"RnnserveDown inactive, pending, firing after {rang:.0f} s, inactive {quiet:.0f} s after the start")
        before = [user.fed for user in users]
        _await("all go on", lambda: all(user.fed > fed or user.trouble for user, fed in zip(users, before)))
    finally:
        stop.set()
        for user in users:
            user.join(60)
        for client in clients:
            client.close()
    assert not [repr(user.trouble) for user in users if user.trouble]
    tell(f"{SESSIONS} sessions through nginx all the while: {sum(user.fed for user in users)} chunks, no error")
