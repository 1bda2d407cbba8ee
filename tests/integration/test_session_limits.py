# SPDX-License-Identifier: Apache-2.0
"""Sessions at their edges: bad input on every field, callers that never read, leaving, expiry."""
import signal
import time

import grpc
import numpy as np
import pytest

import wire
from server_process import Server
from session_calls import H, Sessions, Stream, chunk, log_of, open_request, operation

pb = wire.sessions_pb2
Code = grpc.StatusCode
LONG = "n" * 129


def duration(seconds=0, nanos=0):
    from google.protobuf import duration_pb2
    return duration_pb2.Duration(seconds=seconds, nanos=nanos)


def state_of(shape, name="initial_h", dtype=np.float32):
    return pb.StateTensors(tensors=[wire.tensor(name, np.zeros(shape, dtype))])


OPEN = {
    "request_id": {"request_id": LONG},
    "name": {"name": LONG},
    "attach": {"attach": True},
    "engine": {"engine": "no such"},
    "rows": {"rows": 0},
    "idle_timeout": {"idle_timeout": duration(-1)},
    "max_in_flight": {"max_in_flight": 0},
    "window_operations": {"window_operations": -1},
    "window_bytes": {"window_bytes": -1},
    "durability": {"durability": 9},
    "outputs[Z]": {"outputs": ["Z"]},
    "outputs": {"outputs": ["Y"] * 300},
    "state.tensors": {"state": pb.StateTensors()},
    "state.tensors[initial_h].shape": {"state": state_of((1, 1, H + 1))},
    "state.tensors[initial_h].data_type": {"state": state_of((1, 1, H), dtype=np.float64)},
    "state.tensors[initial_c]": {"state": state_of((1, 1, H), name="initial_c")},
    "options.empty_row_state": {"options": wire.tensor_pb2.Options(empty_row_state=9)},
}


@pytest.mark.parametrize("field", OPEN)
def test_bad_open(sessions, field):
    failure = wire.refusal(sessions.stub.Open, open_request(**OPEN[field]))
    assert failure.code == Code.INVALID_ARGUMENT and failure.fields == [field], failure


def test_open_without_a_target(sessions):
    assert wire.refusal(sessions.stub.Open, pb.OpenRequest()).fields == ["target"]
    unknown = wire.refusal(sessions.stub.Open, pb.OpenRequest(model=wire.tensor_pb2.ModelRef(name="none")))
    assert unknown.code == Code.NOT_FOUND and unknown.reasons == ["MODEL_UNKNOWN"]
    stored = wire.refusal(sessions.stub.Open, open_request(durability=pb.OpenRequest.SYNC))
    assert stored.code == Code.FAILED_PRECONDITION and stored.reasons == ["NO_STORE"]


def limits_of_the_docs():
    """{what: (least, most)} of the table in docs/sessions.md, None where a cell names no number."""
    table = (wire.REPOSITORY / "docs/sessions.md").read_text().split("| what | from | to | default |\n", 1)[1].split("\n\n", 1)[0]
    number = {"": None, "above 0": 1e-9, "1 GiB": 2**30, "24 h, or `--session_idle_timeout` if longer; longer ones become that": None}
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]
    return {what.replace("`", ""): tuple(number[cell] if cell in number else int(cell.replace(",", "")) for cell in (least, most))
            for what, least, most, _ in rows}


def open_with_unknown_outputs(sessions, count):
    """No operator has so many: what is wrong is the first of them, as long as their number is not."""
    try:
        sessions.open(outputs=[f"Y{k}" for k in range(count)])
    except grpc.RpcError as error:
        if wire.Failure(error).fields != ["outputs[Y0]"]:
            raise


LIMITS = limits_of_the_docs()
TRIED = {
    "rows of a session, entries of SelectRows": [
        lambda s, n: s.open(rows=n), lambda s, n: s.apply(s.open(), 1, select_rows=pb.SelectRows(rows=[0] * n))],
    "bytes of a session's name, request id, checkpoint's name": [
        lambda s, n: s.open(name="n" * n), lambda s, n: s.open(request_id="r" * n),
        lambda s, n: s.checkpoint(s.open(), "c" * n)],
    "checkpoints of a session": [lambda s, n: (lambda key: [s.checkpoint(key, f"c{k}") for k in range(n)])(s.open())],
    "forks of one Fork": [lambda s, n: s.fork(s.open(), count=n)],
    "names in outputs": [lambda s, n: open_with_unknown_outputs(s, n)],
    "max_in_flight": [lambda s, n: s.open(max_in_flight=n)],
    "window_operations": [lambda s, n: s.open(window_operations=n)],
    "window_bytes": [lambda s, n: s.open(window_bytes=n)],
    "idle_timeout": [lambda s, n: s.open(idle_timeout=duration(int(n), round(n % 1 * 1e9)))],
    "priority": [lambda s, n: s.apply(s.open(), 1, priority=n, **chunk([1]))],
    "page of List": [lambda s, n: s.stub.List(pb.ListSessionsRequest(page_size=n))],
}


