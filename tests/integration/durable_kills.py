# SPDX-License-Identifier: Apache-2.0
"""Sessions under faults: several servers on one Redis, clients that send each number to any of them, and a schedule that
kills, stops and restarts what they talk to. Each session is of the remembering cell, so its state shows what was applied."""

from __future__ import annotations

import dataclasses
import random
import signal
import threading
import time

import grpc
import numpy as np

import wire
from redis_process import Redis, Replica
from session_calls import H

pb = wire.sessions_pb2
GIVE_UP_SECONDS = 60
# What a client may meet and answers by sending the same operation again. Anything else is a fault of the server.
AGAIN = {"TAKEN_OVER", "STORE_UNAVAILABLE", "DRAINING", "MODEL_MISSING", ""}


@dataclasses.dataclass
class Tally:
    answered: int = 0
    sent_again: int = 0
    longest_stall: float = 0.0
    faults: dict = dataclasses.field(default_factory=dict)
    problems: list = dataclasses.field(default_factory=list)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class Cluster:
    """Replicas at addresses that stay, and a Redis that keeps its data on disk."""

    def __init__(self, secret_file, replicas=3):
        self.redis = Redis("--appendonly", "yes", "--appendfsync", "always")
        store = f"redis://127.0.0.1:{self.redis.port}"
        self.replicas = [Replica(store, secret_file, "--drain_timeout=5s") for _ in range(replicas)]

    def restart(self, replica, with_signal):
        address = replica.server.address
        replica.server.stop(with_signal=with_signal)
        replica.start(listen=address)

    def fault(self, seed: random.Random) -> str:
        """One fault, and its end."""
        replica = seed.choice(self.replicas)
        kind = seed.choice(["kill -9", "SIGTERM", "SIGSTOP", "store stops", "store is killed"])
        if kind == "kill -9":
            self.restart(replica, signal.SIGKILL)
        elif kind == "SIGTERM":
            self.restart(replica, signal.SIGTERM)
        elif kind == "SIGSTOP":
            replica.signal(signal.SIGSTOP)
            time.sleep(seed.uniform(0.1, 1.0))
            replica.signal(signal.SIGCONT)
        elif kind == "store stops":
            self.redis.pause()
            time.sleep(seed.uniform(0.1, 1.0))
            self.redis.go_on()
        else:
            self.redis.kill()
            self.redis.start()
        return kind

    def stop(self):
        for replica in self.replicas:
            replica.stop()
        self.redis.stop()


class Client(threading.Thread):
    """Feeds 1, 2, 3, ... into its sessions, each number to a replica drawn at random."""

    def __init__(self, cluster: Cluster, sessions: int, seed: int, stop: threading.Event, tally: Tally):
        super().__init__(daemon=True)
        self._cluster, self._seed, self._over, self._tally = cluster, random.Random(seed), stop, tally
        self._fingerprint = cluster.replicas[0].fingerprint
        self._channels = [wire.channel(replica.server.address) for replica in cluster.replicas]
        self._stubs = [wire.sessions_grpc.SessionsStub(channel) for channel in self._channels]
        opened = [cluster.replicas[0].open(pb.OpenRequest.SYNC, idle_timeout={"seconds": 600}) for _ in range(sessions)]
        self.applied = {one.session: 0 for one in opened}

    def run(self):
        try:
            while not self._over.is_set():
                for key in self.applied:
                    self._feed(key)
            for key, applied in self.applied.items():
                self._check(key, applied)
        except Exception as error:  # whatever it is, the campaign tells it
            self._problem(f"{type(error).__name__}: {error}")

    def _problem(self, what):
        with self._tally.lock:
            self._tally.problems.append(what)

    def _call(self, method, request):
        """To some replica, until one answers."""
        began = time.monotonic()
        while True:
            stub = self._seed.choice(self._stubs)
            try:
                return getattr(stub, method)(request, timeout=2)
            except grpc.RpcError as error:
                failure = wire.Failure(error)
                reason = failure.reasons[0] if failure.reasons else ""
                if reason not in AGAIN or time.monotonic() - began > GIVE_UP_SECONDS:
                    raise RuntimeError(f"{method}: {failure}") from None
            with self._tally.lock:
                self._tally.sent_again += 1
            time.sleep(0.01)

    def _feed(self, key):
        number = self.applied[key] + 1
        x = wire.tensor("X", np.full((1, 1, 1), number, "float32"))
        operation = pb.Operation(session=key, number=number, chunk=pb.Chunk(inputs=[x]))
        began = time.monotonic()
        reply = self._call("Apply", pb.ApplyRequest(operation=operation)).reply
        self.applied[key] = number
        newest = wire.array(reply.outputs[0]).reshape(-1)[0]
        if reply.last_applied != number or newest != number:
            self._problem(f"number {number} was answered with last_applied {reply.last_applied}, newest {newest}")
        with self._tally.lock:
            self._tally.answered += 1
            self._tally.longest_stall = max(self._tally.longest_stall, time.monotonic() - began)

    def _check(self, key, applied):
        reply = self._call("GetState", pb.GetStateRequest(session=key))
        slots = wire.array(reply.state.tensors[0]).reshape(-1)
        expected = [max(applied - k, 0) for k in range(H)]
        if list(slots) != expected or reply.number != applied:
            self._problem(f"after {applied} operations the state is {list(slots)}, number {reply.number}")


def run(secret_file, faults=200, clients=8, sessions=8, seed=1, tell=lambda text: None) -> Tally:
    tally, stop, draw = Tally(), threading.Event(), random.Random(seed)
    cluster = Cluster(secret_file)
    try:
        threads = [Client(cluster, sessions, seed * 1000 + k, stop, tally) for k in range(clients)]
        for thread in threads:
            thread.start()
        for k in range(faults):
            time.sleep(draw.uniform(0.05, 0.4))
            kind = cluster.fault(draw)
            tally.faults[kind] = tally.faults.get(kind, 0) + 1
            if k % 10 == 9:
                tell(f"{k + 1} of {faults} faults, {tally.answered} operations, {len(tally.problems)} problems")
            if tally.problems:
                break
        stop.set()
        for thread in threads:
            thread.join()
    finally:
        stop.set()
        cluster.stop()
    return tally
