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
    longest_stall: dict = dataclasses.field(default_factory=dict)  # seconds, by the kind of client
    faults: dict = dataclasses.field(default_factory=dict)
    problems: list = dataclasses.field(default_factory=list)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)


class Cluster:
    """Replicas at addresses that stay, and a Redis that keeps its data on disk. With `cables` (cable.py), one a replica,
    each replica has a network of its own."""

    def __init__(self, secret_file, *flags, replicas=3, cables=()):
        self.cables = cables
        hosts = ["127.0.0.1"] + [cable.here for cable in cables]
        self.redis = Redis("--appendonly", "yes", "--appendfsync", "always", "--protected-mode", "no", hosts=hosts)
        flags = ("--drain_timeout=5s", *flags)
        if cables:
            self.replicas = [Replica(f"redis://{cable.here}:{self.redis.port}", secret_file, *flags, host=cable.there,
                                     run_in=cable.run_in) for cable in cables]
        else:
            store = f"redis://127.0.0.1:{self.redis.port}"
            self.replicas = [Replica(store, secret_file, *flags) for _ in range(replicas)]

    def restart(self, replica, with_signal):
        port = replica.server.port
        replica.server.stop(with_signal=with_signal)
        replica.start(port)

    def fault(self, seed: random.Random) -> str:
        """One fault, and its end."""
        replica = seed.choice(self.replicas)
        kinds = ["kill -9", "SIGTERM", "SIGSTOP", "store stops", "store is killed"]
        kind = seed.choice(kinds + ["cable is pulled"] if self.cables else kinds)
        if kind == "kill -9":
            self.restart(replica, signal.SIGKILL)
        elif kind == "SIGTERM":
            self.restart(replica, signal.SIGTERM)
        elif kind == "SIGSTOP":
            replica.signal(signal.SIGSTOP)
            time.sleep(seed.uniform(0.1, 1.0))
            replica.signal(signal.SIGCONT)
        elif kind == "cable is pulled":
            cable = seed.choice(self.cables)
            cable.pull()
            time.sleep(seed.uniform(0.5, 5.0))
            cable.plug_in()
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
    """Runs until it is told to stop; what goes wrong is in the tally."""

    def __init__(self, cluster: Cluster, stop: threading.Event, tally: Tally):
        super().__init__(daemon=True)
        self._cluster, self._over, self._tally = cluster, stop, tally

    def run(self):
        try:
            self._run()
        except Exception as error:  # whatever it is, the campaign tells it
            self._problem(f"{type(self).__name__}: {type(error).__name__}: {error}")

    def _run(self):
        raise NotImplementedError

    def _problem(self, what):
        with self._tally.lock:
            self._tally.problems.append(what)

    def _answered(self, began, operations=1):
        with self._tally.lock:
            self._tally.answered += operations
            kind = type(self).__name__
            self._tally.longest_stall[kind] = max(self._tally.longest_stall.get(kind, 0), time.monotonic() - began)


class RawClient(Client):
    """Feeds 1, 2, 3, ... into its sessions, each number to a replica drawn at random."""

    def __init__(self, cluster: Cluster, sessions: int, seed: int, stop: threading.Event, tally: Tally):
        super().__init__(cluster, stop, tally)
        self._seed = random.Random(seed)
        self._channels = [wire.channel(replica.server.address) for replica in cluster.replicas]
        self._stubs = [wire.sessions_grpc.SessionsStub(channel) for channel in self._channels]
        opened = [cluster.replicas[0].open(pb.OpenRequest.SYNC, idle_timeout={"seconds": 600}) for _ in range(sessions)]
        self.applied = {one.session: 0 for one in opened}

    def _run(self):
        while not self._over.is_set():
            for key in self.applied:
                self._feed(key)
        for key, applied in self.applied.items():
            self._check(key, applied)

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
        self._answered(began)

    def _check(self, key, applied):
        reply = self._call("GetState", pb.GetStateRequest(session=key))
        slots = wire.array(reply.state.tensors[0]).reshape(-1)
        expected = [max(applied - k, 0) for k in range(H)]
        if list(slots) != expected or reply.number != applied:
            self._problem(f"after {applied} operations the state is {list(slots)}, number {reply.number}")


def run(cluster: Cluster, faults=200, clients=8, sessions=8, seed=1, others=(), tell=lambda text: None) -> Tally:
    """`others`: further kinds of clients, made with (cluster, stop, tally). Stops the cluster."""
    tally, stop, draw = Tally(), threading.Event(), random.Random(seed)
    try:
        threads = [RawClient(cluster, sessions, seed * 1000 + k, stop, tally) for k in range(clients)]
        threads += [other(cluster, stop, tally) for other in others]
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
