// SPDX-License-Identifier: Apache-2.0
// Small questions about one node of an ONNX graph.
#pragma once

#include <onnx/onnx_pb.h>

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/op/operator.h"

namespace rnnserve {

// Whether the node is ONNX's own operator `op_type`, not one of another domain.
bool IsOnnxOp(const onnx::NodeProto& node, std::string_view op_type);
bool IsOnnxOp(const onnx::NodeProto& node, std::span<const std::string_view> op_types);
// LSTM, GRU, RNN.
bool IsRecurrent(const onnx::NodeProto& node);

// LSTMs, GRUs and RNNs of other domains, such as com.microsoft's DynamicQuantizeLSTM: by their names.
bool IsForeignRecurrent(const onnx::NodeProto& node);

// What a recurrent node's inputs are by position: X, W, R, B, sequence_lens, initial_h and for LSTM initial_c, P.
std::span<const std::string_view> RecurrentInputs(std::string_view op_type);
// W (input 1, "onnx::LSTM_12").
std::string InputLabel(size_t index, std::string_view name);
inline constexpr size_t kLengthsInput = 4;                                                    // sequence_lens
inline bool IsWeightInput(size_t index) { return (index >= 1 && index <= 3) || index == 7; }  // W, R, B; P
inline bool IsStateInput(size_t index) { return index == 5 || index == 6; }                   // initial_h, initial_c

// What to do about a weight that the file does not fix.
inline constexpr char kFixWeights[] =
    "; weights must be in the file, as initializers or external data, or computed from those alone (PyTorch: "
    "do_constant_folding=True)";

// node 3 (op_type "Slice", name "/vad/Slice"), for errors.
std::string NodeLabel(const onnx::NodeProto& node, int index);

// Of a tensor of one boolean.
std::optional<bool> BooleanOf(const onnx::TensorProto& tensor);

// Null if the node has none of this name.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name);

// A recurrent node's type and attributes; nothing is checked against the operator yet.
absl::StatusOr<OperatorDef> OperatorOf(const onnx::NodeProto& node, int64_t opset);

}  // namespace rnnserve
