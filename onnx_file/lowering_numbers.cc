// SPDX-License-Identifier: Apache-2.0
// Nodes that compute with all numbers of a step, or over time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/function_of.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {

absl::StatusOr<Flow> Lowering::AlongLast(const Flow& flow, int64_t axis, int64_t& inner) {
  const absl::StatusOr<size_t> place = AxisOf(axis, flow.layout.rank());
  if (!place.ok()) return place.status();
  const std::optional<int64_t> size = FeatureSize(flow.layout, *place);
  if (!size) {
    return BadFile(absl::StrCat("goes along axis ", *place, " of ", flow.layout.Text(symbols_),
                                ", which are steps or rows: it looks along time",
                                flow.layout.rank() == 2 && flow.layout.SymbolOf(*place) && flows_.at(flow.node).per_step
                                    ? "; if it has features and no rows, export the model with an axis of rows"
                                    : ""));
  }
  if (*place + 1 != flow.layout.rank()) {
    return BadFile(absl::StrCat("goes along axis ", *place, " of ", flow.layout.Text(symbols_),
                                "; only the last axis is supported"));
  }
  if (!IsFloating(flow.type)) return BadFile("computes with integers; only tables are looked up by them");
  inner = *size;
  return flows_.Canonical(flow);
}

absl::StatusOr<Flow> Lowering::Along(Flow flow, int64_t axis, int64_t& inner) {
  const size_t rank = flow.layout.rank();
  const absl::StatusOr<size_t> place = AxisOf(axis, rank);
  if (!place.ok() || !flow.layout.FeatureSize(*place)) return AlongLast(flow, axis, inner);
  flow.layout.MoveAxis(*place, rank - 1);
  return AlongLast(flow, -1, inner);
}

Lowering::Result Lowering::SoftmaxOf(const Call& call) {
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  MapOp op = {.kind = IsOnnxOp(call.node, "Softmax") ? MapOpKind::kSoftmax : MapOpKind::kLogSoftmax};
  // Before opset 13 it went along all axes from `axis` on.
  const bool is_one_axis = opset_ >= 13;
  const int64_t axis = IntOf(call, "axis", is_one_axis ? -1 : 1);
  absl::StatusOr<Flow> along = is_one_axis ? Along(*flow, axis, op.inner) : AlongLast(*flow, axis, op.inner);
  if (!along.ok()) return along.status();
  absl::StatusOr<Flow> made = Unary(*along, std::move(op));
  if (!made.ok()) return made.status();
  made->layout.MoveAxis(made->layout.rank() - 1, *AxisOf(axis, made->layout.rank()));
  return *std::move(made);
}

Lowering::Result Lowering::LayerNormalization(const Call& call) {
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  MapOp op = {.kind = MapOpKind::kNormalize};
  absl::StatusOr<Flow> last = AlongLast(*flow, IntOf(call, "axis", -1), op.inner);
  if (!last.ok()) return last.status();
  op.alpha = FloatOf(call, "epsilon", 1e-5F);
  for (size_t k = 1; k <= 2; ++k) {
    if (!Has(call, k)) {
      if (k == 1) return BadFile("has no scale");
      continue;
    }
    const absl::StatusOr<OnnxTensor> value = Value(call, k);
    if (!value.ok()) return value.status();
    absl::StatusOr<std::vector<double>> numbers = Doubles(*value, "scale and bias");
    if (!numbers.ok()) return numbers.status();
    if (numbers->size() == 1) numbers->resize(static_cast<size_t>(op.inner), numbers->front());
    if (static_cast<int64_t>(numbers->size()) != op.inner) return BadFile("has a scale or bias of another size");
    const absl::StatusOr<MapNumbersPtr> made = Numbers(*numbers);
    if (!made.ok()) return made.status();
    (k == 1 ? op.a : op.b) = *made;
  }
  absl::StatusOr<Flow> made = Unary(*last, std::move(op));
  if (!made.ok()) return made.status();
  return *std::move(made);
}

