# SPDX-License-Identifier: Apache-2.0
"""Weights of other frameworks as ONNX operators, from plain arrays (no framework is imported).

    torch     torch_lstm, torch_gru, torch_rnn: a state_dict, all layers and directions; torch_output
    Keras     keras_lstm, keras_gru, keras_simple_rnn: what layer.get_weights() gives
    OpenVINO  openvino_sequence: LSTMSequence, GRUSequence, RNNSequence; openvino_output
    TF1       tf1_basic_lstm

Every converter returns an rnnserve.Operator (torch: one a layer) bound to its weights.
"""

from rnnserve.convert.keras import keras_gru, keras_lstm, keras_simple_rnn
from rnnserve.convert.openvino import openvino_output, openvino_sequence
from rnnserve.convert.tf1 import tf1_basic_lstm
from rnnserve.convert.torch import torch_gru, torch_lstm, torch_output, torch_rnn

__all__ = ["keras_gru", "keras_lstm", "keras_simple_rnn", "openvino_output", "openvino_sequence",
           "tf1_basic_lstm", "torch_gru", "torch_lstm", "torch_output", "torch_rnn"]
