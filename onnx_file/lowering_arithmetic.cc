// SPDX-License-Identifier: Apache-2.0
// Nodes that compute each number by itself, or with one of another operand.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/function_of.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {

absl::StatusOr<Flow> Lowering::Unary(const Flow& flow, MapOp op) {
  if (!IsFloating(flow.type)) return BadFile("computes with integers; only tables are looked up by them");
  op.in = {flow.node};
  absl::StatusOr<int> node = flows_.AddOp(std::move(op), flow.layout.width());
  if (!node.ok()) return node.status();
  Flow made = flow;
  made.node = *node;
  return made;
}

namespace {

// size = function(size, other) of sizes that the file fixes, such as those of features; false: it is not so simple.
bool ComputeConstants(MapFunction function, const Size& other, Size& size) {
  if (!size.is_constant() || !other.is_constant()) return false;
  int64_t& value = size.factor;
  if (function == MapFunction::kAdd) return !__builtin_add_overflow(value, other.factor, &value);
  if (function == MapFunction::kSubtract) return !__builtin_sub_overflow(value, other.factor, &value);
  if (function != MapFunction::kDivide || other.factor <= 0) return false;
  value /= other.factor;
  return true;
}

}  // namespace

Lowering::Result Lowering::Arithmetic(const Call& call) {
  const MapFunction function = FunctionOf(call.node.op_type());
  const bool takes_several = function == MapFunction::kMaximum || function == MapFunction::kMinimum;
  if (takes_several && call.inputs.size() != 2) return Several(call);
  if (call.inputs.size() != 2 || !Has(call, 0) || !Has(call, 1)) return BadFile("has not two inputs");
  if (std::optional<Result> lengths = ArithmeticOfLengths(call)) return *std::move(lengths);
  if (std::ranges::any_of(call.inputs, [](const auto* value) { return std::holds_alternative<Counting>(*value); })) {
    return BadFile(absl::StrCat("computes places; ", View(kPickLast)));
  }
  for (size_t k = 0; k < 2; ++k) {
    const auto* last = std::get_if<LastPlace>(call.inputs[k]);
    if (last == nullptr) continue;
    const std::string& other = call.node.input(static_cast<int>(1 - k));
    if (function != MapFunction::kAdd || !IsFixed(call, 1 - k) || FixedInteger(other) != 1) {
      return BadFile(
          "computes with the place of the last step other than by adding 1 (PyTorch: y[:, -1]; dynamo=True writes "
          "other forms so as well)");
    }
    Size all;  // PyTorch: y.narrow(1, y.size(1) - 1, 1)
    all.symbols = {last->symbol};
    return Sizes{.list = {all}, .is_scalar = last->is_scalar};
  }
  const auto is_sizes = [&](size_t k) { return std::holds_alternative<Sizes>(*call.inputs[k]); };
  if (is_sizes(0) || is_sizes(1)) {
    if (std::ranges::any_of(call.inputs, [](const auto* value) { return std::holds_alternative<Flow>(*value); })) {
      const size_t place = is_sizes(0) ? 0 : 1;  // how many features: y.var(-1) of torch
      const Sizes& count = std::get<Sizes>(*call.inputs[place]);
      if (count.list.size() == 1 && count.list[0].is_constant()) {
        const auto number = static_cast<double>(count.list[0].factor);
        return WithNumber(call, FlowOf(call, 1 - place), function, number, place == 0);
      }
      return BadFile(
          "computes with how many steps or rows there are, of which each row has its own; a mean over time is "
          "ReduceMean (PyTorch: y.mean(1))");
    }
    absl::StatusOr<Sizes> a = SizesOf(call, 0), b = SizesOf(call, 1);
    if (!a.ok()) return a.status();
    if (!b.ok()) return b.status();
    if (const std::optional<LastPlace> last = LastPlaceOf(call)) return *last;
    if (a->list.size() == 1 && function == MapFunction::kMultiply) std::swap(*a, *b);
    if (b->list.size() != 1 && a->list.size() != b->list.size()) {
      return BadFile(absl::StrCat("computes lists of sizes, or places, that are not as long; ", View(kPickLast)));
    }
    for (size_t k = 0; k < a->list.size(); ++k) {
      Size& size = a->list[k];
      const Size& other = b->list[b->list.size() == 1 ? 0 : k];
      if (function != MapFunction::kMultiply) {
        if (ComputeConstants(function, other, size)) continue;
        return BadFile("computes sizes of steps or rows other than by multiplying two of them");
      }
      if (__builtin_mul_overflow(size.factor, other.factor, &size.factor) || size.symbols.size() > 16) {
        return BadFile("multiplies sizes beyond all bounds");
      }
      size.symbols.insert(size.symbols.end(), other.symbols.begin(), other.symbols.end());
    }
    a->is_scalar &= b->is_scalar;
    return *std::move(a);
  }
  return OfTwo(call, function);
}

