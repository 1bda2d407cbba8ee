# SPDX-License-Identifier: Apache-2.0
"""Client of rnnserve: recurrent operators (LSTM, GRU, RNN of ONNX and OpenVINO) over gRPC, numpy in, numpy out.

    import numpy as np
    import rnnserve

    rng = np.random.default_rng(0)
    W, R = rng.standard_normal((1, 32, 3), np.float32), rng.standard_normal((1, 32, 8), np.float32)
    with rnnserve.Client("localhost:50051") as client:
        result = client.infer(rnnserve.lstm(W, R), {"X": rng.standard_normal((5, 2, 3), np.float32)})
        print(result.outputs["Y"].shape)  # (5, 1, 2, 8): steps, directions, rows, hidden size

rnnserve.aio has the same for asyncio; rnnserve.convert takes weights of other frameworks; rnnserve.formulas are the
operators in plain numpy. The three are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rnnserve.client import Client
from rnnserve.errors import RnnServeError
from rnnserve.operators import Operator, Options, gru, lstm, openvino, rnn
from rnnserve.results import ModelInfo, Result, SessionInfo, TensorSpec
from rnnserve.sessions import Session, State

if TYPE_CHECKING:
    from rnnserve import aio, convert, formulas

__version__ = "0.1.0"
__all__ = ["Client", "ModelInfo", "Operator", "Options", "Result", "RnnServeError", "Session", "SessionInfo", "State",
           "TensorSpec", "__version__", "aio", "convert", "formulas", "gru", "lstm", "openvino", "rnn"]

_LATER = ("aio", "convert", "formulas")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"rnnserve.{name}")
    raise AttributeError(f"module 'rnnserve' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
