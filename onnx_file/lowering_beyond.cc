// SPDX-License-Identifier: Apache-2.0
// What a file has beyond the ends of rows, where its masks of lengths fail. The server computes no step there, so what
// sees it is refused, or left to the part behind a split.
#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

// One number, or nullopt.
using Beyond = std::optional<double>;

Beyond Of(MapFunction function, Beyond a, Beyond b) {
  const bool nothing = (a && *a == 0) || (b && *b == 0);
  if (function == MapFunction::kMultiply && nothing) return 0;
  if (b && function == MapFunction::kWhere) return *b != 0 ? a : 0;
  if (b && function == MapFunction::kWhereNot) return *b == 0 ? a : 0;
  if (!a || !b) return std::nullopt;
  switch (function) {
    case MapFunction::kAdd:
      return *a + *b;
    case MapFunction::kSubtract:
      return *a - *b;
    case MapFunction::kMultiply:
      return *a * *b;
    case MapFunction::kEqual:
      return *a == *b ? 1 : 0;
    case MapFunction::kMaximum:
      return std::max(*a, *b);
    case MapFunction::kMinimum:
      return std::min(*a, *b);
    default:
      return std::nullopt;
  }
}

// The number that all of them are.
Beyond OnlyOne(const MapNumbers& numbers) {
  const std::vector<double> values =
      numbers.f64.empty() ? std::vector<double>(numbers.f32.begin(), numbers.f32.end()) : numbers.f64;
  const bool same = std::ranges::all_of(values, [&](double value) { return value == values[0]; });
  return !values.empty() && same ? Beyond(values[0]) : std::nullopt;
}

Beyond BeyondOf(const MapOp& op, const std::vector<Beyond>& in) {
  const Beyond first = in.empty() ? std::nullopt : in[0];
  switch (op.kind) {
    case MapOpKind::kSelect:
    case MapOpKind::kConvert:
      return first;
    case MapOpKind::kConcat:
      return std::ranges::all_of(in, [&](Beyond value) { return value == first; }) ? first : std::nullopt;
    case MapOpKind::kBinary:
      return Of(op.function, in[0], in[1]);
    case MapOpKind::kConstant:
      return op.reversed ? Of(op.function, OnlyOne(*op.a), first) : Of(op.function, first, OnlyOne(*op.a));
    case MapOpKind::kUnary:
      return first && op.function == MapFunction::kNegative ? Beyond(-*first) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// Whether it leaves what comes of the row's own steps as it is.
bool AddsNothing(OverTime over_time, Beyond beyond) {
  constexpr double kFar = 1e4;  // as masks have it, float16's among them
  if (over_time == OverTime::kFirst) return true;
  if (!beyond) return false;
  return (over_time == OverTime::kSum && *beyond == 0) || (over_time == OverTime::kLargest && *beyond <= -kFar) ||
         (over_time == OverTime::kSmallest && *beyond >= kFar);
}

}  // namespace

std::vector<std::optional<double>> Lowering::BeyondEnds() const {
  std::vector<Beyond> beyond(flows_.nodes().size());
  for (size_t k = 0; k < beyond.size(); ++k) {  // inputs come before what takes them
    const FlowNode& node = flows_.at(static_cast<int>(k));
    std::vector<Beyond> in;
    for (const int from : node.op.in) in.push_back(beyond[static_cast<size_t>(from)]);
    if (static_cast<int>(k) == ones_ || (node.kind == FlowNode::Kind::kLayerY && LayersTakeLengths())) {
      beyond[k] = 0;
    } else if (node.kind == FlowNode::Kind::kOp && node.result == 0) {
      beyond[k] = BeyondOf(node.op, in);
    }
  }
  return beyond;
}

// Beyond a row's end a request's outputs are zero.
Obstacle Lowering::OtherBeyondEnds(const std::function<bool(const std::string&)>& is_asked) const {
  if (!lengths_input_) return {};
  const std::vector<Beyond> beyond = BeyondEnds();
  for (const Output& output : outputs_) {
    const int node = output.flow.node;
    if (!flows_.at(node).per_step || beyond[static_cast<size_t>(node)] == Beyond(0) || !is_asked(output.name)) continue;
    if (LayersTakeLengths()) return {.output = output.name};
    return {.graph_input = graph_.input(static_cast<int>(*lengths_input_)).name()};
  }
  return {};
}

// Where no layer takes the lengths, each one reads the padding as well: what is not masked sees it.
absl::Status Lowering::CheckMasks() {
  if (turns_.node != nullptr && lengths_input_) {
    Blame(turns_);
    return BadFile(
        absl::StrCat(turns_.label,
                     " turns all steps round, the padding before them, and the file takes lengths; make the "
                     "layer one of direction reverse (PyTorch: bidirectional=True), or leave the lengths out "
                     "(requests bring sequence_lens)"));
  }
  if (mask_.node == nullptr || LayersTakeLengths()) return absl::OkStatus();
  const auto refuse = [&](std::string_view what) {
    Blame(mask_);
    return BadFile(absl::StrCat(
        mask_.label, " takes lengths that no layer takes, so that ", View(what),
        " the padding: let the layers end with their rows (PyTorch: pack_padded_sequence, dynamo=False), "
        "or leave the lengths out (requests bring sequence_lens, and means, extremes and last steps are of each row's "
        "own steps)"));
  };
  for (const LoweredLayer& layer : layers_) {
    const auto direction = layer.op.op.attributes.find("direction");
    const AttributeValue forward = std::string(layer.is_turned ? "reverse" : "forward");  // in the file
    if (direction != layer.op.op.attributes.end() && direction->second != forward) {
      return refuse(absl::StrCat(layer.label, ", which reads backwards, begins with"));
    }
  }
  const std::vector<Beyond> beyond = BeyondEnds();
  std::set<int> seen;
  std::vector<int> open;
  for (const Output& output : outputs_) open.push_back(output.flow.node);
  while (!open.empty()) {
    const int next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    const FlowNode& node = flows_.at(next);
    if (node.kind == FlowNode::Kind::kFinalH || node.kind == FlowNode::Kind::kFinalC) {
      return refuse("a final state is that of");
    }
    if (node.kind == FlowNode::Kind::kOverTime && !own_ends_.contains(next)) {
      if (node.over_time == OverTime::kLast || turned_ends_.contains(next)) return refuse("the last step is that of");
      if (node.over_time == OverTime::kMean) return refuse("a mean over time counts");
      if (!AddsNothing(node.over_time, beyond[static_cast<size_t>(node.op.in[0])])) {
        return refuse("a sum or extreme over time has more than the mask leaves of");
      }
    }
    open.insert(open.end(), node.op.in.begin(), node.op.in.end());
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