@pytest.mark.parametrize("what", TRIED)
def test_limits_are_as_documented(sessions, what):
    least, most = LIMITS[what]
    for call in TRIED[what]:
        for edge, beyond in ((least, 0 if least == 1e-9 else -1), (most, 1)):
            if edge is not None:
                call(sessions, edge)
                refused = wire.refusal(call, sessions, beyond and edge + beyond)
                assert refused.code in (Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED), refused


def test_every_documented_limit_is_tried():
    assert set(LIMITS) - set(TRIED) == {"characters of a bearer token"}, "that one: tokens_test"


OPERATIONS = {
    "operation.request_id": {"request_id": LONG, **chunk([1])},
    "operation.priority": {"priority": 101, **chunk([1])},
    "operation.timeout": {"timeout": duration(0), **chunk([1])},
    "operation.kind": {},
    "operation.chunk.inputs[X]": chunk([1]) | {"chunk": pb.Chunk()},
    "operation.chunk.inputs[initial_h]": {"chunk": pb.Chunk(inputs=[
        wire.tensor("X", np.zeros((1, 1, 1), np.float32)), wire.tensor("initial_h", np.zeros((1, 1, H), np.float32))])},
    "operation.chunk.inputs[X].data_type": chunk([1], np.float64),
    "operation.chunk.inputs[X].shape": chunk(np.zeros((2, 3))),
    "operation.chunk.outputs": {"chunk": pb.Chunk(inputs=[wire.tensor("X", np.zeros((1, 1, 1), np.float32))], outputs=["Y"])},
    "operation.chunk.outputs[Z]": chunk([1], outputs=["Z"], override_outputs=True),
    "operation.reset.state.tensors[initial_h].shape": {"reset": pb.Reset(state=state_of((1, 1, 1)))},
    "operation.set_state.state.tensors[initial_h].shape": {"set_state": pb.SetState(state=state_of((1, 1, 1)), force=True)},
    "operation.select_rows.rows": {"select_rows": pb.SelectRows()},
    "operation.select_rows.rows[0]": {"select_rows": pb.SelectRows(rows=[1])},
    "operation.rewind.checkpoint": {"rewind": pb.Rewind()},
    "operation.checkpoint.name": {"checkpoint": pb.CheckpointRequest(name=LONG)},
    "operation.fork.count": {"fork": pb.ForkRequest(count=0)},
    "operation.fork.names": {"fork": pb.ForkRequest(names=["a", "a"], count=2)},
}


@pytest.mark.parametrize("field", OPERATIONS)
def test_bad_operations(sessions, field):
    session = sessions.open()
    sessions.feed(session, 1, [7])
    failure = wire.refusal(sessions.apply, session, 2, **OPERATIONS[field])
    assert failure.code == Code.INVALID_ARGUMENT and failure.fields == [field], failure
    numbers = failure.infos[0].metadata
    assert (numbers["last_applied"], numbers["next_expected"]) == ("1", "2"), "every session error carries them"
    sessions.feed(session, 2, [8])
    assert sessions.log(session) == [7, 8], "a refused operation takes no number"


@pytest.mark.parametrize("key", ["", "x", "A" * 56, "\u00e4" * 20, "k" * 100_000])
def test_keys_that_never_were(sessions, key):
    for call in (lambda: sessions.feed(key, 1, [1]), lambda: sessions.state(key), lambda: sessions.fork(key),
                 lambda: sessions.checkpoint(key, "n")):
        failure = wire.refusal(call)
        assert failure.code == Code.NOT_FOUND and failure.reasons == ["SESSION_UNKNOWN"]


def test_a_key_of_another_boot(sessions):
    other = Server()
    foreign = Sessions(other.address)
    key = foreign.open()
    failure = wire.refusal(sessions.feed, key, 2, [1])
    assert failure.code == Code.DATA_LOSS and failure.reasons == ["SESSION_LOST"]
    sessions_left = foreign.apply(key, 1, close=pb.Close())
    assert sessions_left.last_applied == 1
    foreign.close()
    assert other.stop() == 0


