# SPDX-License-Identifier: Apache-2.0
"""The network of g2pM as one ONNX file, and the package itself to compare with."""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, helper, numpy_helper

from rnnserve import convert

Array = npt.NDArray[Any]

INSTALL = "pip install --no-deps -r client/examples/pinyin/requirements.txt"


def package() -> Any:
    """g2pM's G2pM, which has no types; raises FileNotFoundError that says how to install it."""
    try:
        return importlib.import_module("g2pM").G2pM()
    except ModuleNotFoundError as error:
        raise FileNotFoundError(f"g2pM is not installed in this Python; {INSTALL}") from error


def file(network: Any) -> bytes:
    """tokens int64 [T, N] -> readings int64 [T, N], the most probable of 876, and logits [T, N, 876]: embedding,
    bidirectional LSTM, two linear layers."""
    layer, = convert.torch_lstm({
        f"{name}_l0{end}": getattr(network, name + end) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        for end in ("", "_reverse")})
    stored: dict[str, Array] = {
        "table": network.embeddings, **layer.weights, "joined": np.array([0, 0, -1]),
        "hidden_weights": network.hidden_weight_l0.T, "hidden_bias": network.hidden_bias_l0,
        "output_weights": network.hidden_weight_l1.T, "output_bias": network.hidden_bias_l1}
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["X"]),
             helper.make_node("LSTM", ["X", "W", "R", "B"], ["Y"], hidden_size=network.weight_hh.shape[1],
                              direction="bidirectional"),
             helper.make_node("Transpose", ["Y"], ["turned"], perm=[0, 2, 1, 3]),
             helper.make_node("Reshape", ["turned", "joined"], ["states"]),  # both directions of a step side by side
             helper.make_node("MatMul", ["states", "hidden_weights"], ["product"]),
             helper.make_node("Add", ["product", "hidden_bias"], ["sum"]),
             helper.make_node("Relu", ["sum"], ["hidden"]),
             helper.make_node("MatMul", ["hidden", "output_weights"], ["last_product"]),
             helper.make_node("Add", ["last_product", "output_bias"], ["logits"]),
             helper.make_node("ArgMax", ["logits"], ["readings"], axis=-1, keepdims=0)]
    graph = helper.make_graph(
        nodes, "g2pM", [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["T", "N"])],
        [helper.make_tensor_value_info("readings", TensorProto.INT64, None),
         helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in stored.items()])
    model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model.SerializeToString()


def tokens(network: Any, sentences: Sequence[str]) -> tuple[Array, Array]:
    """Begin mark, characters and end mark of each sentence, [T, N] padded with 0, and the lengths [N]."""
    known: dict[str, int] = network.char2idx
    spelt = [[known["시"], *(known.get(char, known["<UNK>"]) for char in sentence), known["끝"]] for sentence in sentences]
    lengths = np.array([len(row) for row in spelt], np.int32)
    padded = np.zeros((lengths.max(), len(spelt)), np.int64)
    for row, indices in enumerate(spelt):
        padded[:len(indices), row] = indices
    return padded, lengths


def pinyin(network: Any, sentence: str, readings: Array) -> list[str]:
    """Of each character: what the dictionary has, where there is a choice what the network read. readings: [T]."""
    found: list[str] = []
    for place, char in enumerate(sentence):
        choices: list[str] = network.cedict.get(char, [char])
        found.append(choices[0] if len(choices) == 1 else network.idx2class[int(readings[place + 1])])
    return found


def expected(network: Any, sentence: str) -> tuple[list[str], Array]:
    """The package's own answer, and the logits [choices, 876] that it computes on the way: none without a choice."""
    seen: list[Array] = [np.zeros((0, len(network.idx2class)))]
    formula = network.fc_layer

    def listen(inputs: Array) -> Array:
        seen[0] = formula(inputs)
        return seen[0]

    network.fc_layer = listen
    try:
        answer: list[str] = network(sentence, char_split=True)
    finally:
        del network.fc_layer
    return answer, seen[0]


def choices(network: Any, sentence: str) -> list[int]:
    """Places of characters with several readings, counted with the begin mark."""
    return [place + 1 for place, char in enumerate(sentence) if len(network.cedict.get(char, [])) > 1]
