// SPDX-License-Identifier: Apache-2.0
// A cell that remembers everything: an RNN with Affine whose R is a shift matrix and whose W writes x into slot 0. Its
// state is the log of the last H inputs, the newest first, so that a lost, doubled, reordered or leaked step shows in
// every later state. Exact for values that the data type holds.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/op/operator.h"
#include "tests/engine/support/owned_tensor.h"

namespace rnnserve {

// Forward, version 14, I = 1.
OperatorDef RememberingOperator(int64_t hidden);
std::vector<OwnedTensor> RememberingWeights(int64_t hidden, DataType type = DataType::kFloat);

// One row's state, as that cell should leave it.
class Memory {
 public:
  explicit Memory(int64_t hidden) : slots_(static_cast<size_t>(hidden)) {}
  explicit Memory(std::vector<float> slots) : slots_(std::move(slots)) {}

  void Step(float x) {
    slots_.pop_back();
    slots_.insert(slots_.begin(), x);
  }
  const std::vector<float>& slots() const { return slots_; }
  bool operator==(const Memory&) const = default;

 private:
  std::vector<float> slots_;  // newest first
};

}  // namespace rnnserve
