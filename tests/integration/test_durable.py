# SPDX-License-Identifier: Apache-2.0
"""Durable sessions: several real servers on one Redis (sessions.md, section 5). The remembering cell shows every lost,
doubled or reordered chunk in the state."""

from __future__ import annotations

import signal

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import durable_kills
import wire
from redis_process import HAS_REDIS, WITHOUT_REDIS, Redis, Replica
from server_process import Server, run_to_end
from session_calls import Sessions, Stream, chunk, operation

pb = wire.sessions_pb2
Code = grpc.StatusCode
pytestmark = pytest.mark.skipif(not HAS_REDIS, reason=WITHOUT_REDIS)


@pytest.fixture(scope="module")
def redis():
    redis = Redis()
    yield redis
    redis.stop()


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    return path


@pytest.fixture
def replicas(redis, secret):
    pair = [Replica(f"redis://127.0.0.1:{redis.port}", secret) for _ in range(2)]
    yield pair
    for one in pair:
        one.stop()


def _refused(replica, key, number, value):
    """The reason of an operation that has to fail."""
    return wire.refusal(replica.calls.feed, key, number, [value]).reasons[0]


def _apply(replica, key, number, **kind):
    """As a client does: an operation whose session another server has taken over is sent again, unchanged."""
    for _ in range(3):
        try:
            return replica.calls.apply(key, number, **kind)
        except grpc.RpcError as error:
            failure = wire.Failure(error)
            assert failure.reasons == ["TAKEN_OVER"], failure
    raise AssertionError("taken over again and again")


def _feed(replica, key, number, value):
    return _apply(replica, key, number, **chunk([value]))


def test_each_server_goes_on_where_the_other_was(replicas):
    opened = replicas[0].open(pb.OpenRequest.SYNC)
    assert opened.durability == pb.OpenRequest.SYNC
    for number in range(1, 21):
        reply = _feed(replicas[number % 3 % 2], opened.session, number, number)
        assert reply.durable_number == number
    assert replicas[0].calls.log(opened.session) == list(range(1, 21))
    # A former owner does not tell an old state.
    assert wire.refusal(replicas[1].calls.log, opened.session).reasons == ["TAKEN_OVER"]
    assert replicas[1].calls.log(opened.session) == list(range(1, 21))
    # A repetition is answered from the record.
    again = replicas[1].calls.feed(opened.session, 20, [20])
    assert again.repeated_reply and again.last_applied == 20


def test_a_killed_server_loses_nothing_that_was_answered(replicas):
    key = replicas[0].open(pb.OpenRequest.SYNC).session
    for number in range(1, 11):
        replicas[0].calls.feed(key, number, [number])
    replicas[0].kill()
    _feed(replicas[1], key, 11, 11)
    assert replicas[1].calls.log(key) == list(range(1, 12))
    replicas[0].start()
    assert replicas[0].calls.log(key) == list(range(1, 12))


def test_interval_tells_what_to_send_again(replicas):
    key = replicas[0].open(pb.OpenRequest.INTERVAL).session
    last, durable = 0, 0
    while durable < 64:  # replies do not wait for the store
        last += 1
        durable = replicas[0].calls.feed(key, last, [last]).durable_number
    replicas[0].kill()
    # A number that is too high shows where the record is.
    ahead = wire.refusal(replicas[1].calls.feed, key, last + 2, [0])
    assert ahead.reasons == ["NUMBER_TOO_HIGH"]
    next_expected = int(ahead.infos[0].metadata["next_expected"])
    assert next_expected > durable
    for number in range(next_expected, last + 3):
        _feed(replicas[1], key, number, number)
    assert replicas[1].calls.log(key) == list(range(last + 3 - 64, last + 3))


def test_a_drain_writes_all(replicas):
    key = replicas[0].open(pb.OpenRequest.INTERVAL).session
    for number in range(1, 11):
        replicas[0].calls.feed(key, number, [number])
    assert replicas[0].server.stop() == 0
    assert replicas[1].calls.log(key) == list(range(1, 11))
    replicas[0].start()


