# SPDX-License-Identifier: Apache-2.0
"""Models of tenants: what one loads is its own, what lies in the repository is everybody's, and of others' nothing is to
be seen, whatever is asked."""

from __future__ import annotations

import contextlib

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import formulas
import repository_files
import wire
from server_process import Server
from session_calls import open_request
from test_models import _case, _infer_model, _load, _ref
from test_onnxruntime import excess

TOKENS = {name: f"token-of-{name}-0123456789" for name in ("alice", "bob", "ops")}
TWO_MODELS = 16 << 10  # each counts 6 KiB and its weights
DENIED, UNKNOWN = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND


class Caller:
    """The calls of one token."""

    def __init__(self, server, name):
        self.server, self.metadata = server, [("authorization", f"Bearer {TOKENS[name]}")]

    def load(self, name, case, **fields):
        return self.server.models.Load(_load(name, case, **fields), metadata=self.metadata).model

    def load_file(self, name, version=1):
        request = wire.models_pb2.LoadRequest(name=name, version=version, repository=True)
        return self.server.models.Load(request, metadata=self.metadata).model

    def unload(self, name, version=None, **fields):
        self.server.models.Unload(wire.models_pb2.UnloadRequest(model=_ref(name, version), **fields),
                                  metadata=self.metadata)

    def get(self, **by):
        return self.server.models.Get(wire.models_pb2.GetModelRequest(**by), metadata=self.metadata).model

    def list(self, **fields):
        reply = self.server.models.List(wire.models_pb2.ListModelsRequest(**fields), metadata=self.metadata)
        return [(m.tenant, m.name, m.version) for m in reply.models]

    def infer(self, case, name, version=None):
        return wire.results(self.server.recurrent.Infer(_infer_model(case, name, version), metadata=self.metadata))

    def infer_fingerprint(self, case, fingerprint):
        return self.server.recurrent.Infer(wire.request(case, fingerprint=fingerprint), metadata=self.metadata)

    def open(self, **target):
        sessions = wire.sessions_grpc.SessionsStub(self.server.channel)
        return sessions.Open(open_request(**target), metadata=self.metadata)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tenants")
    (folder / "tokens").write_text(f"alice {TOKENS['alice']} models\nbob {TOKENS['bob']} models\n"
                                   f"ops {TOKENS['ops']} operator\n")
    for version in (1, 2):
        repository_files.write(folder / "models" / "shared" / str(version),
                               repository_files.model(repository_files.case("GRU", 14, seed=version)))
    running = Server(f"--tokens_file={folder}/tokens", f"--models={folder}/models", f"--model_weight_bytes={6 << 20}",
                     f"--max_tenant_share={TWO_MODELS / (6 << 20)}", "--drain_timeout=100ms")
    yield running
    assert running.alive(), running.log()
    assert running.stop() == 0


@pytest.fixture
def callers(server):
    alice, bob, ops = (Caller(server, name) for name in ("alice", "bob", "ops"))
    yield alice, bob, ops
    for tenant, name, version in ops.list(all_tenants=True):
        if tenant:
            ops.unload(name, version, tenant=tenant)


def test_a_tenant_may_not_unload_anothers_model(server, callers):
    """The case that began this: with the permission `models`, bob ended alice's model."""
    alice, bob, _ = callers
    alice.load("vad", _case(seed=1))
    unknown = wire.refusal(bob.unload, "no-such")
    refused = wire.refusal(bob.unload, "vad")
    assert refused.code == unknown.code == UNKNOWN and refused.reasons == ["MODEL_UNKNOWN"]
    assert refused.text == unknown.text.replace("no-such", "vad")
    assert not excess(alice.infer(_case(seed=1), "vad"), formulas.run(_case(seed=1)))[1]