def test_numbers_out_of_order_and_zero(sessions):
    session = sessions.open(window_operations=2)
    assert wire.refusal(sessions.feed, session, 0, [1]).code == Code.INVALID_ARGUMENT
    assert wire.refusal(sessions.feed, session, 2**64 - 1, [1]).code == Code.OUT_OF_RANGE
    for number in range(1, 5):
        sessions.feed(session, number, [number])
    old = wire.refusal(sessions.feed, session, 1, [1])
    assert old.code == Code.ALREADY_EXISTS and old.infos[0].metadata["last_applied"] == "4"
    assert sessions.feed(session, 3, [3]).repeated_reply


def test_a_caller_that_never_reads_holds_up_nobody(server, sessions):
    """Far more replies than any buffer takes: the server stops reading that stream, and others are answered as ever."""
    session = sessions.open(rows=64, max_in_flight=1024, window_operations=4, window_bytes=1 << 22)
    channel = wire.channel(server.address)
    call = wire.recurrent_grpc.RecurrentStub(channel).Stream(
        iter([pb.StreamRequest(operations=[operation(session, n, **chunk(np.ones((16, 64))))]) for n in range(1, 400)]))
    before = server.resident_kib()
    other = sessions.open()
    for number in range(1, 50):
        sessions.feed(other, number, [number])
    assert server.resident_kib() - before < 300 << 10
    assert sessions.log(other)[-1] == 49
    call.cancel()
    channel.close()


def test_expiry(sessions):
    session = sessions.open(idle_timeout=duration(1))
    kept = sessions.open(idle_timeout=duration(600))
    deadline = time.monotonic() + 30
    while True:
        # Being listed is not being used.
        live = {info.session for info in sessions.stub.List(pb.ListSessionsRequest(page_size=1000)).sessions}
        if session not in live or time.monotonic() > deadline:
            break
    failure = wire.refusal(sessions.feed, session, 1, [1])
    assert failure.reasons == ["SESSION_ENDED"] and failure.infos[0].metadata["cause"] == "expired"
    sessions.feed(kept, 1, [1])


def test_leaving_hands_states_over():
    old, new = Server("--drain_timeout=30s"), Server()
    here, there = Sessions(old.address), Sessions(new.address)
    stream = Stream(here)
    session = here.open()
    stream.send(operation(session, 1, **chunk([1, 2, 3])))
    assert stream.receive().status.code == 0
    old.process.send_signal(signal.SIGTERM)
    message = next(stream.call)
    assert [(s.session, s.last_applied) for s in message.drain.sessions] == [(session, 1)]
    stream.send(operation(session, 2, **chunk([4])), operation(session, 1, **chunk([1, 2, 3])),
                operation(session, get_state=pb.GetStateRequest()))
    refused, repeated, state = stream.receive_many(3)
    assert refused.status.code == Code.UNAVAILABLE.value[0] and refused.status.retryable
    assert repeated.repeated_reply
    moved = there.open(state=state.get_state.state)
    assert there.log(moved) == [1, 2, 3]
    assert stream.end() == []
    assert old.process.wait(timeout=25) == 0, "everything was fetched, so it need not wait"
    there.apply(moved, 1, close=pb.Close())
    there.close()
    assert new.stop() == 0
    old.stop()


KINDS = {
    "chunk": chunk([1])["chunk"], "reset": pb.Reset(), "set_state": pb.SetState(state=state_of((1, 1, H))),
    "forced": pb.SetState(state=state_of((1, 1, H)), force=True), "select_rows": pb.SelectRows(rows=[0]),
    "rewind": pb.Rewind(checkpoint="c"), "close": pb.Close(), "close_and_return": pb.Close(return_state=True)}
FIELDS = {"forced": "set_state", "close_and_return": "close"}


def _questions(key, **fields):
    """What may be asked of a session, on streams in operations of its own kind."""
    return {"get_state": pb.GetStateRequest(session=key, **fields), "fork": pb.ForkRequest(session=key, **fields),
            "checkpoint": pb.CheckpointRequest(session=key, name="c", **fields)}


@pytest.fixture
def tenants(tmp_path):
    """Calls of alice and bob, each with a token of their own."""
    tokens = {name: f"{name}-0123456789abcdef" for name in ["alice", "bob"]}
    (tmp_path / "tokens").write_text("".join(f"{name} {token}\n" for name, token in tokens.items()))
    server = Server(f"--tokens_file={tmp_path}/tokens")
    stub = wire.sessions_grpc.SessionsStub(server.channel)

    def call(tenant, method, request):
        does = server.recurrent.Stream if method == "Stream" else getattr(stub, method)
        return does(request, timeout=60, metadata=[("authorization", f"Bearer {tokens[tenant]}")])

    yield call
    assert server.stop() == 0