// x by its length: sqrt(mean(x * x) + epsilon) and times a scale, or the sum of |x|, or sqrt(sum(x * x)); 0 by 0 is 0.
Lowering::Result Lowering::LengthNormalization(const Call& call) {
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const bool is_rms = IsOnnxOp(call.node, "RMSNormalization");
  const bool is_sum = !is_rms && IntOf(call, "p", 2) == 1;
  const absl::StatusOr<size_t> axis = AxisOf(IntOf(call, "axis", -1), flow->layout.rank());
  if (!axis.ok()) return axis.status();
  if (is_rms && *axis + 1 != flow->layout.rank()) return BadFile("goes along several axes; only the last is supported");
  if (!FeatureSize(flow->layout, *axis)) return BadFile("goes along steps or rows: it looks along time");
  absl::StatusOr<Flow> size = Unary(*flow, {.function = is_sum ? MapFunction::kAbsolute : MapFunction::kSquare});
  if (!size.ok()) return size.status();
  Result sum = ReduceAxis(call, *std::move(size), *axis, is_rms ? MapFunction::kMean : MapFunction::kSum, true);
  if (sum.ok() && is_rms)
    sum = WithNumber(call, std::get<Flow>(*sum), MapFunction::kAdd, FloatOf(call, "epsilon", 1e-5F));
  if (!sum.ok()) return sum;
  size = is_sum ? std::get<Flow>(*sum) : Unary(std::get<Flow>(*sum), {.function = MapFunction::kSqrt});
  if (!is_rms) sum = WithNumber(call, size, MapFunction::kMaximum, std::numeric_limits<float>::min());
  if (!sum.ok()) return sum;
  Result made = Pair(flow, is_rms ? size : std::get<Flow>(*sum), MapFunction::kDivide);
  if (!made.ok() || !is_rms) return made;
  if (!Has(call, 1)) return BadFile("has no scale");
  const absl::StatusOr<OnnxTensor> scale = Value(call, 1);
  if (!scale.ok()) return scale.status();
  return WithConstant(call, std::get<Flow>(*made), *scale, MapFunction::kMultiply, false);
}

// scale / sqrt(variance + epsilon) and bias - mean times that, of axis 1.
Lowering::Result Lowering::BatchNormalization(const Call& call) {
  if (IntOf(call, "training_mode", 0) != 0) return BadFile("is in training mode");
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  std::vector<double> given[4];  // scale, bias, mean, variance
  for (size_t k = 0; k < 4; ++k) {
    if (!Has(call, k + 1)) return BadFile("has not its five inputs");
    const absl::StatusOr<OnnxTensor> value = Value(call, k + 1);
    if (!value.ok()) return value.status();
    absl::StatusOr<std::vector<double>> numbers = Doubles(*value, "statistics");
    if (!numbers.ok()) return numbers.status();
    given[k] = *std::move(numbers);
  }
  auto& [scale, bias, mean, variance] = given;
  if (flow->layout.rank() < 2 || FeatureSize(flow->layout, 1) != static_cast<int64_t>(scale.size()) ||
      bias.size() != scale.size() || mean.size() != scale.size() || variance.size() != scale.size()) {
    return BadFile(absl::StrCat("normalises axis 1 of ", flow->layout.Text(symbols_), " by statistics of ",
                                scale.size(), " numbers"));
  }
  const double epsilon = FloatOf(call, "epsilon", 1e-5F);
  for (size_t k = 0; k < scale.size(); ++k) {
    scale[k] /= std::sqrt(variance[k] + epsilon);
    bias[k] -= mean[k] * scale[k];
  }
  Result made = *flow;
  for (const auto& [values, function] : {std::pair(&scale, MapFunction::kMultiply), {&bias, MapFunction::kAdd}}) {
    OnnxTensor tensor;
    tensor.view = {DataType::kDouble, {static_cast<int64_t>(values->size())}, std::as_bytes(std::span(*values))};
    for (size_t axis = 2; axis < flow->layout.rank(); ++axis) tensor.view.shape.push_back(1);
    made = WithConstant(call, std::get<Flow>(*made), tensor, function, false);
    if (!made.ok()) return made;
  }
  return made;
}

