# SPDX-License-Identifier: Apache-2.0
"""Model repositories of ONNX files, sound ones and broken ones, for test_repository.py."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import random_operators
from operators import INPUTS, OUTPUTS, WEIGHTS, Case


def case(op, opset, seed=1, direction="forward", **attributes) -> Case:
    rng = np.random.default_rng([seed, opset])
    tensors = random_operators.tensors(rng, op, 4, 2, 3, 5, 2 if direction == "bidirectional" else 1, bias=True,
                                       peephole=False, lengths=True, initial_h=True, initial_c=True)
    return Case(op, tensors, {"hidden_size": 5, "direction": direction, **attributes}, opset=opset)


def model(source: Case, names=lambda name: name, opset=None, **node_attributes) -> onnx.ModelProto:
    """One node; weights are initializers; `names` is what the exporter calls the tensors."""
    inputs = [names(n) if n in source.tensors else "" for n in INPUTS[source.op]]
    while inputs[-1] == "":
        inputs.pop()
    node = helper.make_node(source.op, inputs, [names(n) for n in OUTPUTS[source.op]],
                            **{**source.attributes, **node_attributes})
    def kind(n):
        return TensorProto.INT32 if n == "sequence_lens" else helper.np_dtype_to_tensor_dtype(source.tensors[n].dtype)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(names(n), kind(n), None) for n in source.tensors if n not in WEIGHTS],
        [helper.make_tensor_value_info(names(n), kind("X"), None) for n in OUTPUTS[source.op]],
        [numpy_helper.from_array(source.tensors[n], names(n)) for n in source.tensors if n in WEIGHTS])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset or source.opset)], ir_version=8)


def write(folder: pathlib.Path, content: onnx.ModelProto | bytes) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return path


def external(content: onnx.ModelProto, location, offset=None, length=None) -> onnx.ModelProto:
    """The first initializer's data moved out: `location`, `offset` and `length` as written into the file."""
    tensor = content.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
    return content


def write_sound(root: pathlib.Path) -> dict[tuple[str, int], Case]:
    """name and version -> what the file holds."""
    sound = {}
    for op in ("LSTM", "GRU", "RNN"):
        for opset in (7, 13, 14, 22):
            sound[f"{op.lower()}-{opset}", 1] = case(op, opset)
    sound["versions", 3] = case("LSTM", 14, seed=3)
    sound["versions", 20] = case("LSTM", 14, seed=4, direction="bidirectional")
    for (name, version), source in sound.items():
        write(root / name / str(version), model(source))

    sound["renamed", 1] = case("GRU", 14, seed=5, linear_before_reset=1)
    write(root / "renamed" / "1", model(sound["renamed", 1], lambda n: f"/layer/{n}::exported"))

    sound["external", 1] = case("LSTM", 14, seed=6)
    folder = root / "external" / "1"
    content = model(sound["external", 1])
    data = content.graph.initializer[0].raw_data
    write(folder, external(content, "weights/w.bin", 64, len(data)))
    (folder / "weights").mkdir()
    (folder / "weights" / "w.bin").write_bytes(b"\xaa" * 64 + data + b"\xaa" * 32)

    sound["whole-file-external", 1] = case("GRU", 14, seed=7)
    folder = root / "whole-file-external" / "1"
    content = model(sound["whole-file-external", 1])
    data = content.graph.initializer[0].raw_data
    write(folder, external(content, "model.onnx_data"))
    (folder / "model.onnx_data").write_bytes(data)

    sound["typed-data", 1] = case("RNN", 14, seed=8)
    content = model(sound["typed-data", 1])
    for tensor in content.graph.initializer:
        values = numpy_helper.to_array(tensor).ravel().tolist()
        tensor.ClearField("raw_data")
        tensor.float_data.extend(values)
    write(root / "typed-data" / "1", content)

    sound["no-hidden-size", 1] = case("LSTM", 14, seed=9)
    del sound["no-hidden-size", 1].attributes["hidden_size"]
    write(root / "no-hidden-size" / "1", model(sound["no-hidden-size", 1]))
    return sound


def _edited(edit, source=None, **arguments) -> onnx.ModelProto:
    content = model(source or case("LSTM", 14), **arguments)
    edit(content)
    return content


def _without_initializer(content, name):
    kept = [t for t in content.graph.initializer if t.name != name]
    del content.graph.initializer[:]
    content.graph.initializer.extend(kept)