def test_what_others_have_looks_unknown_everywhere(server, callers):
    alice, bob, _ = callers
    case = _case("LSTM", seed=3)
    fingerprint = alice.load("vad", case).fingerprint
    with_name = {"infer": lambda name: bob.infer(case, name), "open": lambda name: bob.open(model=_ref(name)),
                 "get": lambda name: bob.get(model=_ref(name)), "unload": bob.unload}
    for what, call in with_name.items():
        there, nowhere = wire.refusal(call, "vad"), wire.refusal(call, "xyz")
        assert (there.code, there.text, there.reasons) == (UNKNOWN, nowhere.text.replace("xyz", "vad"),
                                                            nowhere.reasons), what
        assert "shared" in there.text and '"vad"' in there.text
    for call in (lambda print_: bob.infer_fingerprint(case, print_), lambda print_: bob.get(fingerprint=print_),
                 lambda print_: bob.open(fingerprint=print_)):
        there, nowhere = wire.refusal(call, fingerprint), wire.refusal(call, "0" * 64)
        assert (there.code, there.reasons) == (UNKNOWN, ["FINGERPRINT_EVICTED"])
        assert there.text == nowhere.text.replace("0" * 64, fingerprint)
    assert bob.list() == [("", "shared", 1), ("", "shared", 2)]
    assert alice.list() == [("", "shared", 1), ("", "shared", 2), ("alice", "vad", 1)]
    # Health asks for no token, so it knows shared models alone.
    check = health_pb2_grpc.HealthStub(server.channel).Check
    assert check(health_pb2.HealthCheckRequest(service="shared")).status == health_pb2.HealthCheckResponse.SERVING
    assert wire.refusal(check, health_pb2.HealthCheckRequest(service="vad")).code == UNKNOWN
    # And what alice sent inline.
    inline = server.recurrent.Infer(wire.request(_case(seed=4)), metadata=alice.metadata).fingerprint
    assert alice.infer_fingerprint(_case(seed=4), inline).outputs
    assert wire.refusal(bob.infer_fingerprint, _case(seed=4), inline).reasons == ["FINGERPRINT_EVICTED"]


def test_two_tenants_use_one_name(callers):
    alice, bob, ops = callers
    cases = {alice: _case(seed=5), bob: _case(seed=6)}
    for caller, case in cases.items():
        caller.load("vad", case)
    for caller, case in cases.items():
        assert not excess(caller.infer(case, "vad"), formulas.run(case))[1]
        assert caller.get(model=_ref("vad")).tenant in ("alice", "bob")
        caller.open(model=_ref("vad"))
    assert ("alice", "vad", 1) in ops.list(all_tenants=True) and ("bob", "vad", 1) in ops.list(all_tenants=True)
    alice.unload("vad")
    assert wire.refusal(alice.infer, cases[alice], "vad").code == UNKNOWN
    assert not excess(bob.infer(cases[bob], "vad"), formulas.run(cases[bob]))[1]


def test_the_repositorys_models_are_everybodys_and_an_operators_to_change(callers):
    alice, bob, ops = callers
    case = repository_files.case("GRU", 14, seed=2)
    assert not excess(bob.infer(case, "shared"), formulas.run(case))[1]
    for refused in (wire.refusal(bob.unload, "shared"), wire.refusal(bob.unload, "shared", 1),
                    wire.refusal(bob.load_file, "shared", 1)):
        assert refused.code == DENIED and "operator" in refused.text, str(refused)
    own = _case(seed=7)
    alice.load("shared", own, version=1)
    assert not excess(alice.infer(own, "shared"), formulas.run(own))[1], "alice's own comes first"
    assert not excess(bob.infer(case, "shared"), formulas.run(case))[1]
    ops.unload("shared", 2)
    assert wire.refusal(bob.infer, case, "shared", 2).code == UNKNOWN
    assert ops.load_file("shared", 2).tenant == ""
    assert not excess(bob.infer(case, "shared"), formulas.run(case))[1]


def test_an_operators_upload_is_everybodys(callers):
    _, bob, ops = callers
    case = _case(seed=8)
    assert ops.load("from-ops", case).tenant == ""
    assert not excess(bob.infer(case, "from-ops"), formulas.run(case))[1]
    assert wire.refusal(bob.unload, "from-ops").code == DENIED
    ops.unload("from-ops")


def test_an_operator_unloads_a_tenants_model(callers):
    alice, bob, ops = callers
    alice.load("vad", _case(seed=9))
    for refused in (wire.refusal(bob.unload, "vad", tenant="alice"), wire.refusal(bob.unload, "xyz", tenant="alice"),
                    wire.refusal(bob.list, all_tenants=True)):
        assert refused.code == DENIED and "operator" in refused.text
    assert wire.refusal(ops.unload, "vad").code == UNKNOWN, "it is not everybody's"
    assert wire.refusal(ops.unload, "shared", tenant="alice").code == UNKNOWN, "it is not alice's"
    ops.unload("vad", tenant="alice")
    assert wire.refusal(alice.infer, _case(seed=9), "vad").code == UNKNOWN


def test_quota(callers):
    alice, bob, ops = callers
    for version in (1, 2):
        alice.load("many", _case(seed=10), version=version)
    refused = wire.refusal(alice.load, "many", _case(seed=10), version=3)
    assert refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED and refused.reasons == ["QUOTA_EXCEEDED"]
    assert "--max_tenant_share" in refused.text
    bob.load("many", _case(seed=10))
    with contextlib.ExitStack() as stack:
        for version in (1, 2, 3):
            ops.load("many-of-all", _case(seed=10), version=version)
            stack.callback(ops.unload, "many-of-all", version)
