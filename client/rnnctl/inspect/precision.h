// SPDX-License-Identifier: Apache-2.0
// What each kind of kept weights costs in precision and gains in time, on a node's own weights: measured here, on this
// machine's cpu engine, against plain loops in double precision.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/cpp/tensor.h"
#include "engine/weight_type.h"
#include "onnx_file/inspect.h"

namespace rnnserve::rnnctl::inspect {

// Both directions of a bidirectional node together.
struct Precision {
  WeightType weights = WeightType::kAsGiven;
  absl::Status refused = {};                 // not OK: the rest says nothing
  double largest_error = 0, mean_error = 0;  // of Y, absolute
  int64_t packed_bytes = 0;
  double packing_microseconds = 0;  // measured once
  double step_microseconds = 0;     // one row, median of several rounds in turns
};

struct NodePrecision {
  int number = 0;  // of the node
  std::vector<Precision> kinds;
};

// Of the nodes that can be a model. `x` [T, I] or [T, N, I]: what the nodes of I inputs read; the others, and all
// without it, read random numbers of -1 to 1, the same every time. A usage error where no node takes `x`.
absl::StatusOr<std::vector<NodePrecision>> MeasurePrecision(const OnnxInspection& file,
                                                            const std::optional<client::Tensor>& x);

std::string ShowPrecision(const OnnxInspection& file, const std::vector<NodePrecision>& nodes);

}  // namespace rnnserve::rnnctl::inspect
