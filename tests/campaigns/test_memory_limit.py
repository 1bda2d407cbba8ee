# SPDX-License-Identifier: Apache-2.0
"""A memory limit of 1.2 times the working set: the server sheds load, and the kernel has no reason to kill it."""

from __future__ import annotations

import collections
import concurrent.futures
import os
import pathlib
import uuid

import grpc
import pytest

import wire
from server_process import Server
from test_service import SECONDS, _case

# cgroup v1's memory controller, or v2.
V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")
CALLERS = 48
# What may be held at once, all together: the most that the flags add up to.
LIMITS = ("--max_request_bytes_in_flight=33554432", "--max_output_bytes_in_flight=33554432",
          "--max_transport_bytes=33554432", "--packed_weight_bytes=33554432", "--inline_weight_bytes=33554432",
          "--max_calls=64")


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

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def bound(self, size):
        self.limit.write_text(str(size))

    def peak(self):
        return int(self._peak.read_text())

    def reset(self):
        self._peak.write_text("0")

    def kills(self):
        file = self.folder / ("memory.oom_control" if "limit_in_bytes" in self.limit.name else "memory.events")
        return int(dict(line.split() for line in file.read_text().splitlines())["oom_kill"])

    def close(self):
        self.folder.rmdir()


def _load(server, calls, size):
    """How many calls ended with which code, with CALLERS of them at once."""
    request = wire.request(_case(steps=size, rows=16, inputs=32, hidden=32), engine="cpu")
    stubs = []
    for _ in range(8):
        channel = wire.channel(server.address)
        stubs.append((channel, wire.recurrent_grpc.RecurrentStub(channel)))

    def one(k):
        try:
            stubs[k % len(stubs)][1].Infer(request, timeout=SECONDS)
            return "OK"
        except grpc.RpcError as error:
            return error.code().name

    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        codes = collections.Counter(pool.map(one, range(calls)))
    for channel, _ in stubs:
        channel.close()
    return codes


def test_overload_within_a_memory_limit(tell):
    group, server = MemoryGroup(), Server(*LIMITS)
    try:
        group.add(server.process.pid)
        _load(server, 200, size=512)
        server.stop()
        server = Server(*LIMITS)
        group.add(server.process.pid)
        group.reset()
        first = _load(server, 300, size=512)  # 1 MiB each way: what is served at a time is bounded by the flags
        working_set = group.peak()
        group.bound(int(1.2 * working_set))
        codes = _load(server, int(os.environ.get("RNNSERVE_CALLS", "3000")), size=512)
        assert server.alive() and group.kills() == 0, server.log()
        tell(f"working set {working_set >> 20} MiB ({dict(first)}); limit {int(1.2 * working_set) >> 20} MiB, peak "
             f"{group.peak() >> 20} MiB: {dict(codes)}, not killed")
        assert set(codes) <= {"OK", "RESOURCE_EXHAUSTED"} and codes["RESOURCE_EXHAUSTED"] and codes["OK"]
        assert _load(server, 10, size=4) == {"OK": 10}, "it serves on"
    finally:
        code = server.stop()
        group.close()
    assert code == 0
