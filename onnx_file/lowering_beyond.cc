// SPDX-License-Identifier: Apache-2.0
// What a file has beyond the ends of rows: what it makes of the zeros that layers with lengths give there, or of its
// masks of lengths. The server computes no step there. What ends a sequence counts it as the file does where it is
// known when the file is loaded; else it is refused, or left to the part behind a split.
#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/interval.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

bool AreZero(const std::vector<double>& numbers) {
  return !numbers.empty() && std::ranges::all_of(numbers, [](double number) { return number == 0; });
}

}  // namespace

// Y of LSTM and RNN goes no farther than tanh does, whatever they start from; GRU's does where it starts from nothing.
bool Lowering::IsWithinOne(size_t layer) const {
  const OperatorDef& op = layers_[layer].op.op;
  if (op.attributes.contains("activations")) return false;
  const auto starts_it = [layer](const InputUse& use) {
    return use.kind == InputUse::Kind::kState && std::ranges::count(use.layers, layer) > 0;
  };
  const bool starts =
      !layers_[layer].start.h.empty() || layers_[layer].start_h >= 0 || std::ranges::any_of(inputs_, starts_it);
  return op.op_type != "GRU" || !starts;
}

std::vector<std::vector<double>> Lowering::BeyondEnds() const {
  std::vector<Intervals> between(flows_.nodes().size());
  std::vector<std::vector<double>> beyond(between.size());
  for (size_t k = 0; k < between.size(); ++k) {  // inputs come before what takes them
    const FlowNode& node = flows_.at(static_cast<int>(k));
    std::vector<const Intervals*> in;
    for (const int from : node.op.in) in.push_back(&between[static_cast<size_t>(from)]);
    const bool is_y = node.kind == FlowNode::Kind::kLayerY;
    Intervals& made = between[k];
    made.resize(static_cast<size_t>(node.width));
    if (static_cast<int>(k) == ones_ || (is_y && LayersTakeLengths())) {
      std::ranges::fill(made, Interval::Of(0));
    } else if (is_y && IsWithinOne(node.layer)) {
      std::ranges::fill(made, Interval{-1, 1});
    } else if (node.kind == FlowNode::Kind::kOp) {
      made = IntervalsOf(data_type_, node, in);
    }
    for (const Interval& one : made) {
      if (const std::optional<double> number = one.number()) beyond[k].push_back(*number);
    }
    if (beyond[k].size() < made.size()) beyond[k].clear();
  }
  return beyond;
}

void Lowering::TakeBeyondEnds() {
  if (!lengths_input_) return;
  std::vector<std::vector<double>> beyond = BeyondEnds();
  for (const int end : NeededEnds()) {
    FlowNode& node = flows_.nodes()[static_cast<size_t>(end)];
    if (node.kind != FlowNode::Kind::kOverTime) continue;
    node.beyond = beyond[static_cast<size_t>(node.op.in[0])];
    const bool is_own = own_ends_.contains(end);
    if (node.over_time == OverTime::kFirst || is_own) rows_need_steps_ |= node.beyond.empty();
    if (node.over_time == OverTime::kLast && !is_own) node.over_time = OverTime::kLastOfAll;
  }
}

std::vector<int> Lowering::NeededEnds() const {
  std::vector<int> open, ends;
  std::set<int> seen;
  for (const Output& output : outputs_) open.push_back(output.flow.node);
  while (!open.empty()) {
    const int next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    const FlowNode& node = flows_.at(next);
    if (node.kind != FlowNode::Kind::kOp && node.kind != FlowNode::Kind::kInput) ends.push_back(next);
    open.insert(open.end(), node.op.in.begin(), node.op.in.end());
  }
  return ends;
}

std::string_view Lowering::SeesPadding(int end) const {
  const FlowNode& node = flows_.at(end);
  if (node.kind != FlowNode::Kind::kOverTime || own_ends_.contains(end)) return "";
  if (turned_ends_.contains(end)) return "the last step is that of";
  if (node.over_time == OverTime::kFirst || !node.beyond.empty()) return "";
  if (node.over_time == OverTime::kLastOfAll) return "the last step is that of";
  if (node.over_time == OverTime::kMean) return "a mean over time counts";
  return "a sum or extreme over time has more than the mask leaves of";
}

// Beyond a row's end a request's outputs are zero.
Obstacle Lowering::OtherBeyondEnds(const std::function<bool(const std::string&)>& is_asked) const {
  if (!lengths_input_) return {};
  const std::vector<std::vector<double>> beyond = BeyondEnds();
  for (const Output& output : outputs_) {
    const int node = output.flow.node;
    if (!flows_.at(node).per_step || AreZero(beyond[static_cast<size_t>(node)]) || !is_asked(output.name)) continue;
    if (LayersTakeLengths()) return {.output = output.name};
    return {.graph_input = graph_.input(static_cast<int>(*lengths_input_)).name()};
  }
  return {};
}

// Where no layer takes the lengths, each one reads the padding as well: what is not masked sees it.
absl::Status Lowering::CheckMasks() {
  if (!lengths_input_) return absl::OkStatus();
  if (turns_.node != nullptr) {
    Blame(turns_);
    return BadFile(
        absl::StrCat(turns_.label,
                     " turns all steps round, the padding before them, and the file takes lengths; make the "
                     "layer one of direction reverse (PyTorch: bidirectional=True), or leave the lengths out "
                     "(requests bring sequence_lens)"));
  }
  const std::vector<int> ends = NeededEnds();
  if (LayersTakeLengths()) {
    for (const int end : ends) {
      const std::string_view seen = SeesPadding(end);
      if (seen.empty()) continue;
      Blame(end_makers_.at(end));
      return BadFile(absl::StrCat(
          end_makers_.at(end).label,
          " looks beyond the ends of rows, where the file goes on with what requests bring "
          "as padding and the server computes nothing: mask it by the lengths before, or leave the lengths out "
          "(requests bring sequence_lens, and means, sums, extremes and last steps are of each row's own steps)"));
    }
    return absl::OkStatus();
  }
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
  for (const int end : ends) {
    const FlowNode::Kind kind = flows_.at(end).kind;
    if (kind == FlowNode::Kind::kFinalH || kind == FlowNode::Kind::kFinalC) return refuse("a final state is that of");
    if (const std::string_view seen = SeesPadding(end); !seen.empty()) return refuse(seen);
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