Lowering::Result Lowering::Several(const Call& call) {
  const MapFunction function = FunctionOf(call.node.op_type());
  size_t first = 0;
  while (first + 1 < call.inputs.size() && IsFixed(call, first)) ++first;
  Result made = GraphValue{};
  absl::StatusOr<Flow> flow = FlowOf(call, first);
  if (!flow.ok()) return flow.status();
  made = *std::move(flow);
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    if (k == first) continue;
    if (IsFixed(call, k)) {
      const absl::StatusOr<OnnxTensor> constant = Value(call, k);
      if (!constant.ok()) return constant.status();
      made = WithConstant(call, std::get<Flow>(*made), *constant, function, false);
    } else {
      made = Pair(std::get<Flow>(*made), FlowOf(call, k), function);
    }
    if (!made.ok()) return made;
  }
  if (!IsOnnxOp(call.node, "Mean")) return made;
  return WithNumber(call, std::get<Flow>(*made), MapFunction::kDivide, static_cast<double>(call.inputs.size()));
}

Lowering::Result Lowering::OfTwo(const Call& call, MapFunction function) {
  if (!IsFixed(call, 0) && !IsFixed(call, 1)) return Pair(FlowOf(call, 0), FlowOf(call, 1), function);
  const size_t fixed = IsFixed(call, 1) ? 1 : 0;
  absl::StatusOr<Flow> flow = FlowOf(call, 1 - fixed);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<OnnxTensor> constant = Value(call, fixed);
  if (!constant.ok()) return constant.status();
  const bool is_extreme = function == MapFunction::kMaximum || function == MapFunction::kMinimum;
  if (!is_extreme || !IsInteger(*flow)) return WithConstant(call, *flow, *constant, function, fixed == 0);
  const DataType type = flow->type;
  flow = AsNumbers(*flow, *constant);
  if (!flow.ok()) return flow.status();
  return AsIntegers(WithConstant(call, *flow, *constant, function, fixed == 0), type);
}

// Integers as numbers, to be compared with constants that are exact as such: then so is what comes of it, as rounding
// keeps order.
absl::StatusOr<Flow> Lowering::AsNumbers(const Flow& flow, const OnnxTensor& constant) {
  constexpr double kExact = 1 << 24;
  const absl::StatusOr<std::vector<double>> values = Doubles(constant, "constant");
  if (!values.ok()) return values.status();
  if (std::ranges::any_of(*values, [](double value) { return !(std::abs(value) < kExact); })) {
    return BadFile("compares integers with one of 2^24 or more");
  }
  Flow made = flow;
  made.type = data_type_;
  const absl::StatusOr<int> node =
      flows_.AddOp({.kind = MapOpKind::kConvert, .in = {flow.node}}, flow.layout.width(), false);
  if (!node.ok()) return node.status();
  made.node = *node;
  return made;
}

Lowering::Result Lowering::AsIntegers(Result numbers, DataType type) {
  if (!numbers.ok()) return numbers;
  Flow made = std::get<Flow>(*std::move(numbers));
  const absl::StatusOr<int> node =
      flows_.AddOp({.kind = MapOpKind::kConvert, .in = {made.node}}, made.layout.width(), true);
  if (!node.ok()) return node.status();
  made.node = *node;
  made.type = type;
  counted_.insert(*node);
  return made;
}

