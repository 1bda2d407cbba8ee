// SPDX-License-Identifier: Apache-2.0
// The names of an operator's tensors (recurrent-operators.md, sections 2 and 13).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/op/op_spec.h"

namespace rnnserve {

// What the dialects call the same thing. `initial_c`, `peephole` and `final_c` are empty where the operator has none.
struct TensorNames {
  std::string_view sequence_lens, initial_h, initial_c, peephole, y, final_h, final_c;
};

TensorNames NamesOf(Dialect dialect, CellKind kind);

// Every input is one of `known`, and none comes twice.
absl::Status CheckInputNames(std::span<const NamedTensor> inputs, std::span<const std::string_view> known,
                             std::string_view owner);

}  // namespace rnnserve
