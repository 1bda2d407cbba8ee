// SPDX-License-Identifier: Apache-2.0
// Graph inputs that bring one record of each row (a speaker, a style) beside those that bring steps. What is made of
// records is computed once a row, before its steps. Then each step is joined with it, or what is left of a sequence, or
// layers start from it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {

// Whether the node takes the input's last axis as a record's numbers: a product, or a Unsqueeze beside its rows, from
// which it goes to steps.
bool Lowering::TakesRecord(const onnx::NodeProto& node, const std::string& name) {
  if (node.input_size() == 0 || node.input(0) != name) return false;
  if (!IsOnnxOp(node, "Unsqueeze")) return IsOnnxOp(node, "MatMul") || IsOnnxOp(node, "Gemm");
  if (node.output_size() == 0 || IsStateOfLayer(node.output(0))) return false;
  const onnx::AttributeProto* axes = FindAttribute(node, "axes");
  const std::optional<int64_t> axis = axes == nullptr
                                          ? node.input_size() > 1 ? FixedInteger(node.input(1)) : std::nullopt
                                      : axes->ints_size() == 1 ? std::optional(axes->ints(0))
                                                               : std::nullopt;
  return axis == 0 || axis == 1 || axis == -2 || axis == -3;
}

bool Lowering::BringsRows(const onnx::ValueInfoProto& info) {
  if (guess_ && guess_->contains(info.name())) return true;
  const auto rank_of = [](const onnx::ValueInfoProto& input) { return input.type().tensor_type().shape().dim_size(); };
  const auto is_floating = [](const onnx::ValueInfoProto& input) {
    return IsFloating(static_cast<DataType>(input.type().tensor_type().elem_type()));
  };
  const auto has_steps = [&](const onnx::ValueInfoProto& input) {
    const bool is_state = states_.contains(input.name()) || parted_states_.contains(input.name());
    return input.name() != info.name() && rank_of(input) >= (is_floating(input) ? 3 : 2) && !is_state;
  };
  if (std::ranges::none_of(graph_.input(), has_steps)) return false;
  if (!is_floating(info)) return rank_of(info) == 1 && LooksUp(info.name());
  const std::optional<int64_t> numbers = rank_of(info) == 2 ? DimOf(info, 1) : std::nullopt;
  if (!numbers) return false;
  bool by_product = false, by_unsqueeze = false;
  for (const onnx::NodeProto& node : graph_.node()) {
    if (TakesRecord(node, info.name())) (IsOnnxOp(node, "Unsqueeze") ? by_unsqueeze : by_product) = true;
  }
  guesses_records_ |= by_unsqueeze && !by_product;
  return by_product || (by_unsqueeze && !guess_);
}

Lowering::Names Lowering::MayBringRows(bool& leaves_steps) const {
  const auto axes_of = [](const onnx::ValueInfoProto& input) { return input.type().tensor_type().shape().dim_size(); };
  const auto is_fixed = [&](const onnx::ValueInfoProto& input) {
    for (int axis = 1; axis < axes_of(input); ++axis) {
      if (!DimOf(input, axis)) return false;
    }
    return axes_of(input) >= 2;
  };
  const auto is_state = [&](const onnx::ValueInfoProto& input) {
    return states_.contains(input.name()) || parted_states_.contains(input.name());
  };
  const bool is_open = std::ranges::any_of(graph_.input(), [&](const onnx::ValueInfoProto& input) {
    return axes_of(input) >= 2 && !is_fixed(input) && !is_state(input);
  });
  Names names;
  leaves_steps = is_open;
  for (const onnx::ValueInfoProto& input : graph_.input()) {
    const Scope::Definition* definition = scope_->Find(input.name());
    if (definition == nullptr || !definition->is_input() || axes_of(input) < 2 || is_state(input)) continue;
    if (is_fixed(input) && (axes_of(input) == 2 || is_open)) {
      names.insert(input.name());
    } else {
      leaves_steps = true;
    }
  }
  return names;
}

bool Lowering::AreSteps(int symbol) const {
  const int root = symbols_.Find(symbol);
  return root != Symbols::kN && root != Symbols::kSortedN;
}

absl::StatusOr<Flow> Lowering::AtEachStep(Flow flow, size_t axis, int symbol) {
  const absl::StatusOr<int> each = flows_.Copy(flow.node, true);
  if (!each.ok()) return each.status();
  flow.node = *each;
  flow.layout.axes()[axis] = Layout::AxisOfSymbol(symbol);
  return flow;
}

absl::StatusOr<Flow> Lowering::AtStepsOf(const Flow& other, const Flow& flow) {
  const auto found = repeated_.find(flow.node);
  if (found == repeated_.end() || other.layout.rank() != flow.layout.rank()) return flow;
  const auto& [record, axis] = found->second;
  const std::optional<int> symbol = other.layout.SymbolOf(axis);
  const std::optional<int64_t> size = flow.layout.FeatureSize(axis);
  if (!symbol || !AreSteps(*symbol) || !size || symbols_.SizeOf(*symbol) != size) return flow;
  Layout repeated = record.layout;  // unless its axes have moved since
  repeated.axes()[axis] = {{.size = *size}};
  if (!flow.layout.is_canonical() || repeated.Text(symbols_) != flow.layout.Text(symbols_)) return flow;
  return AtEachStep(record, axis, *symbol);
}

// A state that is computed of a row's own record.
absl::Status Lowering::TakeComputedState(const Call& call, size_t index) {
  LoweredLayer& layer = layers_.back();
  const absl::StatusOr<Flow> flow = flows_.Canonical(std::get<Flow>(*call.inputs[index]));
  if (!flow.ok()) return flow.status();
  const Layout& layout = flow->layout;
  const size_t rows = layer.rows_first ? 0 : 1;
  const bool fits = layout.rank() == 3 && layout.SymbolOf(rows) && layout.FeatureSize(1 - rows) == layer.directions &&
                    layout.FeatureSize(2) == layer.hidden_size && flow->type == data_type_;
  const std::string label = InputLabel(index, call.node.input(static_cast<int>(index)));
  if (!fits) return BadFile(absl::StrCat(label, " is ", layout.Text(symbols_), ", or has another data_type than X"));
  const bool is_sorted = symbols_.Find(*layout.SymbolOf(rows)) == Symbols::kSortedN;
  if (is_sorted != layer.is_sorted) return BadFile(absl::StrCat(label, " has its rows in another order than X"));
  const bool is_computed = flows_.at(flow->node).kind == FlowNode::Kind::kOp;
  const absl::StatusOr<int> node = is_computed ? flow->node : flows_.Copy(flow->node, false);
  if (!node.ok()) return node.status();
  (index == 6 ? layer.start_c : layer.start_h) = *node;
  return absl::OkStatus();
}

}  // namespace rnnserve