// x != 0
Lowering::Result Lowering::AsBoolean(const Call& call) {
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  if (flow->type == kBoolean) return *std::move(flow);
  if (!IsFloating(flow->type)) flow = AsNumbers(*flow, OnnxTensor());
  Result made = WithNumber(call, flow, MapFunction::kEqual, 0);
  if (made.ok()) made = WithNumber(call, std::get<Flow>(*made), MapFunction::kSubtract, 1, true);
  if (made.ok()) std::get<Flow>(*made).type = kBoolean;
  return made;
}

// IsNaN, IsInf.
Lowering::Result Lowering::IsNoNumber(const Call& call) {
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  if (!IsFloating(flow->type)) return BadFile("asks of integers whether they are numbers");
  absl::StatusOr<Flow> made = *flow;
  if (IsOnnxOp(call.node, "IsNaN")) {  // which equals nothing
    made = Binary(MapFunction::kEqual, *flow, *flow);
    if (!made.ok()) return made.status();
    Result other = WithNumber(call, made, MapFunction::kSubtract, 1, true);
    if (!other.ok()) return other;
    made = std::get<Flow>(*std::move(other));
  } else {
    const bool high = IntOf(call, "detect_positive", 1) != 0, low = IntOf(call, "detect_negative", 1) != 0;
    if (!high && !low) return BadFile("detects neither of two infinities");
    if (high && low) made = Unary(*flow, {.function = MapFunction::kAbsolute});
    const double end = high ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
    Result equal = WithNumber(call, made, MapFunction::kEqual, end);
    if (!equal.ok()) return equal;
    made = std::get<Flow>(*std::move(equal));
  }
  made->type = kBoolean;
  return *std::move(made);
}

// A boolean is 1 or 0 in the compute type.
Lowering::Result Lowering::Compare(const Call& call) {
  if (call.inputs.size() != 2 || !Has(call, 0) || !Has(call, 1)) return BadFile("has not two inputs");
  if (std::optional<Result> sizes = CompareSizes(call)) return *std::move(sizes);
  if (std::optional<Result> mask = MaskOf(call)) return *std::move(mask);
  const MapFunction function = FunctionOf(call.node.op_type());
  Result made = GraphValue{};
  if (const std::optional<size_t> fixed = IsFixed(call, 0)   ? std::optional<size_t>(0)
                                          : IsFixed(call, 1) ? std::optional<size_t>(1)
                                                             : std::nullopt) {
    absl::StatusOr<Flow> flow = FlowOf(call, 1 - *fixed);
    if (!flow.ok()) return flow.status();
    const absl::StatusOr<OnnxTensor> constant = Value(call, *fixed);
    if (!constant.ok()) return constant.status();
    if (flow->type != kBoolean && !IsFloating(flow->type)) flow = AsNumbers(*flow, *constant);
    if (!flow.ok()) return flow.status();
    made = WithConstant(call, *flow, *constant, function, *fixed == 0);
  } else {
    made = Pair(FlowOf(call, 0), FlowOf(call, 1), function);
  }
  if (made.ok()) std::get<Flow>(*made).type = kBoolean;
  return made;
}

bool Lowering::FitInto(const std::string& zeros, const Layout& layout, const Layout* other) {
  const Scope::Definition* made = std::holds_alternative<Zeros>(values_.at(zeros)) ? scope_->Find(zeros) : nullptr;
  if (made == nullptr || made->node == nullptr) return false;
  const int of_shape = IsOnnxOp(*made->node, "ConstantOfShape") ? 0 : IsOnnxOp(*made->node, "Expand") ? 1 : -1;
  if (of_shape < 0 || of_shape >= made->node->input_size()) return false;
  const auto* shape = std::get_if<Sizes>(&values_.at(made->node->input(of_shape)));
  if (shape == nullptr || shape->list.empty()) return shape != nullptr;
  // Counted from the last axis, as shapes are broadcast.
  const auto has = [&](const Layout* of, size_t from_end, const Size& size) {
    return of != nullptr && from_end < of->rank() && Equal(symbols_, size, of->SizeOfAxis(of->rank() - 1 - from_end));
  };
  const size_t rank = shape->list.size();
  for (size_t from_end = 0; from_end < rank; ++from_end) {
    const Size& size = shape->list[rank - 1 - from_end];
    const bool is_broadcast =
        Equal(symbols_, size, Size(1)) && std::max(layout.rank(), other == nullptr ? 0 : other->rank()) > from_end;
    if (!is_broadcast && !has(&layout, from_end, size) && !has(other, from_end, size)) return false;
  }
  return true;
}