def test_a_stopped_server_that_wakes_is_fenced(replicas):
    key = replicas[0].open(pb.OpenRequest.SYNC).session
    replicas[0].calls.feed(key, 1, [1])
    replicas[0].signal(signal.SIGSTOP)
    _feed(replicas[1], key, 2, 2)
    replicas[0].signal(signal.SIGCONT)
    assert _refused(replicas[0], key, 2, 9) == "TAKEN_OVER"
    # Sent again it meets the record: the number is used.
    assert _refused(replicas[0], key, 2, 9) == "NUMBER_REUSED"
    assert replicas[0].calls.log(key) == [1, 2]


def test_the_store_is_away_for_a_while(redis, replicas):
    key = replicas[0].open(pb.OpenRequest.SYNC).session
    local = replicas[0].calls.open()
    replicas[0].calls.feed(key, 1, [1])
    redis.pause()
    try:
        request = pb.ApplyRequest(operation=operation(key, 2, **chunk([2])))
        request.operation.timeout.FromMilliseconds(3000)  # long enough to come to the store
        assert wire.refusal(replicas[0].calls.stub.Apply, request).reasons == ["STORE_UNAVAILABLE"]
        replicas[0].calls.feed(local, 1, [1])
    finally:
        redis.go_on()
    _feed(replicas[0], key, 2, 2)
    assert replicas[1].calls.log(key) == [1, 2]


def test_health_tells_that_the_store_is_away(redis, replicas):
    health = health_pb2_grpc.HealthStub(replicas[0].server.channel)
    watch = health.Watch(health_pb2.HealthCheckRequest(service="store/sessions"), timeout=60)

    def await_status(status):
        assert any(update.status == status for update in watch)

    await_status(health_pb2.HealthCheckResponse.SERVING)
    redis.kill()
    await_status(health_pb2.HealthCheckResponse.NOT_SERVING)
    assert health.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING
    redis.start()
    await_status(health_pb2.HealthCheckResponse.SERVING)


def test_a_name_is_one_session_on_all_servers(replicas):
    first = replicas[0].open(pb.OpenRequest.SYNC, name="n", attach=True)
    replicas[0].calls.feed(first.session, 1, [1])
    second = replicas[1].open(pb.OpenRequest.SYNC, name="n", attach=True)
    assert not second.created and second.session == first.session and second.last_applied == 1
    assert second.owner_epoch == first.owner_epoch + 1
    taken = wire.refusal(replicas[0].open, pb.OpenRequest.SYNC, name="n")
    assert taken.reasons == ["NAME_TAKEN"]
    replicas[1].calls.apply(first.session, 2, close=pb.Close())  # the refused Open has left it here
    assert _refused(replicas[0], first.session, 3, 3) == "SESSION_ENDED"


def _moved_after_one(redis, replicas):
    """A session that the first server opened, and the second one has now, with number 2. Database 1 has the records as
    of number 1."""
    key = replicas[0].open(pb.OpenRequest.SYNC).session
    replicas[0].calls.feed(key, 1, [1])
    redis.copy(0, 1)
    replicas[1].calls.feed(key, 2, [2])
    return key


@pytest.mark.parametrize("comes_back", ["empty", "older"])
def test_the_later_owner_prevails_where_the_store_lost_data(redis, replicas, comes_back):
    key = _moved_after_one(redis, replicas)
    redis.command("FLUSHDB")
    if comes_back == "older":
        redis.copy(1, 0)
    # The former owner is asked first, and knows of number 1 only: nothing is applied to what it has.
    assert _refused(replicas[0], key, 3, 3) == "NUMBER_TOO_HIGH"
    replicas[1].calls.feed(key, 3, [3])
    assert _refused(replicas[0], key, 4, 4) == "TAKEN_OVER"
    replicas[0].calls.feed(key, 4, [4])
    assert replicas[0].calls.log(key) == [1, 2, 3, 4]


def test_an_emptied_store_gets_all_records_again(redis, replicas):
    keys = [replicas[0].open(pb.OpenRequest.SYNC).session for _ in range(20)]
    for key in keys:
        replicas[0].calls.feed(key, 1, [1])
    redis.command("FLUSHDB")
    replicas[0].calls.feed(keys[0], 2, [2])
    while len(redis.keys()) < len(keys):  # within a sweep, which comes each second
        assert replicas[0].server.alive()
    for key in keys[1:]:
        replicas[1].calls.feed(key, 2, [2])
        assert replicas[1].calls.log(key) == [1, 2]


