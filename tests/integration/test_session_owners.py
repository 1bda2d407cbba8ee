# SPDX-License-Identifier: Apache-2.0
"""Who may change a session, over gRPC: owners and epochs, attaching, what pipelines and leaving servers are told."""
import signal

import grpc
import numpy as np
import pytest

import wire
from server_process import Server
from session_calls import H, Sessions, Stream, chunk, open_request, operation, remembering_operator, remembering_weights

pb = wire.sessions_pb2
Code = grpc.StatusCode


def reasons_of(reply):
    return [info.reason for info in infos_of(reply)]


def infos_of(reply):
    found = []
    for detail in reply.status.details:
        info = wire.error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            found.append(info)
    return found


def test_calls_that_change_nothing_leave_a_session_to_its_stream(sessions, stream):
    session = sessions.open()
    stream.send(operation(session, 1, **chunk([1])), operation(session, 2, **chunk([2])))
    stream.receive_many(2)
    assert sessions.feed(session, 2, [2]).repeated_reply
    assert wire.refusal(sessions.feed, session, 2, [9]).reasons == ["NUMBER_REUSED"]
    assert wire.refusal(sessions.feed, session, 7, [9]).code == Code.OUT_OF_RANGE
    assert wire.refusal(sessions.feed, session, 3, [[1, 2]]).code == Code.INVALID_ARGUMENT
    assert wire.refusal(sessions.apply, session, 3, rewind=pb.Rewind(checkpoint="none")).code == Code.NOT_FOUND
    sessions.state(session), sessions.checkpoint(session, "c"), sessions.fork(session)
    other = Stream(sessions)
    other.send(operation(session, 1, **chunk([1])), operation(session, 9, **chunk([9])))
    assert [reply.status.code for reply in other.receive_many(2)] == [0, Code.OUT_OF_RANGE.value[0]]
    stream.send(operation(session, 3, **chunk([3])))
    assert stream.receive().status.code == 0, "it was the stream's all along"
    sessions.feed(session, 4, [4])
    stream.send(operation(session, 5, **chunk([5])), operation(session, 3, **chunk([3])))
    refused, kept = stream.receive_many(2)
    assert reasons_of(refused) == ["OLDER_OWNER"]
    assert kept.status.code == 0 and kept.repeated_reply, "kept replies are for every holder of the key"
    assert "before sending it under another" in refused.status.message
    other.cancel()
    assert sessions.log(session) == [1, 2, 3, 4]


def test_an_epoch_that_is_not_the_newest_is_fenced(sessions, stream):
    made = sessions.stub.Open(open_request(name="fenced", attach=True))
    assert made.created and made.owner_epoch > 0 and (made.rows, made.position) == (1, 0)
    session = made.session
    stream.send(operation(session, 1, owner_epoch=made.owner_epoch, **chunk([1, 2])))
    assert stream.receive().status.code == 0
    attached = sessions.stub.Open(open_request(name="fenced", attach=True))
    assert not attached.created and attached.session == session and attached.owner_epoch > made.owner_epoch
    assert (attached.rows, attached.last_applied, attached.position) == (1, 1, 2)
    stream.send(operation(session, 2, owner_epoch=made.owner_epoch, **chunk([3])))
    zombie = stream.receive()
    assert zombie.status.code == Code.ABORTED.value[0] and reasons_of(zombie) == ["FENCED"]
    assert (zombie.last_applied, zombie.next_expected) == (1, 2) and not zombie.status.retryable
    for number in (2, None):
        fenced = wire.refusal(sessions.apply, session, number, owner_epoch=made.owner_epoch, **chunk([3]))
        assert fenced.code == Code.ABORTED and fenced.reasons == ["FENCED"]
    assert sessions.apply(session, 1, owner_epoch=made.owner_epoch, **chunk([1, 2])).repeated_reply
    sessions.apply(session, 2, owner_epoch=attached.owner_epoch, **chunk([4]))
    sessions.feed(session, 3, [5])  # without an epoch, as before
    assert sessions.log(session) == [1, 2, 4, 5]
    fork = sessions.fork(session)
    sessions.apply(fork.sessions[0], 4, owner_epoch=fork.owner_epoch, **chunk([6]))


