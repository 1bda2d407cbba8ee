# SPDX-License-Identifier: Apache-2.0
"""The voice detector of the PyPI package silero-vad in the parts that `rnnctl split` makes of it.

The package's file for whole recordings, silero_vad_16k_sequence.onnx, takes 64 samples of context and 512 new ones for
each step: convolutions (before) -> LSTM, H = 128, and decision head (served) -> the axes of the probability (after).
onnxruntime runs before and after here; the server runs the part between. The package itself is not imported: it wants
torch, which the network does not need.
"""

import importlib.metadata
import json
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

Array = npt.NDArray[Any]
Columns = tuple[Array, Array, Array]  # of the chunks of a recording: probability [chunks], h and c [chunks, 128]

RATE, CHUNK, CONTEXT, HIDDEN = 16000, 512, 64, 128
SEQUENCE = "silero_vad_16k_sequence.onnx"
INSTALL = "pip install --no-deps -r client/examples/vad/package.txt"


def find_file() -> pathlib.Path:
    """The path of silero_vad.onnx in the installed package, beside SEQUENCE; raises FileNotFoundError that says how to
    install it."""
    try:
        files = importlib.metadata.files("silero-vad") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "silero_vad.onnx":
            return pathlib.Path(str(file.locate()))
    raise FileNotFoundError(f"silero-vad is not installed in this Python; {INSTALL}")


class Parts:
    """encode: samples [rows, 576] -> `served`'s input [rows, 1, 128]; decide: what it gives of each row -> probability
    [rows]."""

    def __init__(self, rnnctl: str, path: pathlib.Path, folder: pathlib.Path) -> None:
        done = subprocess.run([rnnctl, "split", str(path), "--output", str(folder), "--json"], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"rnnctl split: {done.stderr.strip()}")
        before, served, after = json.loads(done.stdout)["parts"]
        self.served = pathlib.Path(served["path"]).read_bytes()
        self.x, self.score = before["outputs"][0]["name"], after["inputs"][0]["name"]
        self._before, self._after = _runtime(before["path"]), _runtime(after["path"])

    def encode(self, samples: Array) -> Array:
        return np.asarray(self._before.run([self.x], {"input": samples})[0])

    def decide(self, scores: Sequence[Array]) -> Array:
        """scores: [1, 1, 1] of each row, which the rows' places as steps make one call of."""
        return np.asarray(self._after.run(None, {self.score: np.concatenate(scores, axis=2)})[0])


class Whole:
    """The file as the package runs it (OnnxWrapper of silero_vad/utils_vad.py), one recording at a time."""

    def __init__(self, path: pathlib.Path) -> None:
        self._session = _runtime(str(path))

    def run(self, frames: Array) -> Columns:
        """Of frames [chunks, 576]."""
        state: Any = np.zeros((2, 1, HIDDEN), np.float32)
        results: list[tuple[float, Array, Array]] = []
        for frame in frames:
            feeds = {"input": frame[None], "state": state, "sr": np.array(RATE, np.int64)}
            output, state = self._session.run(None, feeds)
            results.append((output.item(), state[0, 0], state[1, 0]))
        return columns(results)


def columns(rows: Sequence[tuple[float, Array, Array]]) -> Columns:
    probability, h, c = (np.array(column, np.float32) for column in zip(*rows))
    return probability, h, c


def frames_of(samples: Array) -> Array:
    """[chunks, 576]: each chunk of 512 samples behind the last 64 of the one before; the end is filled with silence."""
    chunks = -(-len(samples) // CHUNK)
    padded = np.zeros(CONTEXT + chunks * CHUNK, np.float32)
    padded[CONTEXT:CONTEXT + len(samples)] = samples
    return np.lib.stride_tricks.sliding_window_view(padded, CONTEXT + CHUNK)[::CHUNK]


def _runtime(model: str) -> Any:
    """An InferenceSession of a file; onnxruntime has no types."""
    library: Any = onnxruntime
    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
