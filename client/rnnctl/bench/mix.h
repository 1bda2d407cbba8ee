// SPDX-License-Identifier: Apache-2.0
// What a load test sends: models or operators with random weights, in proportions, with sequences of several lengths.
//
//   [{"weight": 3, "model": "vad:2", "steps": [1, 400]},
//    {"weight": 1, "op": "GRU", "hidden": 256, "input": 80, "steps": 32, "rows": 4,
//     "attributes": ["linear_before_reset=1"]}]
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/types.h"

namespace rnnserve::rnnctl::bench {

inline constexpr int64_t kMaxSize = 1 << 16;   // of hidden, input and rows
inline constexpr int64_t kMaxSteps = 1 << 20;  // beyond any message

struct MixEntry {
  double weight = 1;
  // A model that the server holds; absent: the operator.
  std::optional<client::ModelRef> model = {};
  std::string op = "LSTM";  // ONNX: LSTM, GRU or RNN
  int64_t opset = 22;
  std::map<std::string, AttributeValue> attributes = {};
  int64_t hidden = 128;
  int64_t input = 128;  // in a mix and in flags: as hidden
  int64_t rows = 1;
  int64_t min_steps = 32;
  int64_t max_steps = 32;
};

// A usage error that names the entry and the key. `path` is named in errors.
absl::StatusOr<std::vector<MixEntry>> ParseMix(std::string_view json, std::string_view path);

// Attributes that change the shapes of tensors other than `direction` are refused. `what` is named in errors.
absl::Status CheckOperator(const MixEntry& entry, std::string_view what);

}  // namespace rnnserve::rnnctl::bench