def test_an_open_that_is_repeated_gives_the_same_answer(sessions):
    request = open_request(name="repeated", attach=True, request_id="first")
    made = sessions.stub.Open(request)
    assert sessions.stub.Open(request) == made
    again = open_request(name="repeated", attach=True, request_id="second")
    attached = sessions.stub.Open(again)
    assert sessions.stub.Open(again) == attached and not attached.created


def lstm(hidden=3):
    operator = wire.tensor_pb2.Operator(op_type="LSTM", version=14)
    operator.attributes["hidden_size"].i = hidden
    weights = [wire.tensor("W", np.zeros((1, 4 * hidden, 1), np.float32)),
               wire.tensor("R", np.zeros((1, 4 * hidden, hidden), np.float32))]
    return {"operator": operator, "weights": weights}


def state_of(*names, hidden=3, rows=1):
    return pb.StateTensors(tensors=[wire.tensor(name, np.ones((1, rows, hidden), np.float32)) for name in names])


DIFFERENT = {
    "rows": {"rows": 1},
    "state_type": {"state_type": wire.tensor_pb2.FLOAT},
    "operator": lstm(),
    "fingerprint": {"fingerprint": "0" * 64},
    "model": {"model": wire.tensor_pb2.ModelRef(name="another")},
    "state": {"state": state_of("initial_h", hidden=H)},
    "state_of_session": {"state_of_session": "anything"},
}


@pytest.mark.parametrize("field", DIFFERENT)
def test_attaching_to_another_session_than_is_meant(sessions, field):
    there = {"name": f"different {field}", "rows": 2, "state_type": wire.tensor_pb2.FLOAT16}
    made = sessions.stub.Open(open_request(**there))
    asked = open_request(**{"name": there["name"], "attach": True, **DIFFERENT[field]})
    refused = wire.refusal(sessions.stub.Open, asked)
    assert refused.code == Code.FAILED_PRECONDITION and refused.fields == [field], refused
    assert refused.reasons == ["SESSION_MISMATCH"]
    agreed = sessions.stub.Open(open_request(**there, attach=True))
    assert agreed.session == made.session and agreed.owner_epoch == made.owner_epoch + 1, "the refusal raised none"
    assert (agreed.created, agreed.rows, agreed.state_type) == (False, 2, wire.tensor_pb2.FLOAT16)
    unsaid = sessions.stub.Open(open_request(name=there["name"], attach=True))
    assert unsaid.session == made.session, "what is not said agrees"


def test_attaching_by_the_names_of_models(server, sessions):
    def load(name, version, weight):
        w = np.zeros((1, H, 1), np.float32)
        w[0, 0, 0] = weight
        server.models.Load(wire.models_pb2.LoadRequest(name=name, version=version, inline=wire.models_pb2.InlineModel(
            operator=remembering_operator(), weights=[wire.tensor("W", w), remembering_weights()[1]])))

    def ref(name, version=None):
        return {"model": wire.tensor_pb2.ModelRef(name=name, version=version), "name": "by name", "attach": True}

    load("one", 1, 1), load("one", 2, 2), load("same", 1, 1)
    made = sessions.stub.Open(open_request(**ref("one", 1)))
    for same in (ref("one"), ref("one", 1), ref("same"), {**ref("one"), "fingerprint": made.fingerprint, "model": None}):
        assert sessions.stub.Open(open_request(**same)).session == made.session
    for other in (ref("one", 2), ref("one", 3)):
        assert wire.refusal(sessions.stub.Open, open_request(**other)).fields == ["model"]
    server.models.Unload(wire.models_pb2.UnloadRequest(model=wire.tensor_pb2.ModelRef(name="one")))
    for same in (ref("one"), ref("one", 1)):
        assert sessions.stub.Open(open_request(**same)).session == made.session, "it keeps its model"
    assert wire.refusal(sessions.stub.Open, open_request(**ref("one", 2))).fields == ["model"]


