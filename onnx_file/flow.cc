// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/flow.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_file/bad_file.h"

namespace rnnserve {

absl::StatusOr<int> FlowGraph::Add(FlowNode node) {
  if (node.width < 1 || node.width > kMaxWidth) {
    return BadFile(absl::StrCat("gives ", node.width, " numbers a step, but 1 to ", kMaxWidth, " are supported"));
  }
  numbers_ += node.width + static_cast<int64_t>(node.op.places.size());
  if (numbers_ > kMaxNumbers || nodes_.size() == kMaxNodes) {
    return BadFile(absl::StrCat("is one of too many: the file computes more than ", kMaxNumbers,
                                " numbers a step, or in ", "more than ", kMaxNodes, " operators"));
  }
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

absl::StatusOr<int> FlowGraph::AddResult(int first, int64_t width, bool is_integer) {
  FlowNode node;
  node.op.in = {first};
  node.width = width;
  node.is_integer = is_integer;
  node.per_step = at(first).per_step;
  node.of_record = at(first).of_record;
  node.result = 1;
  return Add(std::move(node));
}

absl::StatusOr<int> FlowGraph::AddOp(MapOp op, int64_t width, bool is_integer) {
  FlowNode node;
  node.width = width;
  node.is_integer = is_integer;
  node.per_step = false;
  node.of_record = !op.in.empty();
  for (const int in : op.in) {
    node.per_step |= at(in).per_step;
    node.of_record &= at(in).of_record;
  }
  for (const int in : op.in) {
    if (at(in).per_step != node.per_step && !at(in).of_record) {
      return BadFile("joins what is of every step with what is of the whole row, which looks along time");
    }
  }
  node.op = std::move(op);
  return Add(std::move(node));
}

absl::StatusOr<int> FlowGraph::Select(int node, std::vector<int64_t> places) {
  bool is_same = static_cast<int64_t>(places.size()) == at(node).width;
  for (size_t k = 0; k < places.size() && is_same; ++k) is_same = places[k] == static_cast<int64_t>(k);
  if (is_same) return node;
  const auto width = static_cast<int64_t>(places.size());
  const int64_t limit = at(node).limit;
  absl::StatusOr<int> made =
      AddOp({.kind = MapOpKind::kSelect, .in = {node}, .places = std::move(places)}, width, at(node).is_integer);
  if (made.ok()) nodes_[static_cast<size_t>(*made)].limit = limit;
  return made;
}

absl::StatusOr<int> FlowGraph::Copy(int node, bool per_step) {
  const int64_t width = at(node).width, limit = at(node).limit;
  absl::StatusOr<int> made =
      AddOp({.kind = MapOpKind::kConcat, .in = {node}, .inner = width}, width, at(node).is_integer);
  if (!made.ok()) return made;
  FlowNode& copy = nodes_[static_cast<size_t>(*made)];
  copy.limit = limit;
  copy.per_step = per_step;
  copy.of_record &= !per_step;
  return made;
}

absl::StatusOr<Flow> FlowGraph::Canonical(const Flow& flow) {
  if (flow.layout.is_canonical()) return flow;
  absl::StatusOr<int> node = Select(flow.node, flow.layout.Places());
  if (!node.ok()) return node.status();
  return Flow{*node, flow.layout.Canonical(), flow.type};
}

}  // namespace rnnserve
