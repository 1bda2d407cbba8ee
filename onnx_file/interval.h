// SPDX-License-Identifier: Apache-2.0
// Between which numbers lies each number that an operator of a map gives, for operands of which no more is known
// either. Where both ends meet it is one number, as a map computes it: y - 1e9 is -1e9 in float32 for every y between
// -1 and 1.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "engine/data_type.h"
#include "onnx_file/flow.h"

namespace rnnserve {

struct Interval {  // of any number, NaN among them, unless it is said
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  static Interval Of(double number) { return {number, number}; }
  std::optional<double> number() const { return low == high ? std::optional(low) : std::nullopt; }
};
using Intervals = std::vector<Interval>;  // of each number of a record

// `type`: what is computed in; `in`: of the node's operands.
Intervals IntervalsOf(DataType type, const FlowNode& node, const std::vector<const Intervals*>& in);

}  // namespace rnnserve