def test_a_server_without_the_model_leaves_the_session_to_its_owner(redis, replicas, secret):
    key = replicas[0].open(pb.OpenRequest.INTERVAL).session
    for number in range(1, 11):
        replicas[0].calls.feed(key, number, [number])
    without = Server(f"--store=redis://127.0.0.1:{redis.port}", f"--session_secret_file={secret}")
    try:
        assert wire.refusal(Sessions(without.address).feed, key, 11, [11]).reasons == ["MODEL_MISSING"]
    finally:
        without.stop()
    replicas[0].calls.feed(key, 11, [11])
    assert replicas[0].calls.log(key) == list(range(1, 12))


def test_streams_follow(replicas):
    key = replicas[0].open(pb.OpenRequest.SYNC).session
    for replica in (replicas[0], replicas[1]):
        stream = Stream(replica.calls)
        start = 1 if replica is replicas[0] else 9
        numbers = range(start, start + 8)
        stream.send(*(operation(key, number, **chunk([number])) for number in numbers))
        assert [reply.number for reply in stream.receive_many(8)] == list(numbers)
        assert not stream.end()
    assert replicas[1].calls.log(key) == list(range(1, 17))


def test_servers_without_the_secret_know_no_key(redis, replicas, tmp_path):
    key = replicas[0].open(pb.OpenRequest.SYNC).session
    other = tmp_path / "other"
    other.write_text("another secret of 32 letters or more\n")
    stranger = Replica(f"redis://127.0.0.1:{redis.port}", other)
    try:
        assert _refused(stranger, key, 1, 1) == "SESSION_UNKNOWN"
    finally:
        stranger.stop()


def _change_secrets(replicas, path, *secrets):
    """Returns when every server has logged that it has read the file."""
    def read():
        return [replica.server.log().count("secrets from now on") for replica in replicas]

    before = read()
    written = path.with_suffix(".new")
    written.write_text("".join(f"{secret}\n" for secret in secrets))
    written.replace(path)
    while any(now == then for now, then in zip(read(), before)):
        assert all(replica.server.alive() for replica in replicas)


def test_the_secret_is_changed_in_three_steps(replicas, secret):
    """docs/operations.md, Several servers with a store: no key is refused before the old secret has gone."""
    old, new = secret.read_text().strip(), "fedcba9876543210fedcba9876543210"
    first, second = replicas
    before = first.open(pb.OpenRequest.SYNC, name="before").session
    _change_secrets(replicas, secret, old, new)
    _feed(second, before, 1, 1)
    _change_secrets(replicas, secret, new, old)
    after = first.open(pb.OpenRequest.SYNC, name="after").session
    named = second.open(pb.OpenRequest.SYNC, name="before", attach=True, must_exist=True)
    assert not named.created and named.session == before, "found under the name that the old secret made"
    for key, number in ((before, 2), (after, 1)):
        _feed(first, key, number, number)
        _feed(second, key, number + 1, number + 1)
    _change_secrets(replicas, secret, new)
    _feed(first, after, 3, 3)
    _feed(second, before, 4, 4)
    first.kill()
    first.start()
    assert _refused(first, before, 5, 5) == "SESSION_UNKNOWN", "a server that does not have the session"
    _feed(first, after, 4, 4)


def test_faults_at_random(secret):
    """tests/campaigns/test_durable_kills.py in short."""
    tally = durable_kills.run(durable_kills.Cluster(secret), faults=8, clients=2, sessions=4, seed=7)
    assert not tally.problems, tally.problems
    assert tally.answered > 8


def test_flags_that_cannot_be_right(redis, tmp_path):
    without = run_to_end(f"--store=redis://127.0.0.1:{redis.port}")
    assert without.returncode == 1 and "--session_secret_file" in without.stderr
    right, short = tmp_path / "right", tmp_path / "short"
    right.write_text("0123456789abcdef0123456789abcdef\n")
    short.write_text("short\n")
    refused = run_to_end(f"--store=redis://127.0.0.1:{redis.port}", f"--session_secret_file={short}")
    assert refused.returncode == 1 and f"--session_secret_file={short}" in refused.stderr and "32" in refused.stderr
    assert "short\n" not in refused.stderr.replace(str(short), "")
    wrong = run_to_end("--store=http://x", f"--session_secret_file={right}")
    assert wrong.returncode == 1 and "redis://" in wrong.stderr