def test_must_exist_makes_no_session(sessions):
    ask = pb.OpenRequest(name="must exist", attach=True, must_exist=True)
    none = wire.refusal(sessions.stub.Open, ask)
    assert none.code == Code.NOT_FOUND and none.reasons == ["SESSION_UNKNOWN"] and "must exist" in none.text
    made = sessions.stub.Open(open_request(name="must exist"))
    attached = sessions.stub.Open(ask)
    assert attached.session == made.session and not attached.created
    assert sessions.stub.Open(open_request(name="must exist", attach=True, must_exist=True)).session == made.session
    sessions.apply(made.session, 1, close=pb.Close())
    assert wire.refusal(sessions.stub.Open, ask).code == Code.NOT_FOUND
    alone = wire.refusal(sessions.stub.Open, open_request(name="must exist", must_exist=True))
    assert alone.code == Code.INVALID_ARGUMENT and alone.fields == ["must_exist"]


INCOMPLETE = {
    "open": lambda sessions, state: sessions.stub.Open(open_request(**lstm(), state=state)),
    "set_state": lambda sessions, state: sessions.apply(
        sessions.open(**lstm()), 1, set_state=pb.SetState(state=state, force=True)),
    "reset": lambda sessions, state: sessions.apply(sessions.open(**lstm()), 1, reset=pb.Reset(state=state)),
}
WHERE = {"open": "state.tensors", "set_state": "operation.set_state.state.tensors",
         "reset": "operation.reset.state.tensors"}


@pytest.mark.parametrize("way", INCOMPLETE)
@pytest.mark.parametrize("given, missing", [("initial_h", "initial_c"), ("initial_c", "initial_h")])
def test_a_state_comes_whole(sessions, way, given, missing):
    refused = wire.refusal(INCOMPLETE[way], sessions, state_of(given))
    assert refused.code == Code.INVALID_ARGUMENT and refused.fields == [WHERE[way]], refused
    assert f"{missing} is missing" in refused.text
    INCOMPLETE[way](sessions, state_of("initial_h", "initial_c"))


def test_a_state_of_another_session_comes_whole(sessions):
    gru = wire.tensor_pb2.Operator(op_type="GRU", version=14)
    gru.attributes["hidden_size"].i = 3
    encoder = sessions.open(operator=gru, weights=[wire.tensor("W", np.zeros((1, 9, 1), np.float32)),
                                                   wire.tensor("R", np.zeros((1, 9, 3), np.float32))])
    refused = wire.refusal(sessions.stub.Open, open_request(**lstm(), state_of_session=encoder))
    assert refused.code == Code.INVALID_ARGUMENT and refused.fields == ["state_of_session"]
    assert "initial_c is missing" in refused.text


def test_behind_a_full_session_all_are_told_the_reason(sessions, stream):
    session = sessions.open(max_in_flight=1)
    stream.send(*[operation(session, number, **chunk(np.ones(5000) * number, outputs=["Y_h"], override_outputs=True))
                  for number in range(1, 9)])
    replies = stream.receive_many(8)
    refused = [reply for reply in replies if reply.status.code != 0]
    assert refused and {reply.status.code for reply in refused} == {Code.RESOURCE_EXHAUSTED.value[0]}
    assert all(reply.status.retryable and reasons_of(reply) == ["TOO_MANY_IN_FLIGHT"] for reply in refused)
    applied = sessions.state(session).number
    stream.send(operation(session, applied + 2, **chunk([1])))
    assert reasons_of(stream.receive()) in (["TOO_MANY_IN_FLIGHT"], ["NUMBER_TOO_HIGH"])
    stream.send(operation(session, applied + 1, **chunk([1])))
    assert stream.receive().status.code == 0


