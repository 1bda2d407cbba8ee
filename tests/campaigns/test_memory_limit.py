# SPDX-License-Identifier: Apache-2.0
"""A memory limit of 1.2 times the working set, as a container has it: the server finds it, sheds what would not fit,
and the kernel has no reason to kill it. What fits it goes on serving, beside the refusals, about as fast as before."""

from __future__ import annotations

import collections
import concurrent.futures
import os
import pathlib
import queue
import time
import uuid

import grpc
import pytest

import wire
from server_process import BINARY, Server
from session_calls import operation
from test_service import SECONDS, _case

# cgroup v1's memory controller, or v2.
V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")
USUAL, MANY = 8, 64  # callers at once
SMALL, LARGE = 512, 2048  # steps of a call: 1 and 4 MiB each way


class MemoryGroup:
    def __init__(self):
        root, limit, peak = (V1, "memory.limit_in_bytes", "memory.max_usage_in_bytes") if V1.is_dir() else (
            V2, "memory.max", "memory.peak")
        self.folder = root / f"rnnserve-{uuid.uuid4().hex[:8]}"
        try:
            self.folder.mkdir()
            if not (self.folder / limit).exists():
                self.folder.rmdir()
                raise OSError("no memory controller")
        except OSError as why:
            pytest.skip(f"no cgroup of our own: {why}")
        self.limit, self._peak = self.folder / limit, self.folder / peak
        if root == V1:  # which counts sockets by themselves, once they have a limit; v2 counts them with the rest
            (self.folder / "memory.kmem.tcp.limit_in_bytes").write_text(str(1 << 40))

    def starter(self, folder):
        """A program that starts the server in this group."""
        script = folder / "rnnserve"
        script.write_text(f'#!/bin/sh\necho $$ >{self.folder}/cgroup.procs || exit 1\nexec {BINARY} "$@"\n')
        script.chmod(0o755)
        return script

    def bound(self, size):
        self.limit.write_text(str(size))

    def peak(self):
        return int(self._peak.read_text())

    def sockets(self):
        """The most that TCP took of the kernel's memory, as a text."""
        file = self.folder / "memory.kmem.tcp.max_usage_in_bytes"
        return f"sockets up to {int(file.read_text()) / 2**20:.1f} MiB" if file.exists() else "sockets included"

    def kills(self):
        file = self.folder / ("memory.oom_control" if "limit_in_bytes" in self.limit.name else "memory.events")
        return int(dict(line.split() for line in file.read_text().splitlines())["oom_kill"])

    def close(self):
        self.folder.rmdir()


def _load(server, callers, calls, steps):
    """How many calls ended with which code, with so many callers at once."""
    request = wire.request(_case(steps=steps, rows=16, inputs=32, hidden=32), engine="cpu")
    stubs = []
    for _ in range(8):
        channel = wire.channel(server.address)
        stubs.append((channel, wire.recurrent_grpc.RecurrentStub(channel)))

    def one(k):
        try:
            stubs[k % len(stubs)][1].Infer(request, timeout=SECONDS)
            return "OK"
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                assert dict(error.trailing_metadata())["grpc-retry-pushback-ms"], "refused by the server, not by gRPC"
            return error.code().name

    with concurrent.futures.ThreadPoolExecutor(callers) as pool:
        codes = collections.Counter(pool.map(one, range(calls)))
    for channel, _ in stubs:
        channel.close()
    return codes


def _stream_load(server, streams, seconds, steps):
    """How many chunks ended with which code, with so many streams that each keep one chunk in flight, and how many
    streams broke off. Chunks that are refused go again, as RetryInfo asks."""
    case = _case(steps=steps, rows=16, inputs=32, hidden=32)
    x = wire.tensor("X", case.tensors["X"])
    weights = [wire.tensor(name, value) for name, value in case.tensors.items() if name != "X"]
    channels = [wire.channel(server.address) for _ in range(8)]
    until = time.monotonic() + seconds

    def one(k):
        codes = collections.Counter()
        opening = wire.sessions_pb2.OpenRequest(operator=wire.operator(case), weights=weights, rows=16, outputs=["Y"])
        opening.window_operations = 0
        while True:
            try:
                key = wire.sessions_grpc.SessionsStub(channels[k % 8]).Open(opening, timeout=SECONDS).session
                break
            except grpc.RpcError as error:
                codes[f"Open {error.code().name}"] += 1
                if time.monotonic() > until or error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    return codes
        say = queue.SimpleQueue()
        call = wire.recurrent_grpc.RecurrentStub(channels[k % 8]).Stream(iter(say.get, None))
        number = 1
        try:
            while time.monotonic() < until:
                say.put(wire.sessions_pb2.StreamRequest(operations=[
                    operation(key, number, chunk=wire.sessions_pb2.Chunk(inputs=[x]))]))
                status = next(call).replies[0].status
                codes[grpc_status(status.code)] += 1
                number += status.code == 0
                if status.code:
                    time.sleep(0.02)
        except grpc.RpcError as error:
            codes[f"broken: {error.code().name}"] += 1
        finally:
            say.put(None)
        return codes

    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        codes = sum(pool.map(one, range(streams)), collections.Counter())
    for channel in channels:
        channel.close()
    return codes


