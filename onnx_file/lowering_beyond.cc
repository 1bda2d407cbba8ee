// SPDX-License-Identifier: Apache-2.0
// What a file has beyond the ends of rows, where its masks of lengths fail. The server computes no step there, so what
// sees it is refused, or left to the part behind a split.
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

// One number, or nullopt.
using Beyond = std::optional<double>;

}  // namespace

// Y of LSTM and RNN goes no farther than tanh does, whatever they start from; GRU's does where it starts from nothing.
bool Lowering::IsWithinOne(size_t layer) const {
  const OperatorDef& op = layers_[layer].op.op;
  if (op.attributes.contains("activations")) return false;
  const auto starts_it = [layer](const InputUse& use) {
    return use.kind == InputUse::Kind::kState && std::ranges::count(use.layers, layer) > 0;
  };
  return op.op_type != "GRU" || std::ranges::none_of(inputs_, starts_it);
}

std::vector<std::optional<double>> Lowering::BeyondEnds(bool layers_are_zero) const {
  std::vector<Interval> between(flows_.nodes().size());
  std::vector<Beyond> beyond;
  for (size_t k = 0; k < between.size(); ++k) {  // inputs come before what takes them
    const FlowNode& node = flows_.at(static_cast<int>(k));
    std::vector<Interval> in;
    for (const int from : node.op.in) in.push_back(between[static_cast<size_t>(from)]);
    const bool is_y = node.kind == FlowNode::Kind::kLayerY;
    if (static_cast<int>(k) == ones_ || (is_y && layers_are_zero)) {
      between[k] = Interval::Of(0);
    } else if (is_y && IsWithinOne(node.layer)) {
      between[k] = {-1, 1};
    } else if (node.kind == FlowNode::Kind::kOp) {
      between[k] = IntervalOf(data_type_, node, in);
    }
    beyond.push_back(between[k].number());
  }
  return beyond;
}

// An extreme counts what the file's mask has put there, and no layer's zeros: those are of no step of the row.
void Lowering::TakeBeyondEnds() {
  if (!lengths_input_) return;
  const std::vector<Beyond> masked = BeyondEnds(false), zeros = BeyondEnds(LayersTakeLengths());
  for (const int end : NeededEnds()) {
    FlowNode& node = flows_.nodes()[static_cast<size_t>(end)];
    if (node.kind != FlowNode::Kind::kOverTime) continue;
    const auto from = static_cast<size_t>(node.op.in[0]);
    if (node.over_time == OverTime::kLargest || node.over_time == OverTime::kSmallest) {
      node.beyond = masked[from];
    } else if (node.over_time == OverTime::kFirst || own_ends_.contains(end)) {
      if (!node.is_integer) node.beyond = zeros[from];
      rows_need_steps_ |= !node.beyond;
    }
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

std::string_view Lowering::SeesPadding(int end, const std::vector<Beyond>& beyond) const {
  const FlowNode& node = flows_.at(end);
  if (node.kind != FlowNode::Kind::kOverTime || own_ends_.contains(end)) return "";
  if (node.over_time == OverTime::kLast || turned_ends_.contains(end)) return "the last step is that of";
  if (node.over_time == OverTime::kMean) return "a mean over time counts";
  const bool has_more = node.over_time == OverTime::kSum ? beyond[static_cast<size_t>(node.op.in[0])] != Beyond(0)
                                                         : node.over_time != OverTime::kFirst && !node.beyond;
  return has_more ? "a sum or extreme over time has more than the mask leaves of" : "";
}

// Beyond a row's end a request's outputs are zero.
Obstacle Lowering::OtherBeyondEnds(const std::function<bool(const std::string&)>& is_asked) const {
  if (!lengths_input_) return {};
  const std::vector<Beyond> beyond = BeyondEnds(LayersTakeLengths());
  for (const int end : NeededEnds()) {
    if (!SeesPadding(end, beyond).empty()) return end_makers_.at(end);
  }
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
  const std::vector<Beyond> beyond = BeyondEnds(false);
  for (const int end : NeededEnds()) {
    const FlowNode::Kind kind = flows_.at(end).kind;
    if (kind == FlowNode::Kind::kFinalH || kind == FlowNode::Kind::kFinalC) return refuse("a final state is that of");
    if (const std::string_view seen = SeesPadding(end, beyond); !seen.empty()) return refuse(seen);
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
