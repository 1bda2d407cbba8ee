# SPDX-License-Identifier: Apache-2.0
"""A memory limit of 1.2 times the working set, as a container has it: the server finds it, sheds what would not fit,
and the kernel has no reason to kill it. What fits it goes on serving, beside the refusals, about as fast as before."""

from __future__ import annotations

import collections
import concurrent.futures
import os
import pathlib
import time
import uuid

import grpc
import pytest

import wire
from server_process import BINARY, Server
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
             f"{bounded.peak() >> 20} MiB with {MANY} callers: {dict(codes)}, not killed; without a limit {USUAL} "
             f"callers have {usually:.0f} OK in the time")
        assert set(codes) <= {"OK", "RESOURCE_EXHAUSTED"} and codes["RESOURCE_EXHAUSTED"] and codes["OK"]
        assert codes["OK"] > usually / 2
        assert _load(server, 1, 10, 4) == {"OK": 10}, "it serves on"
    finally:
        code = server.stop()
    assert code == 0
