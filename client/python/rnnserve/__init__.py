# SPDX-License-Identifier: Apache-2.0
"""Client of rnnserve: recurrent operators (LSTM, GRU, RNN of ONNX and OpenVINO) over gRPC, numpy in, numpy out.

    import numpy as np
    import rnnserve

    rng = np.random.default_rng(0)
    W, R = rng.standard_normal((1, 32, 3), np.float32), rng.standard_normal((1, 32, 8), np.float32)
    with rnnserve.Client("localhost:50051") as client:
        result = client.infer(rnnserve.lstm(W, R), {"X": rng.standard_normal((5, 2, 3), np.float32)})
        print(result.outputs["Y"].shape)  # (5, 1, 2, 8): steps, directions, rows, hidden size
"""

from rnnserve.client import Client, ModelInfo, Result, TensorSpec
from rnnserve.errors import RnnServeError
from rnnserve.operators import Operator, gru, lstm, openvino, rnn
from rnnserve.sessions import Session, State

__all__ = ["Client", "ModelInfo", "Operator", "Result", "RnnServeError", "Session", "State", "TensorSpec", "gru", "lstm",
           "openvino", "rnn"]
