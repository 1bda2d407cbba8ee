# SPDX-License-Identifier: Apache-2.0
"""Corners of shared state: races of Open, models that go away, questions between operations, rows, limits that pass."""
import threading

import grpc
import numpy as np
import pytest

import wire
from session_calls import H, Stream, chunk, log_of, open_request, operation, remembering_operator, \
    remembering_weights, tensors

pb = wire.sessions_pb2
Code = grpc.StatusCode
CLOSE = {"close": pb.Close(return_state=True)}


def at_once(count, call):
    """What `count` threads got from the same call; its errors as failures."""
    results, start = [], threading.Barrier(count)

    def run(k):
        start.wait()
        try:
            results.append(call(k))
        except grpc.RpcError as error:
            results.append(wire.Failure(error))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_an_open_that_races_with_its_repetitions_is_one_session(sessions):
    results = at_once(8, lambda _: sessions.open(request_id="race", name="raced"))
    assert len(set(results)) == 1 and isinstance(results[0], str), results
    two = at_once(8, lambda k: sessions.open(request_id="torn", rows=1 + k % 2))
    keys = {result for result in two if isinstance(result, str)}
    assert len(keys) == 1, "one content has won"
    assert {result.reasons[0] for result in two if not isinstance(result, str)} == {"REQUEST_ID_REUSED"}
    names = at_once(8, lambda k: sessions.open(name="wanted", request_id=f"own {k}"))
    assert sum(isinstance(result, str) for result in names) == 1
    assert {result.code for result in names if not isinstance(result, str)} == {Code.ALREADY_EXISTS}


def test_a_fork_that_races_with_its_repetitions_is_made_once(sessions):
    session = sessions.open()
    sessions.feed(session, 1, [1])
    forks = at_once(8, lambda _: sessions.fork(session, request_id="forked", count=2))
    assert len({tuple(fork.sessions) for fork in forks}) == 1
    assert {fork.number for fork in forks} == {1}


def test_a_name_is_free_as_soon_as_its_session_is_closed(sessions):
    keys = []
    for k in range(20):
        keys.append(sessions.open(name="again"))
        sessions.feed(keys[-1], 1, [k])
        assert sessions.apply(keys[-1], 2, **CLOSE).last_applied == 2
    assert len(set(keys)) == len(keys)
    assert log_of_close(sessions.apply(keys[3], 2, **CLOSE)) == [3], "its reply stays for a while"


def log_of_close(reply):
    assert reply.repeated_reply
    return [float(value) for value in tensors(reply.final_state.tensors)["initial_h"][0, 0, :1]]


def test_a_session_outlives_the_name_of_its_model(server, sessions):
    def load(weight):
        w = np.zeros((1, H, 1), np.float32)
        w[0, 0, 0] = weight
        server.models.Load(wire.models_pb2.LoadRequest(name="going", version=1, inline=wire.models_pb2.InlineModel(
            operator=remembering_operator(), weights=[wire.tensor("W", w), remembering_weights()[1]])))

    going = wire.tensor_pb2.ModelRef(name="going", version=1)
    load(1)
    session = sessions.open(model=going)
    sessions.feed(session, 1, [5])
    server.models.Unload(wire.models_pb2.UnloadRequest(model=going))
    assert wire.refusal(sessions.open, model=going).reasons == ["MODEL_UNKNOWN"], "nobody opens it any more"
    sessions.feed(session, 2, [6])
    load(10)
    sessions.feed(session, 3, [7])
    assert sessions.log(session) == [5, 6, 7], "a reload serves new sessions only"
    fresh = sessions.open(model=going)
    sessions.feed(fresh, 1, [7])
    assert sessions.log(fresh) == [70]
    moved = wire.refusal(sessions.apply, fresh, 2, set_state=pb.SetState(
        state=sessions.state(session).state, fingerprint=sessions.state(session).fingerprint))
    assert moved.code == Code.FAILED_PRECONDITION
    server.models.Unload(wire.models_pb2.UnloadRequest(model=going))