def _w_as_input(content):
    _without_initializer(content, "W")
    content.graph.input.append(helper.make_tensor_value_info("W", TensorProto.FLOAT, [1, 20, 3]))


def write_broken(root: pathlib.Path, outside: pathlib.Path) -> dict[str, str]:
    """folder -> a word that the reason has to hold. `outside` is a folder beside the repository."""
    outside.mkdir(exist_ok=True)
    w_bytes = len(model(case("LSTM", 14)).graph.initializer[0].raw_data)
    (outside / "w.bin").write_bytes(b"\0" * w_bytes)
    sound = model(case("LSTM", 14)).SerializeToString()
    one = lambda: model(case("LSTM", 14))  # noqa: E731
    files = {
        "empty": (b"", ""),
        "garbage": (np.random.default_rng(1).bytes(4096), ""),
        "truncated": (sound[:-40], ""),
        "text": (b"not an ONNX file\n", ""),
        "no-node": (_edited(lambda m: m.graph.ClearField("node")), ""),
        "two-nodes": (_edited(lambda m: m.graph.node.append(m.graph.node[0])), ""),
        "no-recurrent-node": (_edited(lambda m: setattr(m.graph.node[0], "op_type", "Relu")), ""),
        "other-domain": (_edited(lambda m: setattr(m.graph.node[0], "domain", "com.example")), ""),
        "no-opset": (_edited(lambda m: m.ClearField("opset_import")), "opset"),
        "opset-0": (_edited(lambda m: setattr(m.opset_import[0], "version", 0)), "opset"),
        "layout-2": (_edited(lambda m: None, layout=2), "layout"),
        "layout-in-opset-7": (_edited(lambda m: None, case("LSTM", 7), layout=0), "layout"),
        "unknown-attribute": (_edited(lambda m: None, colour=1), "colour"),
        "clip-nan": (_edited(lambda m: None, clip=float("nan")), "clip"),
        "weights-without-value": (_edited(lambda m: _without_initializer(m, "W")), "W"),
        "weights-as-input": (_edited(_w_as_input), "W"),
        "wrong-shape": (_edited(lambda m: m.graph.initializer[0].dims.__setitem__(1, 19)), ""),
        "huge-shape": (_edited(lambda m: m.graph.initializer[0].dims.__setitem__(1, 2**62)), ""),
        "negative-shape": (_edited(lambda m: m.graph.initializer[0].dims.__setitem__(1, -20)), ""),
        "short-data": (_edited(lambda m: setattr(m.graph.initializer[0], "raw_data",
                                                 m.graph.initializer[0].raw_data[:-4])), ""),
        "int-weights": (_edited(lambda m: setattr(m.graph.initializer[0], "data_type", TensorProto.INT32)), ""),
        "string-weights": (_edited(lambda m: setattr(m.graph.initializer[0], "data_type", TensorProto.STRING)), ""),
        "external-up": (external(one(), "../../../outside/w.bin"), ".."),
        "external-up-inside": (external(one(), "../1/w.bin"), ".."),
        "external-absolute": (external(one(), str(outside / "w.bin")), ""),
        "external-missing": (external(one(), "nothing.bin"), "nothing.bin"),
        "external-nameless": (external(one(), None), ""),
        "external-beyond-the-end": (external(one(), "short.bin", 4, w_bytes), "short.bin"),
        "external-huge-offset": (external(one(), "short.bin", 2**63 - 1, w_bytes), ""),
        "external-negative-offset": (external(one(), "short.bin", -4, w_bytes), ""),
        "external-other-length": (external(one(), "short.bin", 0, 4), ""),
        "external-offset-text": (external(one(), "short.bin", "four"), ""),
        "external-link-out": (external(one(), "link.bin"), "link.bin"),
        "external-folder-link-out": (external(one(), "linked/w.bin"), "linked"),
        "external-folder": (external(one(), "folder"), "folder"),
    }
    for name, (content, _) in files.items():
        path = write(root / name / "1", content)
        if name.startswith("external"):
            (path.parent / "short.bin").write_bytes(b"\0" * w_bytes)
            (path.parent / "w.bin").write_bytes(b"\0" * w_bytes)
    (root / "external-link-out" / "1" / "link.bin").symlink_to(outside / "w.bin")
    (root / "external-folder-link-out" / "1" / "linked").symlink_to(outside)
    (root / "external-folder" / "1" / "folder").mkdir()
    (root / "no-file" / "1").mkdir(parents=True)
    return {name: word for name, (_, word) in files.items()} | {"no-file": ""}
