# SPDX-License-Identifier: Apache-2.0
"""Both client libraries under the faults of durable_kills.py: sessions of a model in the servers' folders, whose outputs
show every lost or doubled chunk."""

from __future__ import annotations

import json
import pathlib
import subprocess
import time

import numpy as np
import onnx
import rnnserve
from durable_kills import Client
from server_process import BINARY
from session_calls import H

RNNCTL = BINARY.parents[1] / "client/rnnctl/rnnctl"


def write_model(folder: pathlib.Path) -> str:
    """The remembering cell of session_calls.py as a file, and its name."""
    w, r = np.zeros((1, H, 1), np.float32), np.zeros((1, H, H), np.float32)
    w[0, 0, 0] = 1
    r[0, np.arange(1, H), np.arange(H - 1)] = 1
    node = onnx.helper.make_node("RNN", ["X", "W", "R"], ["Y", "Y_h"], hidden_size=H, activations=["Affine"],
                                 activation_alpha=[1.0], activation_beta=[0.0])
    float32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node], "remember", [onnx.helper.make_tensor_value_info("X", float32, ["T", "N", 1])],
        [onnx.helper.make_tensor_value_info("Y", float32, ["T", 1, "N", H]),
         onnx.helper.make_tensor_value_info("Y_h", float32, [1, "N", H])],
        [onnx.numpy_helper.from_array(w, "W"), onnx.numpy_helper.from_array(r, "R")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=8)
    (folder / "remember" / "1").mkdir(parents=True)
    onnx.save(model, folder / "remember" / "1" / "model.onnx")
    return "remember"


def _newest(values) -> list[float]:
    return np.asarray(values).reshape(-1, H)[:, 0].tolist()


class PythonClient(Client):
    """Some sessions of one client of rnnserve, a chunk of each under way at a time."""

    sessions = 8
    durability = "sync"

    def _run(self):
        with rnnserve.Client([replica.server.address for replica in self._cluster.replicas]) as client:
            mine = [client.session("remember", outputs=["Y"], durability=self.durability, idle_timeout=600)
                    for _ in range(self.sessions)]
            value = 0
            while not self._over.is_set():
                value += 1
                began = time.monotonic()
                futures = [session.feed_async(np.full((1, 1, 1), value, np.float32)) for session in mine]
                for future in futures:
                    newest = _newest(future.result(120)["Y"])
                    if newest != [value]:
                        self._problem(f"Python: chunk {value} was answered with {newest}")
                    self._answered(began)
            for session in mine:
                slots = session.state()["initial_h"].reshape(-1).tolist()
                if slots != [max(value - k, 0) for k in range(H)] or session.position != value:
                    self._problem(f"Python: after {value} chunks the state is {slots}, position {session.position}")
                replays = session.repairs["replays"] + session.repairs["hand_overs"]
                if replays and self.durability == "sync":
                    self._problem(f"Python: a SYNC session needed {replays} replays")


class IntervalClient(PythonClient):
    """Sends again what no record has."""

    durability = "interval"


class RnnctlClient(Client):
    """One session of the C++ client: rnnctl streams, a line of JSON a chunk."""

    def _run(self):
        servers = ",".join(replica.server.address for replica in self._cluster.replicas)
        command = [RNNCTL, "stream", "--model=remember", "--format=raw", "--json", "--chunk=1", "--outputs=Y",
                   "--durability=sync", f"--server={servers}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stream:
            value = 0
            while not self._over.is_set():
                value += 1
                began = time.monotonic()
                stream.stdin.write(np.float32(value).tobytes())
                stream.stdin.flush()
                line = stream.stdout.readline()
                newest = _newest(_values(json.loads(line), "Y"))
                if newest != [value]:
                    self._problem(f"rnnctl: chunk {value} was answered with {line!r}")
                    return
                self._answered(began)
            stream.stdin.close()
            summary = stream.stdout.read()
            if stream.wait() != 0 or b'"replays": 0' not in summary:
                self._problem(f"rnnctl ended with {stream.returncode}: {summary!r}")


def _values(line: dict, name: str):
    return next(tensor["float_data"] for tensor in line["outputs"] if tensor["name"] == name)
