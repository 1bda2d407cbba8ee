# SPDX-License-Identifier: Apache-2.0
"""Sessions over gRPC: each call and each operation, by Apply and by Stream, with the cell that remembers everything."""
import grpc
import numpy as np
import pytest

import wire
from session_calls import (H, Stream, chunk, log_of, open_request, operation, remembering_operator, remembering_weights,
                           tensors)

pb = wire.sessions_pb2
Code = grpc.StatusCode


def test_open_chunk_state_close_by_apply(sessions):
    opened = sessions.stub.Open(open_request())
    assert opened.last_applied == 0 and len(opened.fingerprint) == 64
    reply = sessions.feed(opened.session, 1, [1, 2, 3])
    assert (reply.number, reply.last_applied, reply.next_expected, reply.position) == (1, 1, 2, 3)
    assert reply.engine and not reply.repeated_reply
    assert list(tensors(reply.outputs)) == ["Y", "Y_h"]
    assert tensors(reply.outputs)["Y"].shape == (3, 1, 1, H)
    sessions.feed(opened.session, 2, [4])
    state = sessions.state(opened.session)
    assert (state.number, state.position, state.fingerprint) == (2, 4, opened.fingerprint)
    assert log_of(state) == [1, 2, 3, 4]
    final = sessions.apply(opened.session, 3, close=pb.Close(return_state=True))
    assert tensors(final.final_state.tensors)["initial_h"][0, 0, :4].tolist() == [4, 3, 2, 1]
    again = sessions.apply(opened.session, 3, close=pb.Close(return_state=True))
    assert again.repeated_reply and again.final_state == final.final_state
    failure = wire.refusal(sessions.feed, opened.session, 4, [5])
    assert failure.code == Code.NOT_FOUND and failure.reasons == ["SESSION_ENDED"]
    assert failure.infos[0].metadata["cause"] == "closed"


def test_the_same_by_stream(sessions, stream):
    session = sessions.open()
    stream.send(operation(session, 1, **chunk([1, 2])), operation(session, 2, **chunk([3])),
                operation(session, get_state=pb.GetStateRequest()), operation(session, 3, close=pb.Close()))
    first, second, state, closed = stream.receive_many(4)
    assert [first.status.code, second.status.code, state.status.code, closed.status.code] == [0] * 4
    assert tensors(second.outputs)["Y_h"][0, 0, :3].tolist() == [3, 2, 1]
    assert log_of(state.get_state) == [1, 2, 3]
    assert stream.end() == []


def test_everything_in_band(sessions, stream):
    stream.send(pb.Operation(request_id="o", open=open_request()))
    opened = stream.receive()
    assert opened.request_id == "o" and opened.status.code == 0
    session = opened.open.session
    assert opened.session == session
    stream.send(operation(session, 1, **chunk([1, 2])),
                operation(session, checkpoint=pb.CheckpointRequest(name="two")),
                operation(session, 2, **chunk([3])),
                operation(session, fork=pb.ForkRequest(count=2)),
                operation(session, 3, rewind=pb.Rewind(checkpoint="two")),
                operation(session, get_state=pb.GetStateRequest()),
                operation(session, 4, reset=pb.Reset()),
                operation(session, 5, **chunk([9])),
                operation(session, get_state=pb.GetStateRequest()))
    replies = stream.receive_many(9)
    assert [reply.status.code for reply in replies] == [0] * 9, replies
    assert (replies[1].checkpoint.number, replies[1].checkpoint.position) == (1, 2)
    assert (replies[4].last_applied, replies[4].position) == (3, 2), "numbers go on, the position goes back"
    assert log_of(replies[5].get_state) == [1, 2]
    assert log_of(replies[8].get_state) == [9]
    forks = replies[3].fork
    assert forks.number == 2 and len(set(forks.sessions)) == 2
    sessions.feed(forks.sessions[0], 3, [7])
    assert sessions.log(forks.sessions[0]) == [1, 2, 3, 7]
    assert sessions.log(forks.sessions[1]) == [1, 2, 3]


def test_a_repetition_is_the_same_reply(sessions):
    session = sessions.open()
    first = sessions.feed(session, 1, [1, 2])
    again = sessions.feed(session, 1, [1, 2])
    assert again.repeated_reply
    again.repeated_reply = False
    assert again == first
    assert sessions.log(session) == [1, 2]
    other = wire.refusal(sessions.feed, session, 1, [5])
    assert other.code == Code.ABORTED and other.infos[0].metadata["next_expected"] == "2"
    assert wire.refusal(sessions.feed, session, 3, [5]).code == Code.OUT_OF_RANGE


