// SPDX-License-Identifier: Apache-2.0
// Small operators with owned weights.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "engine/op/operator.h"
#include "engine/tensor.h"

namespace rnnserve {

struct TestOperator {
  OperatorDef op;
  std::vector<NamedTensor> inputs;
  std::deque<std::vector<float>> storage;

  TestOperator() = default;
  TestOperator(TestOperator&&) = default;  // the views stay good
  TestOperator& operator=(TestOperator&&) = default;

  // Elements first, first + 1/4, ...
  void Add(const std::string& name, Shape shape, float first) {
    std::vector<float>& values = storage.emplace_back(static_cast<size_t>(NumElements(shape).value()));
    for (size_t k = 0; k < values.size(); ++k) values[k] = first + 0.25F * static_cast<float>(k);
    inputs.push_back({name, {DataType::kFloat, std::move(shape), std::as_bytes(std::span(values))}});
  }
};

// ONNX, version 14, I = 2, D = 1; `seed` tells weights of equal shape apart.
inline TestOperator MakeOperator(const std::string& op_type, float seed = 0.5F, int64_t hidden = 1) {
  const int64_t gates = op_type == "LSTM" ? 4 : op_type == "GRU" ? 3 : 1;
  TestOperator made;
  made.op.op_type = op_type;
  made.op.version = 14;
  made.Add("W", {1, gates * hidden, 2}, seed);
  made.Add("R", {1, gates * hidden, hidden}, 1);
  made.Add("B", {1, 2 * gates * hidden}, 2);
  return made;
}

}  // namespace rnnserve
