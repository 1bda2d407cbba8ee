// SPDX-License-Identifier: Apache-2.0
// Attributes as their operator's version declares them (recurrent-operators.md, sections 3 and 13): names, types and
// ranges. What needs the weights' shapes or the other attributes is checked by the caller.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/op/op_spec.h"
#include "engine/op/version_table.h"

namespace rnnserve {

struct Attributes {
  std::optional<int64_t> hidden_size;  // > 0
  Direction direction = Direction::kForward;
  std::vector<std::string> activations;  // empty: defaults
  std::vector<float> alpha, beta;
  double clip = std::numeric_limits<double>::infinity();  // > 0
  bool input_forget = false;
  bool linear_before_reset = false;
  bool y_by_default = true;
  int64_t layout = 0;
};

absl::StatusOr<Attributes> ReadAttributes(const OperatorVersion& op,
                                          const std::map<std::string, AttributeValue>& attributes);

}  // namespace rnnserve