Lowering::Result Lowering::OverTimeOf(const Flow& flow, size_t axis, OverTime over_time, bool keeps_axis) {
  if (!flows_.at(flow.node).per_step) return BadFile("looks along time again, of what has ended already");
  if (ends_ == Ends::kRefused) return BadFile("ends the sequence, which a session goes on with");
  const bool is_sum = over_time >= OverTime::kSum;
  if (is_sum && !IsFloating(flow.type)) return BadFile("sums integers over time");
  FlowNode node;
  node.kind = FlowNode::Kind::kOverTime;
  node.over_time = over_time;
  node.per_step = false;
  node.width = flow.layout.width();
  node.is_integer = !IsFloating(flow.type);
  node.limit = flows_.at(flow.node).limit;
  node.op.in = {flow.node};
  const absl::StatusOr<int> made = flows_.Add(std::move(node));
  if (!made.ok()) return made.status();
  Flow result = flow;
  result.node = *made;
  if (keeps_axis) {
    result.layout.axes()[axis].clear();
  } else {
    result.layout.axes().erase(result.layout.axes().begin() + static_cast<std::ptrdiff_t>(axis));
  }
  return result;
}

Lowering::Result Lowering::ReduceAxis(const Call& call, Flow flow, size_t axis, MapFunction function, bool keeps_axis) {
  const std::optional<int> symbol = flow.layout.SymbolOf(axis);
  const bool is_over_time =
      symbol && (symbols_.Find(*symbol) == Symbols::kT || symbols_.Find(*symbol) == Symbols::kBackT);
  const bool is_extreme = function == MapFunction::kLargest || function == MapFunction::kSmallest;
  // Of integers, mask.sum(1), and of booleans, (y > 0).any(-1): as numbers.
  if (IsInteger(flow) && (function == MapFunction::kSum || (is_extreme && !is_over_time))) {
    const DataType type = flow.type;
    const absl::StatusOr<Flow> numbers = AsNumbers(flow, OnnxTensor());
    if (!numbers.ok()) return numbers.status();
    return AsIntegers(ReduceAxis(call, *numbers, axis, function, keeps_axis), type);
  }
  if (flow.type == kBoolean && is_extreme && !is_over_time) {
    flow.type = data_type_;
    Result made = ReduceAxis(call, std::move(flow), axis, function, keeps_axis);
    if (made.ok()) std::get<Flow>(*made).type = kBoolean;
    return made;
  }
  if (is_over_time) {
    const OverTime over_time = function == MapFunction::kMean      ? OverTime::kMean
                               : function == MapFunction::kSum     ? OverTime::kSum
                               : function == MapFunction::kLargest ? OverTime::kLargest
                                                                   : OverTime::kSmallest;
    return OverTimeOf(flow, axis, over_time, keeps_axis);
  }
  MapOp op = {.kind = MapOpKind::kReduce, .function = function};
  absl::StatusOr<Flow> along = Along(std::move(flow), static_cast<int64_t>(axis), op.inner);
  if (!along.ok()) return along.status();
  op.in = {along->node};
  const int64_t width = along->layout.width() / op.inner;
  const absl::StatusOr<int> node = flows_.AddOp(std::move(op), width);
  if (!node.ok()) return node.status();
  along->node = *node;
  along->layout.EndAlong(axis, keeps_axis);
  return *std::move(along);
}