// torch: zeros_like(y), beside y and a condition that may be one number of each step.
bool Lowering::FitBeside(const Call& call, size_t zeros, const Flow& condition) {
  const absl::StatusOr<Flow> other = FlowOf(call, 3 - zeros);
  return FitInto(call.node.input(static_cast<int>(zeros)), condition.layout, other.ok() ? &other->layout : nullptr);
}

// The numbers of `b` where `a` holds, else 0, and so on: no number is multiplied by 0, since it may be infinite.
Lowering::Result Lowering::Where(const Call& call) {
  if (!Has(call, 0) || !Has(call, 1) || !Has(call, 2)) return BadFile("has not three inputs");
  if (std::optional<Result> sizes = ChooseSizes(call)) return *std::move(sizes);
  absl::StatusOr<Flow> condition = FlowOf(call, 0);
  if (!condition.ok()) return condition.status();
  if (condition->type != kBoolean) return BadFile("chooses by what is no comparison of a step's numbers");
  condition->type = data_type_;
  absl::StatusOr<Flow> parts[2] = {*condition, *condition};
  for (size_t k = 0; k < 2; ++k) {
    const MapFunction function = k == 0 ? MapFunction::kWhere : MapFunction::kWhereNot;
    Result part = GraphValue{};
    if (IsFixed(call, k + 1)) {
      const absl::StatusOr<OnnxTensor> constant = Value(call, k + 1);
      if (!constant.ok()) return constant.status();
      part = WithConstant(call, *condition, *constant, function, true);
    } else if (std::holds_alternative<Zeros>(*call.inputs[k + 1]) && FitBeside(call, k + 1, *condition)) {
      part = WithNumber(call, *condition, function, 0, true);
    } else {
      part = Pair(FlowOf(call, k + 1), *condition, function);
    }
    if (!part.ok()) return part;
    parts[k] = std::get<Flow>(*std::move(part));
  }
  return Pair(parts[0], parts[1], MapFunction::kAdd);
}

