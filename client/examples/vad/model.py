# SPDX-License-Identifier: Apache-2.0
"""The voice detector of the PyPI package silero-vad in three pieces: encoder, LSTM, head.

Its ONNX file is, for 16 kHz: 64 samples of context and 512 new ones -> encoder -> LSTM (H = 128) -> head ->
probability. All of it lies in the branches of If nodes. `rnnctl extract` takes the LSTM out; here the nodes before and
after it are cut out, to be run with onnxruntime. The package itself is not imported: it wants torch, which the network
does not need.
"""

import importlib.metadata
import json
import pathlib
import subprocess
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import numpy_helper

import rnnserve

Array = npt.NDArray[Any]
Columns = tuple[Array, Array, Array]  # of the chunks of a recording: probability [chunks], h and c [chunks, 128]

RATE, CHUNK, CONTEXT, HIDDEN = 16000, 512, 64, 128
INSTALL = "pip install --no-deps -r client/examples/vad/package.txt"


def find_file() -> pathlib.Path:
    """The path of silero_vad.onnx in the installed package; raises FileNotFoundError that says how to install it."""
    try:
        files = importlib.metadata.files("silero-vad") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "silero_vad.onnx":
            return pathlib.Path(str(file.locate()))
    raise FileNotFoundError(f"silero-vad is not installed in this Python; {INSTALL}")


def extract_lstm(rnnctl: str, path: pathlib.Path, target: pathlib.Path) -> dict[str, Any]:
    """The LSTM of the 16 kHz branch as a file of its own, by rnnctl; returns its place in the original."""
    def run(*arguments: object) -> str:
        done = subprocess.run([rnnctl, *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"rnnctl {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    # If sr == 16000, then if a state is given.
    nodes: list[dict[str, Any]] = json.loads(run("inspect", path, "--json"))["nodes"]
    node, = (node for node in nodes if all(step.endswith(".then_branch") for step in node["path"]))
    run("extract", path, "--node", node["name"], "-o", target)
    return node


def lstm_of(path: pathlib.Path) -> rnnserve.Operator:
    """The extracted file as an operator, its weights bound to it."""
    graph = onnx.ModelProto.FromString(path.read_bytes()).graph
    node, = (node for node in graph.node if node.op_type == "LSTM")
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    attributes: dict[str, Any] = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    attributes = {name: value.decode() if isinstance(value, bytes) else value for name, value in attributes.items()}
    W, R, B = (weights[name] for name in node.input[1:4])
    return rnnserve.lstm(W, R, B, **attributes)


class Pieces:
    """encode: samples [rows, 576] -> X [rows, 128]; head: h [rows, 128] -> probability [rows]."""

    def __init__(self, path: pathlib.Path, lstm_node: dict[str, Any]) -> None:
        model = onnx.ModelProto.FromString(path.read_bytes())
        inside = _branch(model.graph, lstm_node["path"][0])
        place, _ = lstm_node["path"][1].rsplit(".", 1)
        chooser = next(node for node in inside.node if node.name == place)  # the If around the LSTM
        before = [name for name in _uses(chooser) if _leads_to(inside, name, "input")]
        self._x, self._h = before[0], chooser.output[0]
        self._encoder = _session(model, inside, ["input"], [self._x])
        self._head = _session(model, inside, [self._h], [inside.output[0].name])

    def encode(self, samples: Array) -> Array:
        return np.asarray(self._encoder.run(None, {"input": samples})[0]).reshape(-1, HIDDEN)

    def head(self, h: Array) -> Array:
        return np.asarray(self._head.run(None, {self._h: h})[0]).reshape(-1)


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


def _branch(graph: onnx.GraphProto, place: str) -> onnx.GraphProto:
    """The branch of an If node of `graph`; place: NAME.then_branch."""
    name, branch = place.rsplit(".", 1)
    node = next(node for node in graph.node if node.name == name)
    return next(attribute.g for attribute in node.attribute if attribute.name == branch)


def _uses(node: onnx.NodeProto) -> list[str]:
    """Names that a node takes from outside itself, those of the graphs in it among them."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            made = {name for inner in attribute.g.node for name in inner.output}
            names += [name for inner in attribute.g.node for name in _uses(inner) if name not in made]
    return names


def _nodes_for(graph: onnx.GraphProto, inputs: Collection[str],
               outputs: Iterable[str]) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that compute `outputs` from `inputs` and constants, in their order, and the names they leave open."""
    makers = {name: node for node in graph.node for name in node.output}
    wanted, seen, open_names, picked = list(outputs), set[str](), set[str](), list[onnx.NodeProto]()
    while wanted:
        name = wanted.pop()
        if name in seen or name in inputs:
            continue
        seen.add(name)
        if name not in makers:
            open_names.add(name)
        elif makers[name] not in picked:
            picked.append(makers[name])
            wanted += _uses(makers[name])
    return [node for node in graph.node if node in picked], open_names


def _leads_to(graph: onnx.GraphProto, name: str, source: str) -> bool:
    return source in _nodes_for(graph, (), [name])[1]


def _session(model: onnx.ModelProto, graph: onnx.GraphProto, inputs: Sequence[str],
             outputs: Sequence[str]) -> Any:
    """onnxruntime of the part of `graph` (a branch in `model`) between those values, all float and without shapes."""
    nodes, open_names = _nodes_for(graph, inputs, outputs)
    outer, rest = _nodes_for(model.graph, inputs, open_names)  # constants of the graph around it
    stored = [tensor for part in (model.graph, graph) for tensor in part.initializer
              if tensor.name in rest | open_names]

    def values(names: Iterable[str]) -> list[onnx.ValueInfoProto]:
        return [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]

    part = onnx.helper.make_graph(outer + nodes, "part", values(inputs), values(outputs), stored)
    content = onnx.helper.make_model(part, opset_imports=model.opset_import, ir_version=model.ir_version)
    return _runtime(content.SerializeToString())


def _runtime(model: str | bytes) -> Any:
    """An InferenceSession of a file or of its bytes; onnxruntime has no types."""
    library: Any = onnxruntime
    options = library.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