def test_a_leaving_server_says_so_to_all():
    server = Server("--drain_timeout=30s")
    calls = Sessions(server.address)
    stream = Stream(calls)
    session = calls.open()
    stream.send(operation(session, 1, **chunk([1])))
    assert stream.receive().status.code == 0
    server.process.send_signal(signal.SIGTERM)
    assert next(stream.call).HasField("drain")
    stream.send(*[operation(session, number, **chunk([number])) for number in range(2, 7)])
    for reply in stream.receive_many(5):
        assert reply.status.code == Code.UNAVAILABLE.value[0] and reasons_of(reply) == ["DRAINING"], reply
        assert (reply.last_applied, reply.next_expected) == (1, 2)
    for call in (calls.open, lambda: calls.fork(session), lambda: calls.feed(session, 2, [2])):
        refused = wire.refusal(call)
        assert refused.code == Code.UNAVAILABLE and "DRAINING" in refused.reasons, refused
    stream.send(operation(session, get_state=pb.GetStateRequest()))
    stream.receive()
    assert stream.end() == []
    calls.close()
    assert server.process.wait(timeout=25) == 0
    server.stop()


def test_the_same_content_in_other_words(sessions):
    def x(*values):
        return wire.tensor("X", np.asarray(values, np.float32).reshape(-1, 1, 1))

    def lengths(*values):
        return wire.tensor("sequence_lens", np.array(values, np.int32))

    def spelled(number, *inputs, **fields):
        return sessions.apply(session, number, chunk=pb.Chunk(inputs=inputs, **fields))

    session = sessions.open()
    plain = spelled(1, x(1, 2))
    for inputs, fields in [([x(1, 2)], {"outputs": ["Y", "Y_h"], "override_outputs": True}),
                           ([x(1, 2)], {"outputs": ["Y_h", "Y"], "override_outputs": True}),
                           ([x(1, 2), lengths(2)], {}), ([lengths(2), x(1, 2)], {}),
                           ([wire.tensor("X", np.array([1, 2], np.float32).reshape(2, 1, 1), typed=True)], {})]:
        again = spelled(1, *inputs, **fields)
        assert again.repeated_reply and again.outputs == plain.outputs
    for inputs, fields in [([x(1, 3)], {}), ([x(1)], {}), ([x(1, 2), lengths(1)], {}),
                           ([x(1, 2)], {"outputs": ["Y"], "override_outputs": True}), ([x(1, 2)], {"override_outputs": True})]:
        assert wire.refusal(spelled, 1, *inputs, **fields).reasons == ["NUMBER_REUSED"]
    state = sessions.state(session)
    sessions.apply(session, 2, set_state=pb.SetState(state=state.state, fingerprint=state.fingerprint))
    assert sessions.apply(session, 2, set_state=pb.SetState(state=state.state, force=True)).repeated_reply
    assert wire.refusal(sessions.apply, session, 2, reset=pb.Reset(state=state.state)).reasons == ["NUMBER_REUSED"]
    sessions.apply(session, 3, reset=pb.Reset())
    zeros = state_of("initial_h", hidden=H)
    zeros.tensors[0].raw = bytes(4 * H)
    assert sessions.apply(session, 3, reset=pb.Reset(state=zeros)).repeated_reply
    assert wire.refusal(sessions.apply, session, 3, reset=pb.Reset(state=state.state)).reasons == ["NUMBER_REUSED"]


def test_tensors_of_a_state_in_another_order_are_the_same_content(sessions):
    session = sessions.open(**lstm())
    sessions.apply(session, 1, reset=pb.Reset(state=state_of("initial_h", "initial_c")))
    assert sessions.apply(session, 1, reset=pb.Reset(state=state_of("initial_c", "initial_h"))).repeated_reply


def test_a_made_up_key_is_no_lost_session(server, sessions):
    from test_admin import _metrics
    def lost():
        return _metrics(server)['rnnserve_sessions_total{model="(unknown)",event="lost"}']
    other = Server("--drain_timeout=100ms")
    theirs = Sessions(other.address)
    key = theirs.open()
    theirs.close()
    assert other.stop() == 0
    before = lost()
    for mine in (key, sessions.open()):
        for place in range(3, 13):  # the run of the server
            made_up = mine[:place] + ("A" if mine[place] != "A" else "B") + mine[place + 1:]
            refused = wire.refusal(sessions.feed, made_up, 1, [1])
            assert refused.code == Code.NOT_FOUND and refused.reasons == ["SESSION_UNKNOWN"]
    assert lost() == before
    assert wire.refusal(sessions.feed, key, 1, [1]).code == Code.DATA_LOSS
    assert lost() == before + 1