def test_rows_and_lengths(sessions):
    session = sessions.open(rows=3)
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3, 1)
    lengths = np.array([2, 0, 1], np.int32)
    reply = sessions.apply(session, 1, chunk=pb.Chunk(inputs=[wire.tensor("X", x), wire.tensor("sequence_lens", lengths)]))
    assert reply.position == 2
    state = sessions.state(session)
    assert [log_of(state, row) for row in range(3)] == [[1, 4], [], [3]]
    sessions.apply(session, 2, select_rows=pb.SelectRows(rows=[2, 0, 0, 1]))
    sessions.feed(session, 3, [[10, 11, 12, 13]])
    state = sessions.state(session)
    assert [log_of(state, row) for row in range(4)] == [[3, 10], [1, 4, 11], [1, 4, 12], [13]]
    wrong = wire.refusal(sessions.feed, session, 4, [[1, 2, 3]])
    assert wrong.code == Code.INVALID_ARGUMENT and wrong.fields == ["operation.chunk.inputs[X].shape"]
    none = sessions.apply(session, 4, chunk=pb.Chunk(inputs=[wire.tensor("X", np.zeros((0, 4, 1), np.float32))]))
    assert tensors(none.outputs)["Y_h"][0, 1, :3].tolist() == [11, 4, 1], "no steps: the state as it is"


def test_outputs_at_open_and_per_chunk(sessions):
    session = sessions.open(outputs=["Y_h"])
    assert list(tensors(sessions.feed(session, 1, [1]).outputs)) == ["Y_h"]
    assert list(tensors(sessions.feed(session, 2, [2], outputs=["Y"], override_outputs=True).outputs)) == ["Y"]
    assert not sessions.feed(session, 3, [3], override_outputs=True).outputs
    assert sessions.log(session) == [1, 2, 3]


def test_states_travel(sessions):
    one = sessions.open()
    sessions.feed(one, 1, [1, 2, 3])
    state = sessions.state(one)
    for fields in ({"state": state.state}, {"state_of_session": one}):
        other = sessions.open(**fields)
        assert sessions.log(other) == [1, 2, 3]
    other = sessions.open()
    sessions.apply(other, 1, set_state=pb.SetState(state=state.state, fingerprint=state.fingerprint))
    assert sessions.log(other) == [1, 2, 3]
    foreign = wire.refusal(sessions.apply, other, 2, set_state=pb.SetState(state=state.state, fingerprint="0" * 64))
    assert foreign.code == Code.FAILED_PRECONDITION and foreign.reasons == ["FINGERPRINT_MISMATCH"]
    sessions.apply(other, 2, set_state=pb.SetState(state=state.state, force=True))
    sessions.apply(other, 3, reset=pb.Reset(state=state.state))
    assert sessions.state(other).position == 0


def test_names_request_ids_and_lists(sessions):
    name = "a name"
    first = sessions.stub.Open(open_request(name=name, request_id="once"))
    assert sessions.stub.Open(open_request(name=name, request_id="once")).session == first.session
    assert wire.refusal(sessions.stub.Open, open_request(name=name)).code == Code.ALREADY_EXISTS
    assert sessions.stub.Open(open_request(name=name, attach=True)).session == first.session
    assert wire.refusal(sessions.stub.Open, open_request(request_id="once")).code == Code.ABORTED
    for _ in range(5):
        sessions.open()
    listed, token = [], ""
    while True:
        page = sessions.stub.List(pb.ListSessionsRequest(page_size=2, page_token=token))
        listed += page.sessions
        token = page.next_page_token
        if not token:
            break
    assert len({info.session for info in listed}) == len(listed) >= 6
    mine = next(info for info in listed if info.session == first.session)
    assert mine.name == name and mine.rows == 1 and mine.state_bytes == 4 * H and mine.fingerprint == first.fingerprint


def test_the_newest_stream_owns_the_session(sessions):
    session = sessions.open()
    old, new = Stream(sessions), Stream(sessions)
    old.send(operation(session, 1, **chunk([1])))
    assert old.receive().status.code == 0
    new.send(operation(session, 2, **chunk([2])))
    assert new.receive().status.code == 0
    old.send(operation(session, 3, **chunk([3])))
    displaced = old.receive()
    assert displaced.status.code == Code.ABORTED.value[0]
    assert (displaced.last_applied, displaced.next_expected) == (2, 3)
    new.send(operation(session, 3, **chunk([4])))
    assert new.receive().status.code == 0
    assert sessions.log(session) == [1, 2, 4]
    old.cancel()
    new.cancel()