Lowering::Result Lowering::Pair(absl::StatusOr<Flow> a, absl::StatusOr<Flow> b, MapFunction function) {
  if (!a.ok()) return a.status();
  if (!b.ok()) return b.status();
  if (!IsFloating(a->type) || !IsFloating(b->type)) {
    return BadFile("computes with integers; only tables are looked up by them");
  }
  a = AtStepsOf(*b, *a);
  if (a.ok()) b = AtStepsOf(*a, *b);
  if (!a.ok() || !b.ok()) return a.ok() ? b.status() : a.status();
  const bool of_row[] = {IsOfRow(*a), IsOfRow(*b)};
  const auto widen = [](Layout& layout, size_t rank) {
    while (layout.rank() < rank) layout.axes().insert(layout.axes().begin(), LayoutAxis{});
  };
  widen(a->layout, b->layout.rank());
  widen(b->layout, a->layout.rank());
  // One step or row for all of the others, which no request brings.
  const auto is_one = [this](int symbol) { return symbols_.SizeOf(symbol) == 1; };
  Layout made = a->layout;
  std::vector<int64_t> places_a = {0}, places_b = {0};
  for (size_t axis = 0; axis < made.rank(); ++axis) {
    const std::optional<int64_t> size_a = a->layout.FeatureSize(axis), size_b = b->layout.FeatureSize(axis);
    const std::optional<int> symbol_a = a->layout.SymbolOf(axis), symbol_b = b->layout.SymbolOf(axis);
    const bool repeats_a = of_row[0] && size_a == 1 && symbol_b && AreSteps(*symbol_b);  // at every step the same
    const bool repeats_b = of_row[1] && size_b == 1 && symbol_a && AreSteps(*symbol_a);
    const bool fits =
        repeats_a || repeats_b ||
        (size_a && size_b       ? *size_a == *size_b || *size_a == 1 || *size_b == 1
         : symbol_a && symbol_b ? is_one(*symbol_a) == is_one(*symbol_b) && symbols_.Unify(*symbol_a, *symbol_b)
                                : Equal(symbols_, a->layout.SizeOfAxis(axis), b->layout.SizeOfAxis(axis)));
    if (!fits) {
      if (size_a) WantAsFeatures(b->layout, axis);
      if (size_b) WantAsFeatures(a->layout, axis);
      return BadFile(absl::StrCat("joins ", a->layout.Text(symbols_), " and ", b->layout.Text(symbols_),
                                  ", of which one has steps or rows that the other has not, or in another order"));
    }
    if (repeats_a || (size_a && size_b && *size_a == 1)) made.axes()[axis] = b->layout.axes()[axis];
    const std::vector<int64_t> own_a = Layout({a->layout.axes()[axis]}).Places();
    const std::vector<int64_t> own_b = Layout({b->layout.axes()[axis]}).Places();
    const size_t count = std::max(own_a.size(), own_b.size());
    if (static_cast<int64_t>(places_a.size() * count) > FlowGraph::kMaxWidth) return BadFile("gives too many numbers");
    std::vector<int64_t> more_a, more_b;
    for (size_t k = 0; k < places_a.size(); ++k) {
      for (size_t j = 0; j < count; ++j) {
        more_a.push_back(places_a[k] + own_a[own_a.size() == 1 ? 0 : j]);
        more_b.push_back(places_b[k] + own_b[own_b.size() == 1 ? 0 : j]);
      }
    }
    places_a = std::move(more_a);
    places_b = std::move(more_b);
  }
  const absl::StatusOr<int> node_a = flows_.Select(a->node, std::move(places_a));
  if (!node_a.ok()) return node_a.status();
  const absl::StatusOr<int> node_b = flows_.Select(b->node, std::move(places_b));
  if (!node_b.ok()) return node_b.status();
  Flow result = {-1, made.Canonical(), a->type};
  absl::StatusOr<int> node =
      flows_.AddOp({.kind = MapOpKind::kBinary, .function = function, .in = {*node_a, *node_b}}, result.layout.width());
  if (!node.ok()) return node.status();
  result.node = *node;
  return result;
}

Lowering::Result Lowering::Function(const Call& call) {
  if (std::optional<Result> lengths = ArithmeticOfLengths(call)) return *std::move(lengths);
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const std::string& op_type = call.node.op_type();
  MapOp op = {.kind = MapOpKind::kUnary, .function = FunctionOf(op_type)};
  if (op_type == "LeakyRelu") op.alpha = FloatOf(call, "alpha", 0.01F);
  if (op_type == "Elu" || op_type == "Swish") op.alpha = FloatOf(call, "alpha", 1);
  if (op_type == "Selu") {
    op.alpha = FloatOf(call, "alpha", 1.67326319217681884765625);
    op.beta = FloatOf(call, "gamma", 1.05070102214813232421875);
  }
  if (op_type == "HardSigmoid") {
    op.alpha = FloatOf(call, "alpha", 0.2F);
    op.beta = FloatOf(call, "beta", 0.5);
  }
  if (op_type == "HardSwish") {
    op.alpha = 1.0 / 6;
    op.beta = 0.5;
  }
  if (op_type == "Gelu") {
    const onnx::AttributeProto* approximate = FindAttribute(call.node, "approximate");
    if (approximate != nullptr && approximate->s() == "tanh") op.function = MapFunction::kGeluTanh;
  }
  if (op_type == "Clip") {
    op.alpha = FloatOf(call, "min", -std::numeric_limits<float>::infinity());
    op.beta = FloatOf(call, "max", std::numeric_limits<float>::infinity());
    for (size_t k = 1; k <= 2; ++k) {
      if (!Has(call, k)) continue;
      const absl::StatusOr<OnnxTensor> bound = Value(call, k);
      if (!bound.ok()) return bound.status();
      const absl::StatusOr<std::vector<double>> number = Doubles(*bound, "bound");
      if (!number.ok()) return number.status();
      if (number->size() != 1) return BadFile("has a bound that is not one number");
      (k == 1 ? op.alpha : op.beta) = number->front();
    }
    op.alpha = std::min(op.alpha, op.beta);  // bounds that cross: all numbers are `max`
    if (IsInteger(*flow)) {
      const DataType type = flow->type;
      flow = AsNumbers(*flow, OnnxTensor());
      if (flow.ok()) flow = Unary(*flow, std::move(op));
      if (!flow.ok()) return flow.status();
      return AsIntegers(*std::move(flow), type);
    }
  }
  absl::StatusOr<Flow> made = Unary(*flow, std::move(op));
  if (!made.ok()) return made.status();
  if (op_type != "HardSwish") return *std::move(made);
  absl::StatusOr<int> node =
      flows_.AddOp({.kind = MapOpKind::kBinary, .function = MapFunction::kMultiply, .in = {flow->node, made->node}},
                   flow->layout.width());
  if (!node.ok()) return node.status();
  made->node = *node;
  return *std::move(made);
}