// Axis by axis, the last one first. ReduceL1 sums |x|, ReduceL2 and ReduceSumSquare x * x.
Lowering::Result Lowering::Reduce(const Call& call) {
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<std::optional<std::vector<int64_t>>> named = Ints(call, "axes", 1);
  if (!named.ok()) return named.status();
  if (!*named || (*named)->empty()) return BadFile("goes along all axes, of which rows are one; name the axes");
  const absl::StatusOr<std::set<size_t>> axes = AxesOf(**named, flow->layout.rank());
  if (!axes.ok()) return axes.status();
  const bool keeps_axis = IntOf(call, "keepdims", 1) != 0;
  const MapFunction function = FunctionOf(call.node.op_type());
  // max(x) - max(log_softmax(x)): x - log_softmax(x) is the same for all x of a group, but of the largest alone not
  // rounded away.
  std::optional<Flow> of_softmax;
  if (IsOnnxOp(call.node, "ReduceLogSumExp")) {
    if (axes->size() != 1) return BadFile("goes along several axes; only one at a time is supported");
    MapOp op = {.kind = MapOpKind::kLogSoftmax};
    absl::StatusOr<Flow> along = Along(*flow, static_cast<int64_t>(*axes->begin()), op.inner);
    if (!along.ok()) return along.status();
    absl::StatusOr<Flow> made = Unary(*along, std::move(op));
    if (!made.ok()) return made.status();
    made->layout.MoveAxis(made->layout.rank() - 1, *axes->begin());
    Result largest = ReduceAxis(call, *std::move(made), *axes->begin(), function, keeps_axis);
    if (!largest.ok()) return largest;
    of_softmax = std::get<Flow>(*std::move(largest));
  }
  const bool squares = IsOnnxOp(call.node, "ReduceL2") || IsOnnxOp(call.node, "ReduceSumSquare");
  if (squares) flow = Unary(*flow, {.function = MapFunction::kSquare});
  if (IsOnnxOp(call.node, "ReduceL1")) flow = Unary(*flow, {.function = MapFunction::kAbsolute});
  for (auto axis = axes->rbegin(); flow.ok() && axis != axes->rend(); ++axis) {
    const bool is_mask =
        IsOnnxOp(call.node, "ReduceSum") && flow->layout.width() == 1 && flows_.at(flow->node).per_step;
    Result reduced = ReduceAxis(call, *std::move(flow), *axis, function, keeps_axis);
    if (!reduced.ok() && is_mask) {
      return BadFile(absl::StrCat(reduced.status().message(), "; ", View(kLengthsOfMask)));
    }
    if (!reduced.ok()) return reduced;
    flow = std::get<Flow>(*std::move(reduced));
  }
  if (flow.ok() && IsOnnxOp(call.node, "ReduceL2")) flow = Unary(*flow, {.function = MapFunction::kSqrt});
  if (flow.ok() && of_softmax) return Pair(flow, *of_softmax, MapFunction::kSubtract);
  if (!flow.ok()) return flow.status();
  return *std::move(flow);
}

// The largest or mean along all axes behind the second: of [N, C, T] those of all steps.
Lowering::Result Lowering::Pool(const Call& call) {
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const std::string& op_type = call.node.op_type();
  if (flow->layout.rank() < 3) return BadFile(absl::StrCat("pools ", flow->layout.Text(symbols_)));
  if (!op_type.starts_with("Global")) {
    const auto all = [&](std::string_view name, int64_t wanted) {
      const onnx::AttributeProto* list = FindAttribute(call.node, name);
      return list == nullptr || std::ranges::all_of(list->ints(), [wanted](int64_t value) { return value == wanted; });
    };
    const onnx::AttributeProto* padding = FindAttribute(call.node, "auto_pad");
    const bool is_padded = padding != nullptr && padding->s().starts_with("SAME");
    const std::optional<int> symbol = flow->layout.SymbolOf(2);
    const std::optional<int64_t> steps = symbol ? symbols_.SizeOf(*symbol) : std::nullopt;
    if (flow->layout.rank() != 3 || !steps || is_padded || FindAttribute(call.node, "kernel_shape") == nullptr ||
        !all("kernel_shape", *steps) || !all("pads", 0) || !all("dilations", 1) || call.node.output_size() != 1) {
      return BadFile(
          "pools some steps at a time; only all steps of a sequence can be pooled (PyTorch: y.max(1), y.mean(1) or "
          "AdaptiveMaxPool1d(1))");
    }
  }
  const MapFunction function = op_type.ends_with("MaxPool") ? MapFunction::kLargest : MapFunction::kMean;
  for (size_t axis = flow->layout.rank() - 1; axis >= 2; --axis) {
    Result reduced = ReduceAxis(call, *std::move(flow), axis, function, true);
    if (!reduced.ok()) return reduced;
    flow = std::get<Flow>(*std::move(reduced));
  }
  return *std::move(flow);
}

