# SPDX-License-Identifier: Apache-2.0
"""Durable sessions over gRPC: two servers of the test with a common store, one of which is killed or drains."""

import concurrent.futures
import threading

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2

import rnnserve
from rnnserve import tensors
from rnnserve.v1 import recurrent_pb2_grpc, sessions_pb2, sessions_pb2_grpc

Code = grpc.StatusCode


class StoreServer(sessions_pb2_grpc.SessionsServicer, recurrent_pb2_grpc.RecurrentServicer):
    """Each session's state is what it was fed. Writes the record of one after every `write_every` chunks to `store`."""

    def __init__(self, store, write_every):
        self.store, self.write_every = store, write_every
        self.sessions, self.opens, self.draining = {}, 0, False
        self.numbers = []  # of the chunks it has seen, in turn
        self._lock = threading.Lock()
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        sessions_pb2_grpc.add_SessionsServicer_to_server(self, self._server)
        recurrent_pb2_grpc.add_RecurrentServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def kill(self):
        self._server.stop(None).wait()

    def Open(self, request, context):
        self.opens += 1
        key = f"key {request.request_id}"
        values = [float(value) for tensor in request.state.tensors for value in tensors.decode(tensor).ravel()]
        self.sessions[key] = (values, [])
        self.durability = request.durability
        if request.durability:
            self.store[key] = (values, [])
        return sessions_pb2.OpenResponse(session=key, fingerprint="f", max_in_flight=request.max_in_flight, created=True,
                                         durability=request.durability, owner_epoch=1)

    def Stream(self, requests, context):
        context.send_initial_metadata(())
        for request in requests:
            response = sessions_pb2.StreamResponse(replies=[self._apply(one) for one in request.operations])
            if self.draining:
                response.drain.SetInParent()
            yield response

    def _apply(self, operation):
        with self._lock:
            reply = sessions_pb2.OperationReply(request_id=operation.request_id, session=operation.session)
            if operation.session not in self.sessions and operation.session in self.store:
                start, fed = self.store[operation.session]
                self.sessions[operation.session] = (start, list(fed))
            if operation.session not in self.sessions:
                return _refuse(reply, Code.DATA_LOSS, "SESSION_LOST")
            start, fed = self.sessions[operation.session]  # the state it was opened with, and what came since
            if operation.HasField("get_state"):
                reply.get_state.number = reply.get_state.position = len(fed)
                reply.get_state.state.tensors.append(tensors.encode("log", np.array([[start + fed]], np.float32)))
                return reply
            self.numbers.append(operation.number)
            reply.last_applied, reply.next_expected = len(fed), len(fed) + 1
            if operation.number > len(fed) + 1:
                return _refuse(reply, Code.OUT_OF_RANGE, "NUMBER_TOO_HIGH")
            if operation.number == len(fed) + 1:
                if self.draining:
                    return _refuse(reply, Code.UNAVAILABLE, "DRAINING")
                if operation.HasField("chunk"):
                    fed.append(float(tensors.decode(operation.chunk.inputs[0]).ravel()[0]))
                if len(fed) % self.write_every == 0:
                    self.store[operation.session] = (start, list(fed))
            reply.number = reply.position = operation.number
            reply.durable_number = len(self.store.get(operation.session, ((), ()))[1])
            reply.outputs.append(tensors.encode("Y", np.array(start + fed[:operation.number], np.float32)))
            return reply


def _refuse(reply, code, reason):
    reply.status.code, reply.status.message = code.value[0], reason
    reply.status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain="rnnserve"))
    return reply


def start(write_every):
    store = {}
    return [StoreServer(store, write_every) for _ in range(2)]


def feed(session, values):
    for value in values:
        assert list(session.feed(np.full((1, 1, 1), value, np.float32))["Y"]) == list(range(1, value + 1))


@pytest.mark.parametrize("end", ["kill", "drain"])
@pytest.mark.parametrize("durability, write_every", [("sync", 1), ("interval", 8)])
def test_a_durable_session_keeps_its_key(end, durability, write_every):
    first, second = start(write_every)
    with rnnserve.Client([first.address, second.address], load_balancing="pick_first") as client:
        session = client.session("m", durability=durability)
        key = session.key
        feed(session, range(1, 13))
        if end == "kill":
            first.kill()
        else:
            first.draining = True
        feed(session, range(13, 31))
        assert session.key == key and session.position == 30 and session.link.address == second.address
        assert session.repairs["takeovers"] == 1 and session.repairs["replays"] == session.repairs["hand_overs"] == 0
        assert second.opens == 0 and list(session.state()["log"].ravel()) == list(range(1, 31))
        resent = second.numbers[:second.numbers.index(30)]
        assert (9 in resent) == (durability == "interval"), "only what the store lacks is sent again"
        assert sessions_pb2.OpenRequest.Durability.Name(first.durability) == durability.upper()
    first.kill()
    second.kill()


def test_a_session_that_is_not_asked_anything_follows_as_well():
    """state() first finds a server that knows less than was answered."""
    first, second = start(write_every=8)
    with rnnserve.Client([first.address, second.address], load_balancing="pick_first") as client:
        session = client.session("m", durability="interval")
        feed(session, range(1, 13))
        first.kill()
        assert list(session.state()["log"].ravel()) == list(range(1, 13)) and session.position == 12
    second.kill()


@pytest.mark.parametrize("every", [0, 4])
def test_one_that_the_store_has_lost_is_restored_from_a_snapshot_or_told(every):
    first, second = start(write_every=1)
    with rnnserve.Client([first.address, second.address], load_balancing="pick_first") as client:
        session = client.session("m", durability="sync", checkpoint_every=every)
        feed(session, range(1, 11))
        first.store.clear()
        first.kill()
        if every:
            session.feed(np.full((1, 1, 1), 11, np.float32))
            assert list(session.state()["log"].ravel()) == list(range(1, 12)) and session.repairs["replays"] == 1
        else:
            with pytest.raises(rnnserve.RnnServeError) as caught:
                session.feed(np.full((1, 1, 1), 11, np.float32))
            assert caught.value.code is Code.DATA_LOSS
    second.kill()


def test_what_may_be_asked_for():
    with rnnserve.Client("127.0.0.1:1") as client, pytest.raises(ValueError, match="local, interval or sync"):
        client.session("m", durability="always")
