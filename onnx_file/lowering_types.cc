// SPDX-License-Identifier: Apache-2.0
// Types of numbers: Cast, and the rounding of what a file computes in a narrower type than its layers.
#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {

Lowering::Result Lowering::Cast(const Call& call) {
  const auto to = static_cast<DataType>(IntOf(call, "to", 0));
  if (to == kBoolean) return AsBoolean(call);
  if (ByteSize(to) == 0) {
    return BadFile(absl::StrCat("casts to ", OnnxTypeName(to),
                                ", which no served model computes with; cast to FLOAT, FLOAT16, BFLOAT16, DOUBLE, "
                                "INT32, INT64 or BOOL"));
  }
  const auto* input = std::get_if<GraphInput>(call.inputs[0]);
  // Lengths, or tokens in other integers: its use decides.
  if (input != nullptr && !IsFloating(to)) {
    const auto& info = graph_.input(static_cast<int>(input->input));
    const auto from = static_cast<DataType>(info.type().tensor_type().elem_type());
    if (!IsFloating(from) && info.type().tensor_type().shape().dim_size() < 2) return *call.inputs[0];
  }
  // States of another type become the layers' where a request brings them.
  if (input != nullptr && to == data_type_ &&
      (IsStateOfLayer(call.node.output(0)) || IsPartedState(call.node.output(0)))) {
    return *call.inputs[0];
  }
  if (const std::optional<Lengths> lengths = LengthsOf(call, 0); lengths && IsFloating(to)) {
    Result numbers = NumbersOf(call, *lengths);
    return numbers.ok() ? Rounded(std::get<Flow>(*std::move(numbers)), to) : numbers;
  }
  if (!std::holds_alternative<Flow>(*call.inputs[0]) && input == nullptr) return *call.inputs[0];
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  Flow made = *flow;
  const bool is_number = IsFloating(flow->type) || flow->type == kBoolean;
  if (IsFloating(to) != is_number) {
    absl::StatusOr<int> node =
        flows_.AddOp({.kind = MapOpKind::kConvert, .in = {flow->node}}, flow->layout.width(), !IsFloating(to));
    if (!node.ok()) return node.status();
    made.node = *node;
  }
  if (IsFloating(to) && flow->type != to && flow->type != kBoolean) return Rounded(std::move(made), to);
  made.type = to;
  return made;
}

Lowering::Result Lowering::Rounded(Flow flow, DataType to) {
  MapOp op = {.kind = MapOpKind::kUnary, .in = {flow.node}};
  if (to == DataType::kFloat16) op.function = MapFunction::kToFloat16;
  if (to == DataType::kBFloat16) op.function = MapFunction::kToBFloat16;
  if (to == DataType::kFloat && data_type_ == DataType::kDouble) op.function = MapFunction::kToFloat;
  flow.type = to;
  if (op.function == MapFunction::kNone) return flow;
  const absl::StatusOr<int> node = flows_.AddOp(std::move(op), flow.layout.width());
  if (!node.ok()) return node.status();
  flow.node = *node;
  return flow;
}

bool Lowering::Computes(int first) const {
  return std::any_of(flows_.nodes().begin() + first, flows_.nodes().end(), [](const FlowNode& node) {
    const MapOpKind kind = node.op.kind;
    const bool moves = kind == MapOpKind::kSelect || kind == MapOpKind::kConcat || kind == MapOpKind::kConvert ||
                       kind == MapOpKind::kLookup;
    return node.kind == FlowNode::Kind::kOverTime ? node.over_time >= OverTime::kSum
                                                  : node.kind == FlowNode::Kind::kOp && !moves;
  });
}

Lowering::Result Lowering::InItsType(const Call& call, GraphValue value) {
  const bool is_double = data_type_ == DataType::kDouble;
  for (const GraphValue* input : call.inputs) {
    const Flow* flow = input == nullptr ? nullptr : std::get_if<Flow>(input);
    if (flow != nullptr && flow->type == DataType::kDouble && !is_double) {
      return BadFile(
          absl::StrCat("computes in DOUBLE, but the layers are of ", OnnxTypeName(data_type_),
                       ", and so what is computed beside them is no wider than FLOAT; cast to FLOAT before it"));
    }
  }
  Flow* flow = std::get_if<Flow>(&value);
  const bool is_narrow = flow != nullptr && flow->type != data_type_ && IsFloating(flow->type) &&
                         (flow->type != DataType::kFloat || is_double);
  return is_narrow ? Rounded(*flow, flow->type) : Result(std::move(value));
}

}  // namespace rnnserve