// max(x, 0) + slope * min(x, 0)
Lowering::Result Lowering::PRelu(const Call& call) {
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  if (!Has(call, 1)) return BadFile("has no slope");
  const absl::StatusOr<OnnxTensor> slope = Value(call, 1);
  if (!slope.ok()) return slope.status();
  absl::StatusOr<Flow> above = Unary(*flow, {.function = MapFunction::kRelu});
  if (!above.ok()) return above.status();
  const absl::StatusOr<Flow> below =
      Unary(*flow, {.function = MapFunction::kClip, .alpha = -std::numeric_limits<double>::infinity(), .beta = 0});
  if (!below.ok()) return below.status();
  Result scaled = WithConstant(call, *below, *slope, MapFunction::kMultiply, false);
  if (!scaled.ok()) return scaled;
  Flow& made = std::get<Flow>(*scaled);
  const absl::StatusOr<int> node = flows_.AddOp(
      {.kind = MapOpKind::kBinary, .function = MapFunction::kAdd, .in = {above->node, made.node}}, made.layout.width());
  if (!node.ok()) return node.status();
  made.node = *node;
  return scaled;
}

absl::StatusOr<Flow> Lowering::Binary(MapFunction function, const Flow& a, const Flow& b) {
  const absl::StatusOr<int> node =
      flows_.AddOp({.kind = MapOpKind::kBinary, .function = function, .in = {a.node, b.node}}, a.layout.width());
  if (!node.ok()) return node.status();
  Flow made = a;
  made.node = *node;
  return made;
}

// Mish: x * tanh(softplus(x)). Celu: alpha * elu(x / alpha). Erfc: 1 - erf(x). ThresholdedRelu: x above alpha, else 0.
Lowering::Result Lowering::Composed(const Call& call) {
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  if (IsOnnxOp(call.node, "Erfc")) {
    return WithNumber(call, Unary(*flow, {.function = MapFunction::kErf}), MapFunction::kSubtract, 1, true);
  }
  if (IsOnnxOp(call.node, "ThresholdedRelu")) {
    Result above = WithNumber(call, flow, MapFunction::kGreater, FloatOf(call, "alpha", 1));
    if (!above.ok()) return above;
    return Pair(flow, std::get<Flow>(*above), MapFunction::kWhere);
  }
  if (IsOnnxOp(call.node, "Celu")) {
    const double alpha = FloatOf(call, "alpha", 1);
    if (alpha == 0) return BadFile("has alpha 0");
    Result inner = WithNumber(call, flow, MapFunction::kDivide, alpha);
    if (!inner.ok()) return inner;
    return WithNumber(call, Unary(std::get<Flow>(*inner), {.function = MapFunction::kElu, .alpha = 1}),
                      MapFunction::kMultiply, alpha);
  }
  absl::StatusOr<Flow> gate = Unary(*flow, {.function = MapFunction::kSoftplus});
  if (gate.ok()) gate = Unary(*gate, {.function = MapFunction::kTanh});
  if (gate.ok()) gate = Binary(MapFunction::kMultiply, *gate, *flow);
  if (!gate.ok()) return gate.status();
  return *std::move(gate);
}

}  // namespace rnnserve
