// SPDX-License-Identifier: Apache-2.0
// What a graph computes, step by step and row by row, while it is read: nodes over numbered results, of which those
// between the layers become maps (pipeline_maker.h). Each is a record of numbers, for one step of one row or once a
// row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/map/map.h"
#include "onnx_file/layout.h"

namespace rnnserve {

struct FlowNode {
  enum class Kind { kInput, kLayerY, kFinalH, kFinalC, kOverTime, kOp };
  Kind kind = Kind::kOp;
  int64_t width = 1;
  bool is_integer = false;
  bool per_step = true;
  bool of_record = false;  // computed of what requests bring once a row alone, before any step; not per_step
  size_t input = 0;        // kInput: number of the graph input
  size_t layer = 0;        // kLayerY, kFinalH, kFinalC
  int64_t direction = 0;   // kFinalH, kFinalC
  OverTime over_time = OverTime::kEach;  // kOverTime: of node op.in[0]
  std::vector<double> beyond = {};       // kOverTime: what the file has beyond the end of a row (Place::beyond)
  MapOp op = {};                         // kOp: in and out are numbers of nodes; kOverTime: in
  int result = 0;                        // kOp: which of the operator's results; others are nodes of their own
  int64_t limit = 0;                     // integers: known to lie in [0, limit); 0: not known
};

// Of flows alone: no tensor of a request is one.
inline constexpr auto kBoolean = static_cast<DataType>(9);

// A tensor of the graph that each step, or each row, has its own numbers of.
struct Flow {
  int node = -1;
  Layout layout;
  DataType type = DataType::kFloat;  // as the graph has it
};

// All nodes so far, and the operators to make more. Numbers are bounded: a hostile file is refused before it takes
// much.
class FlowGraph {
 public:
  static constexpr int64_t kMaxWidth = int64_t{1} << 20;    // of a record
  static constexpr int64_t kMaxNumbers = int64_t{1} << 22;  // of all records together
  static constexpr size_t kMaxNodes = 4096;

  const std::vector<FlowNode>& nodes() const { return nodes_; }
  std::vector<FlowNode>& nodes() { return nodes_; }
  const FlowNode& at(int node) const { return nodes_[static_cast<size_t>(node)]; }

  absl::StatusOr<int> Add(FlowNode node);
  // One result more of the operator that `first` is the first result of.
  absl::StatusOr<int> AddResult(int first, int64_t width, bool is_integer);
  // in and out of `op` but the inputs are set here.
  absl::StatusOr<int> AddOp(MapOp op, int64_t width, bool is_integer = false);
  // Numbers in the order of `places`; the node itself if that changes nothing.
  absl::StatusOr<int> Select(int node, std::vector<int64_t> places);
  // The same numbers as an operator's result, at every step or once a row.
  absl::StatusOr<int> Copy(int node, bool per_step);
  // The flow with its numbers in the order of its axes.
  absl::StatusOr<Flow> Canonical(const Flow& flow);

 private:
  std::vector<FlowNode> nodes_;
  int64_t numbers_ = 0;
};

}  // namespace rnnserve
