# SPDX-License-Identifier: Apache-2.0
"""The Python package in one environment with tensorflow and tritonclient, which have generated code and wishes for
protobuf of their own: today's, and those of the time of protobuf 4.25. Needs PyPI; some 700 MB are downloaded."""

import subprocess
import sys

import pytest
from server_process import Server

import wire

TRY = """
import importlib.metadata, sys
import google.protobuf, grpc
import tensorflow
import tritonclient.grpc
import numpy as np
import rnnserve

assert tensorflow.constant([1.0, 2.0]).numpy().sum() == 3
message = tritonclient.grpc.service_pb2.ModelInferRequest(model_name="m")
assert type(message).FromString(message.SerializeToString()).model_name == "m"
op = rnnserve.gru(np.ones((1, 24, 3), np.float32), np.ones((1, 24, 8), np.float32))
with rnnserve.Client(sys.argv[1]) as client, client.session(op) as session:
    assert client.infer(op, {"X": np.ones((5, 2, 3), np.float32)}).outputs["Y"].shape == (5, 1, 2, 8)
    assert session.feed(np.ones((5, 1, 3), np.float32))["Y_h"].shape == (1, 1, 8)
print("tensorflow", tensorflow.__version__, "tritonclient", importlib.metadata.version("tritonclient"), "protobuf",
      google.protobuf.__version__, "grpcio", grpc.__version__)
"""


@pytest.mark.parametrize("neighbours", [["tensorflow-cpu", "tritonclient[grpc]"],
                                        ["tensorflow-cpu==2.17.1", "tritonclient[grpc]==2.50.0", "protobuf==4.25.*"]],
                         ids=["of today", "of protobuf 4.25"])
def test_in_one_environment_and_one_process(neighbours, tmp_path, tell):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *neighbours,
                    wire.REPOSITORY / "client/python"], check=True, timeout=1500)
    subprocess.run([python, "-m", "pip", "check", "--disable-pip-version-check"], check=True)
    server = Server()
    done = subprocess.run([python, "-c", TRY, server.address], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tell(done.stdout.strip().splitlines()[-1])
    assert server.stop() == 0