def grpc_status(number):
    return next(code.name for code in grpc.StatusCode if code.value[0] == number)


@pytest.fixture
def groups():
    made = []

    def make(limit=None):
        made.append(MemoryGroup())
        if limit is not None:
            made[-1].bound(limit)
        return made[-1]

    yield make
    for group in made:
        group.close()


@pytest.mark.parametrize("steps", [SMALL, LARGE], ids=["calls of 1 MiB", "calls of 4 MiB"])
def test_overload_within_a_memory_limit(tell, tmp_path, groups, steps):
    usual = groups()
    server = Server(binary=usual.starter(tmp_path))
    try:
        began = time.monotonic()
        assert set(_load(server, USUAL, 200, steps)) == {"OK"}
        usual_rate = 200 / (time.monotonic() - began)
    finally:
        assert server.stop() == 0
    working_set = usual.peak()

    bounded = groups(int(1.2 * working_set))
    server = Server(binary=bounded.starter(tmp_path))
    try:
        assert "memory limit" in server.log()
        began = time.monotonic()
        codes = _load(server, MANY, int(os.environ.get("RNNSERVE_CALLS", "2000")), steps)
        usually = usual_rate * (time.monotonic() - began)
        assert server.alive() and bounded.kills() == 0, server.log()
        tell(f"working set of {USUAL} callers {working_set >> 20} MiB; limit {int(1.2 * working_set) >> 20} MiB, peak "
             f"{bounded.peak() >> 20} MiB, {bounded.sockets()}, with {MANY} callers: {dict(codes)}, not killed; without a limit {USUAL} "
             f"callers have {usually:.0f} OK in the time")
        assert set(codes) <= {"OK", "RESOURCE_EXHAUSTED"} and codes["RESOURCE_EXHAUSTED"] and codes["OK"]
        assert codes["OK"] > usually / 2
        assert _load(server, 1, 10, 4) == {"OK": 10}, "it serves on"
    finally:
        code = server.stop()
    assert code == 0


@pytest.mark.parametrize("steps", [SMALL, LARGE], ids=["chunks of 1 MiB", "chunks of 4 MiB"])
def test_streams_within_a_memory_limit(tell, tmp_path, groups, steps):
    """64 streams that each send a large chunk at once, where there is memory for 8."""
    seconds = float(os.environ.get("RNNSERVE_SECONDS", "10"))
    usual = groups()
    server = Server("--engine=cpu", "--drain_timeout=100ms", binary=usual.starter(tmp_path))
    try:
        codes = _stream_load(server, USUAL, seconds, steps)
        assert set(codes) == {"OK"}, codes
        usually = codes["OK"]
    finally:
        server.stop()
    working_set = usual.peak()

    bounded = groups(int(1.2 * working_set))
    server = Server("--engine=cpu", "--drain_timeout=100ms", binary=bounded.starter(tmp_path))
    try:
        codes = _stream_load(server, MANY, seconds, steps)
        tell(f"working set of {USUAL} streams {working_set >> 20} MiB; limit {int(1.2 * working_set) >> 20} MiB, peak "
             f"{bounded.peak() >> 20} MiB, {bounded.sockets()}, with {MANY} streams: {dict(codes)}; killed: {bounded.kills()}; without a "
             f"limit {USUAL} streams have {usually} OK in the time")
        assert server.alive() and bounded.kills() == 0, server.log()
        assert {code.removeprefix("Open ") for code in codes} <= {"OK", "RESOURCE_EXHAUSTED"}
        assert codes["OK"] > usually / 2
        assert _load(server, 1, 10, 4) == {"OK": 10}, "it serves on"
    finally:
        server.stop()