def test_questions_on_a_stream_are_answered_where_they_stand(sessions, stream):
    session = sessions.open()
    names = {"session": session}
    stream.send(operation(session, 1, **chunk([1])), operation(session, get_state=pb.GetStateRequest()),
                operation(session, checkpoint=pb.CheckpointRequest(name="one")), operation(session, 2, **chunk([2])),
                operation(session, fork=pb.ForkRequest()), operation(session, 3, **chunk([3])),
                operation(session, get_state=pb.GetStateRequest(after_number=2)),
                operation(session, get_state=pb.GetStateRequest(after_number=9)))
    replies = {}
    for reply in stream.receive_many(8):
        replies.setdefault(reply.WhichOneof("result"), []).append(reply)
    first, second = [reply for reply in replies["get_state"]]
    assert (first.get_state.number, log_of(first.get_state)) == (1, [1])
    assert replies["checkpoint"][0].checkpoint.number == 1
    assert replies["fork"][0].fork.number == 2
    assert sessions.log(replies["fork"][0].fork.sessions[0]) == [1, 2]
    # The last two stand behind number 3: it may have been applied by then, and what was after 2 is gone.
    assert second.get_state.number == 2 or second.status.code == Code.FAILED_PRECONDITION.value[0]
    stream.send(operation(session, 4, rewind=pb.Rewind(checkpoint="one")), operation(session, 5, **chunk([4])))
    assert [reply.position for reply in stream.receive_many(2)] == [1, 2]
    assert sessions.log(**names) == [1, 4]


def test_rows_come_and_go_with_rewinds(sessions):
    session = sessions.open(rows=2)
    x = np.array([[1, 2], [3, 4]], np.float32).reshape(2, 2, 1)
    ragged = pb.Chunk(inputs=[wire.tensor("X", x), wire.tensor("sequence_lens", np.array([1, 2], np.int32))])
    sessions.apply(session, 1, chunk=ragged)
    sessions.checkpoint(session, "two rows")
    sessions.apply(session, 2, select_rows=pb.SelectRows(rows=[1, 1, 0, 1]))
    sessions.feed(session, 3, [[10, 11, 12, 13]])
    four = wire.refusal(sessions.feed, session, 4, [[1, 2]])
    assert four.fields == ["operation.chunk.inputs[X].shape"]
    assert sessions.apply(session, 4, rewind=pb.Rewind(checkpoint="two rows")).position == 2
    sessions.feed(session, 5, [[20, 21]])
    state = sessions.state(session)
    assert [log_of(state, row) for row in range(2)] == [[1, 20], [2, 4, 21]]
    for rows in ([2], [-1], [2**63 - 1], [-2**63]):
        failure = wire.refusal(sessions.apply, session, 6, select_rows=pb.SelectRows(rows=rows))
        assert failure.code == Code.INVALID_ARGUMENT and failure.fields == ["operation.select_rows.rows[0]"]


def test_closing_twice(sessions):
    session = sessions.open()
    sessions.feed(session, 1, [1])
    closed = sessions.apply(session, 2, **CLOSE)
    again = sessions.apply(session, 2, **CLOSE)
    assert again.repeated_reply and again.final_state == closed.final_state
    for number in (3, None):
        ended = wire.refusal(sessions.apply, session, number, **CLOSE)
        assert ended.code == Code.NOT_FOUND and ended.reasons == ["SESSION_ENDED"]
        assert ended.infos[0].metadata["cause"] == "closed" and ended.infos[0].metadata["last_applied"] == "2"
    other = wire.refusal(sessions.apply, session, 2, close=pb.Close())
    assert other.code == Code.ABORTED, "the same number with other content"


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64 - 1])
def test_numbers_at_the_end_of_their_range(sessions, stream, number):
    session = sessions.open()
    sessions.feed(session, 1, [1])
    assert wire.refusal(sessions.feed, session, number, [2]).code == Code.OUT_OF_RANGE
    assert wire.refusal(sessions.state, session, after_number=number).code == Code.OUT_OF_RANGE
    stream.send(operation(session, 2, **chunk([2])), operation(session, number, **chunk([3])))
    codes = sorted(reply.status.code for reply in stream.receive_many(2))
    assert codes == [0, Code.OUT_OF_RANGE.value[0]]
    assert sessions.log(session) == [1, 2]