def test_an_error_ends_neither_stream_nor_session(sessions, stream):
    one, two = sessions.open(), sessions.open()
    stream.send(operation(one, 1, **chunk([1])), operation("no key", 1, **chunk([1])), operation(one, 5, **chunk([1])),
                operation(two, 1, chunk=pb.Chunk(inputs=[])), pb.Operation(session=two, number=1),
                operation(two, 1, **chunk([2])))
    codes = {}
    for reply in stream.receive_many(6):
        codes.setdefault(reply.session, []).append(reply.status.code)
    assert sorted(codes[one]) == [0, Code.OUT_OF_RANGE.value[0]], "a refusal does not wait for its turn"
    assert codes["no key"] == [Code.NOT_FOUND.value[0]]
    assert sorted(codes[two]) == [0] + [Code.INVALID_ARGUMENT.value[0]] * 2
    assert sessions.log(one) == [1] and sessions.log(two) == [2]


def test_a_long_chunk_holds_up_no_other_session_of_its_stream(sessions, stream):
    """Even where the caller has waited for each answer for a while, and then sends to the other session at once."""
    long = sessions.open(operator=remembering_operator(512), weights=remembering_weights(512), engine="reference",
                         outputs=["Y_h"])
    short = sessions.open()
    for number in range(1, 13):
        stream.send(operation(short, number, **chunk([number])))
        stream.receive()
    stream.send(operation(long, 1, **chunk(np.ones(2_000))))
    stream.send(operation(short, 13, **chunk([13])))
    assert [reply.session for reply in stream.receive_many(2)] == [short, long]


def test_cut_anywhere_it_is_one_sequence(sessions, stream):
    """Chunks of many sessions, cut at random, against Infer over the whole: the same bits on `reference`."""
    random = np.random.default_rng(5)
    hidden, steps = 9, 40
    operator = wire.tensor_pb2.Operator(op_type="LSTM", version=14)
    operator.attributes["hidden_size"].i = hidden
    weights = [wire.tensor(name, random.normal(size=shape).astype(np.float32) / 3)
               for name, shape in (("W", (1, 4 * hidden, 3)), ("R", (1, 4 * hidden, hidden)), ("B", (1, 8 * hidden)))]
    for _ in range(8):
        x = random.normal(size=(steps, 1, 3)).astype(np.float32)
        session = sessions.open(operator=operator, weights=weights, engine="reference")
        cuts = [0, *sorted(random.integers(0, steps + 1, 6)), steps]
        for number, (start, stop) in enumerate(zip(cuts, cuts[1:]), 1):
            stream.send(operation(session, number, chunk=pb.Chunk(inputs=[wire.tensor("X", x[start:stop])])))
        parts = [tensors(reply.outputs) for reply in stream.receive_many(len(cuts) - 1)]
        whole = wire.results(sessions.recurrent.Infer(wire.recurrent_pb2.InferRequest(
            operator=operator, inputs=[wire.tensor("X", x), *weights], engine="reference")))
        assert np.concatenate([part["Y"] for part in parts]).tobytes() == whole["Y"].tobytes()
        assert parts[-1]["Y_c"].tobytes() == whole["Y_c"].tobytes()


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_sessions_run_forwards(sessions, direction):
    operator = remembering_operator()
    operator.attributes["direction"].s = direction
    if direction == "bidirectional":
        operator.attributes["activations"].strings.values.append("Affine")
        operator.attributes["activation_alpha"].floats.values.append(1.0)
        operator.attributes["activation_beta"].floats.values.append(0.0)
    directions = 2 if direction == "bidirectional" else 1
    weights = [wire.tensor("W", np.zeros((directions, H, 1), np.float32)),
               wire.tensor("R", np.zeros((directions, H, H), np.float32))]
    failure = wire.refusal(sessions.stub.Open, open_request(operator=operator, weights=weights))
    assert failure.code == Code.FAILED_PRECONDITION and failure.reasons == ["NOT_FORWARD"]


def test_a_reply_that_cannot_be_kept_is_refused_before_compute(sessions):
    session = sessions.open(window_bytes=1000)
    failure = wire.refusal(sessions.feed, session, 1, [1] * 10)
    assert failure.code == Code.INVALID_ARGUMENT and failure.reasons == ["LIMIT_EXCEEDED"]
    assert sessions.log(session) == []
    sessions.feed(session, None, [1] * 10)
    assert sessions.log(session) == [1] * 10, "without a number nothing is kept"
