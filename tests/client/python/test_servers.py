# SPDX-License-Identifier: Apache-2.0
"""Which server of several a call or a session goes to. No server and no clock."""

import collections
import json
import pathlib
import socket

import grpc
import pytest

from rnnserve import RnnServeError
from rnnserve.backends import addresses_of
from rnnserve.backends.threads import finish
from rnnserve.core import addresses_in
from rnnserve.lookup import LOOK_SECONDS, Lookup, host_and_port
from rnnserve.servers import Servers, score

LOST = RnnServeError(grpc.StatusCode.UNAVAILABLE, "no answer")
NO_ENGINE = RnnServeError(grpc.StatusCode.UNAVAILABLE, "the device is lost", reason="ENGINE_OUT_OF_SERVICE")
SCENARIO = json.loads((pathlib.Path(__file__).parents[1] / "balancing.json").read_text())


def in_the_order_of_the_list(addresses):
    return list(addresses)


def three(**options):
    return Servers(["a:1", "b:1", "c:1"], shuffled=in_the_order_of_the_list, **options)


def call(servers, now=100.0, ends=True):
    chosen = servers.for_call(now)[0]
    servers.began(chosen)
    if ends:
        servers.ended(chosen)
    return chosen


@pytest.mark.parametrize("scene", SCENARIO["calls"], ids=lambda scene: scene["name"])
def test_scenes_of_calls(scene):
    """The same file is replayed by the C++ client (tests/client/cpp/servers_test.cc)."""
    servers = Servers(scene["servers"], shuffled=in_the_order_of_the_list, pick_first=scene.get("pick_first", False))
    for step in scene["steps"]:
        now = step.get("at", 0.0)
        if "refuses" in step:
            servers.refused(step["refuses"], RnnServeError(
                grpc.StatusCode.UNAVAILABLE, "", retry_after=step.get("retry_after"), reason=step.get("reason", "")), now)
        elif "takes" in step:
            servers.took(step["takes"])
        elif "ends" in step:
            servers.ended(step["ends"])
        elif "list" in step:
            servers.set(step["list"])
        elif "order" in step:
            assert servers.for_call(now) == step["order"]
        elif "sessions" in step:
            assert [servers.for_session("", now)[0] for _ in step["sessions"]] == step["sessions"]
        else:
            for expected in step["calls"]:
                assert call(servers, now, ends=step.get("end", True)) == expected


def test_the_hash_of_names_is_that_of_both_clients():
    for name, address, expected in SCENARIO["scores"]:
        assert score(name, address) == int(expected, 16), (name, address)


def test_a_thousand_calls_and_a_thousand_sessions_are_even():
    servers = three()
    calls = collections.Counter(call(servers) for _ in range(1000))
    unnamed = collections.Counter(servers.for_session("", 100.0)[0] for _ in range(1000))
    named = collections.Counter(servers.for_session(f"call-{k}", 100.0)[0] for k in range(1000))
    for counts in (calls, unnamed, named):
        assert len(counts) == 3 and all(300 <= count <= 366 for count in counts.values()), counts


def test_a_name_moves_only_where_its_server_went():
    servers = three()
    names = [f"call-{k}" for k in range(300)]
    before = {name: servers.for_session(name, 100.0) for name in names}
    servers.refused("b:1", LOST, 100.0)
    for name in names:
        after = servers.for_session(name, 100.5)
        assert after == sorted(before[name], key=lambda address: address == "b:1")
        assert servers.for_session(name, 101.0) == before[name], "it is asked again"


def test_clients_begin_with_different_servers():
    firsts = {Servers(["a:1", "b:1", "c:1"]).for_call(100.0)[0] for _ in range(200)}
    assert firsts == {"a:1", "b:1", "c:1"}


def test_a_server_that_left_the_list_keeps_its_calls_to_the_end():
    servers = three()
    assert call(servers, ends=False) == "a:1"
    assert servers.set(["b:1", "d:1"]) == ["c:1"] and servers.addresses == ["b:1", "d:1"]
    assert "a:1" not in servers.for_call(100.0)
    assert servers.ended("a:1"), "its channel may be closed"


def test_addresses_by_comma_and_as_a_list():
    assert addresses_in("a:1, b:1", ["c:1", "a:1"]) == ["a:1", "b:1", "c:1"]
    assert addresses_in(["a:1", "unix:/x"]) == ["a:1", "unix:/x"]
    for wrong in ("", "a:1,", "a:1,b", []):
        with pytest.raises(ValueError, match="HOST:PORT"):
            addresses_in(wrong)


def test_which_targets_are_looked_up():
    assert host_and_port("rnnserve:50051") == ("rnnserve", 50051) == host_and_port("dns:///rnnserve:50051")
    for target in ("127.0.0.1:1", "[::1]:1", "unix:/tmp/x", "unix:x:1", "localhost:1", "ipv4:1.2.3.4:5", "xds:///a:1"):
        assert host_and_port(target) is None, target


def test_a_host_with_addresses_of_both_kinds_is_one_server():
    four, six = (socket.AF_INET, 0, 0, "", ("10.0.0.2", 1)), (socket.AF_INET6, 0, 0, "", ("fd00::2", 1, 0, 0))
    assert addresses_of([six, four, four]) == ["10.0.0.2"] and addresses_of([six]) == ["fd00::2"]


class Names:
    """DNS, by hand."""

    def __init__(self, targets):
        self.now, self.answers, self.asked, self.dropped = 1000.0, {}, [], []
        self.servers = Servers(targets, shuffled=in_the_order_of_the_list)
        self.lookup = Lookup(targets, self.servers, self._resolve, lambda run: finish(run()), self.dropped.append,
                             clock=lambda: self.now)

    async def _resolve(self, host, port):
        self.asked.append((host, port))
        answer = self.answers[host]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def after(self, seconds):
        self.now += seconds
        finish(self.lookup.fresh())
        return self.servers.addresses


def test_names_are_looked_up_again():
    names = Names(["pods:7", "10.9.9.9:1"])
    names.answers["pods"] = ["10.0.0.1", "10.0.0.2"]
    assert names.after(0) == ["10.0.0.1:7", "10.0.0.2:7", "10.9.9.9:1"]
    assert names.lookup.names["10.0.0.2:7"] == "pods:7", "what its certificate says"
    names.answers["pods"] = ["10.0.0.2", "10.0.0.3", "fd00::1"]
    assert names.after(LOOK_SECONDS - 1)[0] == "10.0.0.1:7" and len(names.asked) == 1
    assert names.after(1) == ["10.0.0.2:7", "10.0.0.3:7", "[fd00::1]:7", "10.9.9.9:1"]
    assert names.dropped == ["pods:7", "10.0.0.1:7"]
    names.answers["pods"] = socket.gaierror("no such host")
    names.lookup.doubt()
    assert names.after(1)[0] == "10.0.0.2:7" and len(names.asked) == 3, "sooner after a failure; what is known stays"
    names.answers["pods"] = ["10.0.0.2"]
    assert names.after(LOOK_SECONDS) == ["pods:7", "10.9.9.9:1"], "gRPC looks up a name with one address"