def test_a_chunk_whose_time_has_passed_changes_nothing(sessions, stream):
    from google.protobuf import duration_pb2
    session = sessions.open()
    sessions.feed(session, 1, [1])
    at_once_over = duration_pb2.Duration(nanos=1)
    stream.send(operation(session, 2, timeout=at_once_over, **chunk([2])), operation(session, 3, **chunk([3])))
    codes = [reply.status.code for reply in stream.receive_many(2)]
    # The one above is aborted with it, or comes when it has failed already and is too high.
    assert codes[0] == Code.DEADLINE_EXCEEDED.value[0]
    assert codes[1] in (Code.ABORTED.value[0], Code.OUT_OF_RANGE.value[0])
    long = duration_pb2.Duration(seconds=300_000_000_000)
    stream.send(operation(session, 2, timeout=long, **chunk([4])))
    assert stream.receive().status.code == 0
    assert sessions.log(session) == [1, 4]


def test_a_new_stream_takes_over_what_an_old_one_has_queued(sessions):
    session = sessions.open(max_in_flight=64, window_operations=64)
    old, new = Stream(sessions), Stream(sessions)
    old.send(*[operation(session, number, **chunk([number])) for number in range(1, 65)])
    first = old.receive()
    new.send(operation(session, 1, **chunk([1])))
    taken = new.receive()
    assert taken.status.code == 0 and taken.repeated_reply
    applied = taken.last_applied
    rest = [first] + old.receive_many(63)
    done = [reply.number for reply in rest if reply.status.code == 0]
    assert done == list(range(1, len(done) + 1)), "what was computed was computed in order, without a gap"
    assert {reply.status.code for reply in rest if reply.status.code} <= {Code.ABORTED.value[0]}
    number = sessions.state(session).number + 1
    assert number >= applied
    new.send(operation(session, number, **chunk([99])))
    assert new.receive().status.code == 0
    assert sessions.log(session)[-1] == 99
    old.cancel()
    new.cancel()


def test_an_encoders_state_starts_a_decoder(sessions):
    """Another operator, whose state has the same tensors."""
    encoder = sessions.open()
    sessions.feed(encoder, 1, [1, 2, 3])
    decoder = remembering_operator()
    decoder.attributes["activation_beta"].floats.values[0] = 0.0
    decoder.attributes["clip"].f = 1000.0
    forked = sessions.open(operator=decoder, weights=remembering_weights(), state_of_session=encoder)
    assert sessions.log(forked) == [1, 2, 3]
    wider = wire.refusal(sessions.open, operator=remembering_operator(H + 1), weights=remembering_weights(H + 1),
                         state_of_session=encoder)
    assert wider.code == Code.INVALID_ARGUMENT and wider.fields == ["state_of_session"]


def test_a_state_in_sixteen_bits(sessions):
    opened = sessions.stub.Open(open_request(state_type=wire.tensor_pb2.BFLOAT16))
    assert opened.state_type == wire.tensor_pb2.BFLOAT16
    sessions.feed(opened.session, 1, [1, 257])  # 257 takes nine bits
    assert sessions.log(opened.session) == [1, 256]
    listed = next(info for info in sessions.stub.List(pb.ListSessionsRequest(page_size=1000)).sessions
                  if info.session == opened.session)
    assert listed.state_bytes == 2 * H
    assert sessions.stub.Open(open_request()).state_type == wire.tensor_pb2.FLOAT
    for wrong in (wire.tensor_pb2.INT32, wire.tensor_pb2.DOUBLE, 99):
        assert wire.refusal(sessions.stub.Open, open_request(state_type=wrong)).fields == ["state_type"]


def test_a_reply_that_does_not_fit_tells_the_size_it_needs(sessions):
    session = sessions.open(window_bytes=1000)
    failure = wire.refusal(sessions.feed, session, 1, [1] * 10)
    info = failure.infos[0]
    assert info.reason == "LIMIT_EXCEEDED" and info.metadata["limit"] == "1000"
    sessions.feed(sessions.open(window_bytes=int(info.metadata["value"])), 1, [1] * 10)
