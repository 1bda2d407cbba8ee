// SPDX-License-Identifier: Apache-2.0
// An operator as a caller names it, before anything is checked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace rnnserve {

using AttributeValue =
    std::variant<float, int64_t, std::string, std::vector<float>, std::vector<int64_t>, std::vector<std::string>>;

struct OperatorDef {
  std::string domain;   // "", "ai.onnx" or "openvino"
  std::string op_type;  // LSTM, GRU, RNN; LSTMSequence, GRUSequence, RNNSequence
  // Exactly one: the operator's own since-version, or an opset.
  std::optional<int64_t> version;
  std::optional<int64_t> opset;
  std::map<std::string, AttributeValue> attributes;
};

}  // namespace rnnserve
