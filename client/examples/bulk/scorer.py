# SPDX-License-Identifier: Apache-2.0
"""A model of several servers as a function of batches: for Dataset.map_batches of Ray Data, or to be called by threads.

A row is one sequence. The rows of a batch are sorted by length, cut into calls and sent to all servers at once; the client
library sends each call to the server with the fewest calls under way, and to another one when a server is killed or leaves.
An infer keeps nothing on the server, so what is sent twice counts once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt

import rnnserve

Array = npt.NDArray[Any]
TYPES: Mapping[str, npt.DTypeLike] = {"INT32": np.int32, "INT64": np.int64, "FLOAT16": np.float16, "FLOAT": np.float32,
                                      "DOUBLE": np.float64}
ERROR = "error"  # the column of what a server said of a row that it refused; "" of all others


class Scorer:
    """Called with columns by name it returns them without the sequences, with the model's outputs and ERROR.

    servers        "host:port", several by comma, or a name with several addresses. All of them have the model: those of a
                   repository folder are there after a restart, uploaded ones are not
    model          its name
    column         the column of sequences, [T] or [T, I] each
    outputs        names wanted; none: all of the model. What has steps is cut to the row's length
    rows_per_call  sequences of one call at most
    calls          calls under way of this Scorer
    patience       seconds without a server that takes a call, after which it raises RnnServeError
    deterministic  a row has the same bits in every run, whatever shares its batch on the server
    """

    def __init__(self, servers: str, model: str, column: str, outputs: Sequence[str] = (), rows_per_call: int = 32,
                 calls: int = 8, patience: float = 300.0, deterministic: bool = False) -> None:
        info = _model(servers, model, patience)
        inputs = [spec for spec in info.inputs if "T" in spec.shape and "N" in spec.shape and not spec.optional]
        if len(inputs) != 1:
            raise ValueError(f"{model} takes {[spec.name for spec in inputs]}; one input of [T, N, ...] can be scored")
        steps = inputs[0]
        if steps.data_type not in TYPES:
            raise ValueError(f"{model} takes {steps.name} as {steps.data_type}, which is none of {', '.join(TYPES)}")
        known = {spec.name: spec for spec in info.outputs}
        missing = [name for name in outputs if name not in known]
        if missing:
            raise ValueError(f"{model} has no output {missing[0]}; it has {', '.join(known)}")
        self._input, self._type = steps.name, np.dtype(TYPES[steps.data_type])
        self._axes = steps.shape.index("T"), steps.shape.index("N")
        self._widths = [int(dim) if dim.isdigit() else 1 for dim in steps.shape]
        self._outputs = {name: _axes(known[name]) for name in outputs or known}
        self._model, self._column, self._rows_per_call, self._patience = model, column, rows_per_call, patience
        self._deterministic = deterministic
        self._client = rnnserve.Client(servers, patience=patience)
        self._threads = ThreadPoolExecutor(calls)
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()
        self._threads.shutdown()
        self._client.close()

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        if self._column not in batch:
            raise ValueError(f"there is no column {self._column}; there are {', '.join(batch)}")
        values = batch[self._column]
        columns, errors = {name: _objects(len(values), None) for name in self._outputs}, _objects(len(values), "no sequence")
        sequences: dict[int, Array] = {}
        for row, value in enumerate(values):
            if value is not None:
                try:
                    sequences[row] = _sequence(value, self._type)
                except (TypeError, ValueError) as wrong:
                    errors[row] = f"not a sequence of {self._type}: {wrong}"
        order = sorted(sequences, key=lambda row: len(sequences[row]))  # little padding in each call
        calls = [order[k:k + self._rows_per_call] for k in range(0, len(order), self._rows_per_call)]
        answers = self._threads.map(self._score, [[sequences[row] for row in rows] for rows in calls])
        for rows, answer in zip(calls, answers):
            for row, (outputs, error) in zip(rows, answer):
                errors[row] = error
                for name in columns:
                    columns[name][row] = outputs.get(name)
        return {**{name: value for name, value in batch.items() if name != self._column}, **columns, ERROR: errors}

    def _score(self, sequences: Sequence[Array]) -> list[tuple[dict[str, Array], str]]:
        """(outputs, error) of each. A refused call is cut in two until each row that is at fault stands alone."""
        try:
            return [(outputs, "") for outputs in self._infer(sequences)]
        except rnnserve.RnnServeError as error:
            if error.code not in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED):
                raise
            if len(sequences) == 1:
                return [({}, str(error))]
        except _Unequal as error:
            if len(sequences) == 1:
                return [({}, str(error))]
        half = len(sequences) // 2
        return self._score(sequences[:half]) + self._score(sequences[half:])

    def _infer(self, sequences: Sequence[Array]) -> list[dict[str, Array]]:
        lengths = np.array([len(sequence) for sequence in sequences], np.int32)
        outputs = self._when_there_is_room({self._input: self._padded(sequences, lengths), "sequence_lens": lengths})
        return [{name: _of_row(outputs[name], axes, row, length) for name, axes in self._outputs.items()}
                for row, length in enumerate(lengths)]

    def _padded(self, sequences: Sequence[Array], lengths: Array) -> Array:
        """All sequences in one array; zeros behind the end of each, which sequence_lens keeps from mattering."""
        steps, rows = self._axes
        shape = list(self._widths)
        shape[steps], shape[rows] = int(lengths.max()), len(sequences)
        padded = np.zeros(shape, self._type)
        for row, sequence in enumerate(sequences):
            place = np.moveaxis(padded, (steps, rows), (0, 1))[:len(sequence), row]
            if len(sequence) and place.shape != sequence.shape:
                raise _Unequal(f"a step of {self._column} has shape {list(sequence.shape[1:])}, "
                               f"and {self._model} takes {list(place.shape[1:])}")
            place[...] = sequence.reshape(place.shape)
        return padded

    def _when_there_is_room(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Infer. A server that is full for the moment (RESOURCE_EXHAUSTED with RetryInfo) is asked again."""
        until = time.monotonic() + self._patience
        while True:
            try:
                return self._client.infer(model=self._model, inputs=inputs, outputs=list(self._outputs),
                                          deterministic=self._deterministic).outputs
            except rnnserve.RnnServeError as error:
                full = error.code == grpc.StatusCode.RESOURCE_EXHAUSTED and error.retry_after is not None
                if not full or time.monotonic() > until or self._closed.wait(error.retry_after):
                    raise


