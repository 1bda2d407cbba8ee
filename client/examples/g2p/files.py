# SPDX-License-Identifier: Apache-2.0
"""The two networks of g2p-en as ONNX files: letters in, states out; a phoneme in, the most probable next ones out."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from package import Array, Weights

from rnnserve import convert

HIDDEN = 256
Inputs = Mapping[str, tuple[int, Sequence[str | int]]]  # name -> (type, shape)


def encoder(weights: Weights) -> bytes:
    """letters int64 [T, N] -> states [T, N, 256] and each word's last one, Y_h [1, N, 256]: embedding and GRU."""
    return _file(_recurrent("letters"), {"letters": (TensorProto.INT64, ["T", "N"])}, ["states", "Y_h"],
                 _stored(weights, "enc"))


def decoder(weights: Weights, top: int) -> bytes:
    """token int64 [T, N], initial_h [1, N, 256] -> phonemes int64 and log_probabilities [T, N, top], the most probable first,
    and states [T, N, 256]: embedding, GRU, linear layer, LogSoftmax, TopK."""
    nodes = [*_recurrent("token", "initial_h"),
             helper.make_node("MatMul", ["states", "output_weights"], ["product"]),
             helper.make_node("Add", ["product", "output_bias"], ["logits"]),
             helper.make_node("LogSoftmax", ["logits"], ["scores"], axis=-1),
             helper.make_node("TopK", ["scores", "top"], ["log_probabilities", "phonemes"], axis=-1)]
    inputs: Inputs = {"token": (TensorProto.INT64, ["T", "N"]), "initial_h": (TensorProto.FLOAT, [1, "N", HIDDEN])}
    return _file(nodes, inputs, ["phonemes", "log_probabilities", "states"],
                 {**_stored(weights, "dec"), "output_weights": weights["fc_w"].T, "output_bias": weights["fc_b"],
                  "top": np.array([top])})


def _recurrent(letters: str, initial_h: str = "") -> list[NodeProto]:
    """Embedding and GRU, from indices [T, N] to states [T, N, 256]."""
    return [helper.make_node("Gather", ["table", letters], ["X"]),
            helper.make_node("GRU", ["X", "W", "R", "B", "", initial_h], ["Y", "Y_h"], hidden_size=HIDDEN,
                             linear_before_reset=1),
            helper.make_node("Squeeze", ["Y", "direction"], ["states"])]


def _stored(weights: Weights, side: str) -> dict[str, Array]:
    """What both networks store; W, R and B in ONNX's order (z, r, h) instead of torch's (r, z, n)."""
    layer, = convert.torch_gru({"weight_ih_l0": weights[f"{side}_w_ih"], "weight_hh_l0": weights[f"{side}_w_hh"],
                                "bias_ih_l0": weights[f"{side}_b_ih"], "bias_hh_l0": weights[f"{side}_b_hh"]})
    return {"table": weights[f"{side}_emb"], "direction": np.array([1]), **layer.weights}


def _file(nodes: Sequence[NodeProto], inputs: Inputs, outputs: Sequence[str],
          stored: Mapping[str, Array]) -> bytes:
    graph = helper.make_graph(
        list(nodes), "g2p-en", [helper.make_tensor_value_info(name, *spec) for name, spec in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.INT64 if name == "phonemes" else TensorProto.FLOAT, None)
         for name in outputs], [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in stored.items()])
    model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model.SerializeToString()