Lowering::Result Lowering::ArgMax(const Call& call) {
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<size_t> axis = AxisOf(IntOf(call, "axis", 0), flow->layout.rank());
  if (!axis.ok()) return axis.status();
  MapOp op = {.kind = MapOpKind::kArgMax, .reversed = IntOf(call, "select_last_index", 0) != 0};
  flow = Along(*std::move(flow), IntOf(call, "axis", 0), op.inner);
  if (flow.ok() && IsOnnxOp(call.node, "ArgMin")) flow = Unary(*flow, {.function = MapFunction::kNegative});
  if (!flow.ok()) return flow.status();
  op.in = {flow->node};
  const int64_t limit = op.inner;
  const absl::StatusOr<int> node = flows_.AddOp(std::move(op), flow->layout.width() / limit, true);
  if (!node.ok()) return node.status();
  flows_.nodes()[static_cast<size_t>(*node)].limit = limit;
  flow->node = *node;
  flow->type = DataType::kInt64;
  flow->layout.EndAlong(*axis, IntOf(call, "keepdims", 1) != 0);
  return *std::move(flow);
}

Lowering::Result Lowering::TopK(const Call& call) {
  if (const std::optional<Lengths> lengths = LengthsOf(call, 0)) return SortRows(call, *lengths);
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<Sizes> k =
      opset_ < 10 ? absl::StatusOr<Sizes>(Sizes{.list = {Size(IntOf(call, "k", 0))}}) : SizesOf(call, 1);
  if (!k.ok()) return k.status();
  if (k->list.size() != 1 || !k->list[0].is_constant()) {
    return BadFile(IsInteger(*flow) ? absl::StrCat("has no fixed K; ", View(kLengthsOfMask)) : "has no fixed K");
  }
  const absl::StatusOr<size_t> axis = AxisOf(IntOf(call, "axis", -1), flow->layout.rank());
  if (!axis.ok()) return axis.status();
  const bool is_smallest = IntOf(call, "largest", 1) == 0;  // of -x
  MapOp op = {.kind = MapOpKind::kTopK};
  flow = Along(*std::move(flow), static_cast<int64_t>(*axis), op.inner);
  if (flow.ok() && is_smallest) flow = Unary(*flow, {.function = MapFunction::kNegative});
  if (!flow.ok()) return flow.status();
  op.count = k->list[0].factor;
  const int64_t limit = op.inner;
  if (op.count < 1 || op.count > limit) return BadFile(absl::StrCat("takes ", op.count, " of ", limit));
  op.in = {flow->node};
  const int64_t width = flow->layout.width() / limit * op.count;
  flow->layout.axes().back() = {{.size = op.count}};
  flow->layout = flow->layout.Canonical();
  const absl::StatusOr<int> values = flows_.AddOp(std::move(op), width);
  if (!values.ok()) return values.status();
  const absl::StatusOr<int> places = flows_.AddResult(*values, width, true);
  if (!places.ok()) return places.status();
  flows_.nodes()[static_cast<size_t>(*places)].limit = limit;
  flow->node = *places;
  flow->layout.MoveAxis(flow->layout.rank() - 1, *axis);
  Flow indices = *flow;
  indices.type = DataType::kInt64;
  if (absl::Status given = Give(call.node, 1, std::move(indices)); !given.ok()) return given;
  flow->node = *values;
  if (is_smallest) flow = Unary(*flow, {.function = MapFunction::kNegative});
  if (!flow.ok()) return flow.status();
  return *std::move(flow);
}

}  // namespace rnnserve