class _Unequal(Exception):
    """A sequence whose steps are not as wide as the model's input."""


def _model(servers: str, model: str, patience: float) -> rnnserve.ModelInfo:
    """What the first server tells that answers."""
    addresses = servers.split(",")
    for k, address in enumerate(addresses):
        with rnnserve.Client(address, timeout=min(patience, 10)) as client:
            try:
                return client.get(model)
            except rnnserve.RnnServeError as error:
                away = error.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
                if not away or k + 1 == len(addresses):
                    raise
    raise AssertionError


def _axes(spec: rnnserve.TensorSpec) -> tuple[int | None, int]:
    """Which dimension is steps, if any, and which is rows."""
    return spec.shape.index("T") if "T" in spec.shape else None, spec.shape.index("N")


def _sequence(value: Any, dtype: np.dtype[Any]) -> Array:
    """[T] or [T, I] of what a table gives: an array, a list, or arrays in arrays."""
    return np.array(list(value), dtype) if len(value) else np.zeros(0, dtype)


def _of_row(output: Array, axes: tuple[int | None, int], row: int, length: int) -> Array:
    steps, rows = axes
    if steps is None:
        value: Array = np.take(output, row, rows)
        return value
    return np.moveaxis(output, (steps, rows), (0, 1))[:length, row].copy()


def _objects(length: int, value: Any) -> Array:
    array = np.empty(length, object)
    array[:] = value
    return array