def test_what_a_tenant_has_is_unknown_to_others(tenants):
    """Keys, names and lists: a key of another tenant is answered in the words of one that never was, whatever is asked,
    with a number or without, before the session's last number or after it."""
    key = tenants("alice", "Open", open_request(name="n", request_id="r")).session
    tenants("alice", "Apply", pb.ApplyRequest(operation=operation(key, 1, **chunk([7]))))
    tenants("alice", "Checkpoint", pb.CheckpointRequest(session=key, name="c"))
    never = key[:-8] + ("A" * 8 if key[-8:] != "A" * 8 else "B" * 8)

    unary = [("Open", lambda k: open_request(state_of_session=k))]
    streamed = [lambda k: operation("", open=open_request(state_of_session=k))]
    for number in [None, 1, 2, 5, 2**64 - 1]:
        for name, kind in KINDS.items():
            field = FIELDS.get(name, name)
            unary.append(("Apply", lambda k, n=number, f=field, v=kind: pb.ApplyRequest(operation=operation(k, n, **{f: v}))))
            streamed.append(lambda k, n=number, f=field, v=kind: operation(k, n, **{f: v}))
    for after in [None, 0, 1, 5]:
        for kind, method in [("get_state", "GetState"), ("fork", "Fork"), ("checkpoint", "Checkpoint")]:
            unary.append((method, lambda k, a=after, f=kind: _questions(k, after_number=a)[f]))
            streamed.append(lambda k, a=after, f=kind: operation("", **{f: _questions(k, after_number=a)[f]}))

    for method, request in unary:
        foreign = wire.refusal(tenants, "bob", method, request(key))
        unknown = wire.refusal(tenants, "bob", method, request(never))
        assert (foreign.code, foreign.reasons, foreign.text) == (unknown.code, unknown.reasons, unknown.text)
        assert foreign.code == Code.NOT_FOUND and foreign.reasons == ["SESSION_UNKNOWN"], request(key)
    for request in streamed:  # on streams of their own: what is asked behind a failure may be held back
        told = []
        for k in [key, never]:
            messages = list(tenants("bob", "Stream", iter([pb.StreamRequest(operations=[request(k)])])))
            reply, = (reply for message in messages for reply in message.replies)
            assert reply.status.code == Code.NOT_FOUND.value[0], request(k)
            reply.session = ""  # as it was asked
            told.append(reply.SerializeToString(deterministic=True))
        assert told[0] == told[1]

    mine = tenants("bob", "Open", open_request(name="n", request_id="r", attach=True)).session
    assert mine != key, "names and request ids are each tenant's own"
    assert [info.session for info in tenants("bob", "List", pb.ListSessionsRequest()).sessions] == [mine]
    listed, = tenants("alice", "List", pb.ListSessionsRequest()).sessions
    state = tenants("alice", "GetState", pb.GetStateRequest(session=key))
    assert (listed.session, listed.last_applied, state.number, log_of(state)) == (key, 1, 1, [7]), "nothing touched it"
    assert tenants("bob", "GetState", pb.GetStateRequest(session=mine)).number == 0
    for tenant, session, number in [("alice", key, 2), ("bob", mine, 1)]:
        tenants(tenant, "Apply", pb.ApplyRequest(operation=operation(session, number, close=pb.Close())))


def test_what_another_tenant_had_is_unknown_to_others(tenants):
    """Also once it is closed, when its owner is told that it was."""
    key = tenants("alice", "Open", open_request()).session
    never = key[:-8] + ("A" * 8 if key[-8:] != "A" * 8 else "B" * 8)
    tenants("alice", "Apply", pb.ApplyRequest(operation=operation(key, 1, close=pb.Close())))
    refused = {k: wire.refusal(tenants, "bob", "Apply", pb.ApplyRequest(operation=operation(k, 1, close=pb.Close())))
               for k in [key, never]}
    assert refused[key].code == Code.NOT_FOUND
    assert (refused[key].text, refused[key].reasons) == (refused[never].text, refused[never].reasons)
    again = tenants("alice", "Apply", pb.ApplyRequest(operation=operation(key, 1, close=pb.Close())))
    assert again.reply.repeated_reply
