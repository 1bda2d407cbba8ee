// SPDX-License-Identifier: Apache-2.0
// Nodes that compute numbers of a step.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/fold_call.h"
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

absl::StatusOr<Flow> Lowering::AlongLast(const Flow& flow, int64_t axis, int64_t& inner) {
  const absl::StatusOr<size_t> place = AxisOf(axis, flow.layout.rank());
  if (!place.ok()) return place.status();
  const std::optional<int64_t> size = flow.layout.FeatureSize(*place);
  if (!size) {
    return BadFile(absl::StrCat("goes along axis ", *place, " of ", flow.layout.Text(symbols_),
                                ", which are steps or rows: it looks along time"));
  }
  if (*place + 1 != flow.layout.rank()) {
    return BadFile(absl::StrCat("goes along axis ", *place, " of ", flow.layout.Text(symbols_),
                                "; only the last axis is supported"));
  }
  if (!IsFloating(flow.type)) return BadFile("computes with integers; only tables are looked up by them");
  inner = *size;
  return flows_.Canonical(flow);
}

// A table with a row of numbers for each integer.
Lowering::Result Lowering::Lookup(const Call& call, const OnnxTensor& table) {
  if (!IsFloating(table.view.type) || table.view.shape.size() < 1 || IntOf(call, "axis", 0) != 0) {
    return BadFile("looks up something else than rows of a table of numbers");
  }
  absl::StatusOr<Flow> index = FlowOf(call, 1);
  if (!index.ok()) return index.status();
  if (IsFloating(index->type)) return BadFile("looks a table up by numbers that are no integers");
  index = flows_.Canonical(*index);
  if (!index.ok()) return index.status();
  const int64_t entries = table.view.shape[0];
  int64_t each = 1;
  for (size_t k = 1; k < table.view.shape.size(); ++k) each *= table.view.shape[k];
  if (entries < 1 || each < 1 || each > FlowGraph::kMaxWidth) return BadFile("has an empty table, or one too wide");
  const auto wrapped = wrapped_.find(call.node.input(1));
  if (wrapped != wrapped_.end() && wrapped->second != entries) {
    return BadFile(absl::StrCat("looks up a table of ", entries, " by places that are counted from ", wrapped->second));
  }
  const FlowNode& source = flows_.at(index->node);
  if (source.kind == FlowNode::Kind::kInput) {
    int64_t& least = inputs_[source.input].entries;
    least = least == 0 ? entries : std::min(least, entries);
  } else if (source.limit == 0 || source.limit > entries) {
    return BadFile("looks a table up by integers that are computed; only those of a request can be checked");
  }
  const absl::StatusOr<std::vector<double>> values = Doubles(table, "table");
  if (!values.ok()) return values.status();
  const absl::StatusOr<MapNumbersPtr> numbers = Numbers(*values);
  if (!numbers.ok()) return numbers.status();
  Flow made = {-1, index->layout, table.view.type};
  for (size_t k = 1; k < table.view.shape.size(); ++k) {
    made.layout.axes().push_back({{.size = table.view.shape[k]}});
  }
  made.layout = made.layout.Canonical();
  absl::StatusOr<int> node =
      flows_.AddOp({.kind = MapOpKind::kLookup, .in = {index->node}, .a = *numbers}, made.layout.width());
  if (!node.ok()) return node.status();
  made.node = *node;
  return made;
}

Lowering::Result Lowering::Product(const Flow& given, const OnnxTensor& weights, bool transposed, double factor) {
  const Shape& shape = weights.view.shape;
  const size_t rank = shape.size();
  if (!IsFloating(weights.view.type) || rank < 2 ||
      std::any_of(shape.begin(), shape.end() - 2, [](int64_t dim) { return dim != 1; })) {
    return BadFile(absl::StrCat("multiplies by ", ShortShape(shape), ", which is no matrix of numbers"));
  }
  int64_t inner = 0;
  absl::StatusOr<Flow> flow = AlongLast(given, -1, inner);
  if (!flow.ok()) return flow.status();
  const int64_t from = shape[rank - (transposed ? 1 : 2)], columns = shape[rank - (transposed ? 2 : 1)];
  if (from != inner || columns < 1 || inner < 1) {
    return BadFile(absl::StrCat("multiplies ", inner, " numbers by a matrix ", ShortShape(shape)));
  }
  absl::StatusOr<std::vector<double>> values = Doubles(weights, "weights");
  if (!values.ok()) return values.status();
  if (transposed) {
    const std::vector<double> before = *values;
    for (int64_t row = 0; row < columns; ++row) {
      for (int64_t k = 0; k < inner; ++k)
        (*values)[static_cast<size_t>(k * columns + row)] = before[static_cast<size_t>(row * inner + k)];
    }
  }
  if (factor != 1) std::ranges::for_each(*values, [factor](double& value) { value *= factor; });
  const absl::StatusOr<MapNumbersPtr> numbers = Numbers(*values);
  if (!numbers.ok()) return numbers.status();
  Flow made = *flow;
  made.layout.axes().back() = {{.size = columns}};
  made.layout = made.layout.Canonical();
  absl::StatusOr<int> node = flows_.AddOp(
      {.kind = MapOpKind::kProduct, .in = {flow->node}, .a = *numbers, .inner = inner}, made.layout.width());
  if (!node.ok()) return node.status();
  made.node = *node;
  return made;
}

Lowering::Result Lowering::MatMul(const Call& call) {
  if (!IsFixed(call, 1)) {
    return BadFile("multiplies by a matrix that the file does not fix (attention, or weights that are computed)");
  }
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<OnnxTensor> weights = Value(call, 1);
  if (!weights.ok()) return weights.status();
  return Product(*flow, *weights, false, 1);
}

Lowering::Result Lowering::Gemm(const Call& call) {
  if (IntOf(call, "transA", 0) != 0) return BadFile("has transA");
  if (!IsFixed(call, 1)) return BadFile("multiplies by a matrix that the file does not fix");
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<OnnxTensor> weights = Value(call, 1);
  if (!weights.ok()) return weights.status();
  Result product = Product(*flow, *weights, IntOf(call, "transB", 0) != 0, FloatOf(call, "alpha", 1));
  const double beta = FloatOf(call, "beta", 1);
  if (!product.ok() || !Has(call, 2) || beta == 0) return product;
  if (beta != 1) return BadFile("has beta that is neither 0 nor 1");
  const absl::StatusOr<OnnxTensor> bias = Value(call, 2);
  if (!bias.ok()) return bias.status();
  return WithConstant(call, std::get<Flow>(*product), *bias, MapFunction::kAdd, false);
}

Lowering::Result Lowering::PointwiseConv(const Call& call) {
  const absl::StatusOr<OnnxTensor> stored = Value(call, 1);
  if (!stored.ok()) return stored.status();
  const Shape& shape = stored->view.shape;
  const auto all = [&](std::string_view name, int64_t wanted) {
    const onnx::AttributeProto* list = FindAttribute(call.node, name);
    return list == nullptr || std::ranges::all_of(list->ints(), [wanted](int64_t value) { return value == wanted; });
  };
  if (shape.size() < 3 || std::any_of(shape.begin() + 2, shape.end(), [](int64_t size) { return size != 1; }) ||
      !all("strides", 1) || !all("pads", 0) || IntOf(call, "group", 1) != 1) {
    return BadFile(absl::StrCat("is a convolution ", ShortShape(shape),
                                " that looks at several steps, or skips some; only one with a kernel of size 1, in "
                                "one group, without strides and pads looks at one step alone"));
  }
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const size_t rank = flow->layout.rank();
  if (rank != shape.size() || flow->layout.FeatureSize(1) != shape[1]) {
    return BadFile(absl::StrCat("takes ", flow->layout.Text(symbols_), ", not [N, ", shape[1], ", T]"));
  }
  // The channels go last and back again.
  std::vector<int64_t> there = {0}, back = {0, static_cast<int64_t>(rank) - 1};
  for (size_t axis = 2; axis < rank; ++axis) {
    there.push_back(static_cast<int64_t>(axis));
    back.push_back(static_cast<int64_t>(axis) - 1);
  }
  there.push_back(1);
  if (absl::Status moved = flow->layout.Transpose(there); !moved.ok()) return moved;
  OnnxTensor weights = *stored;
  weights.view.shape = {shape[0], shape[1]};
  Result result = Product(*flow, weights, true, 1);
  if (result.ok() && Has(call, 2)) {
    const absl::StatusOr<OnnxTensor> bias = Value(call, 2);
    if (!bias.ok()) return bias.status();
    result = WithConstant(call, std::get<Flow>(*result), *bias, MapFunction::kAdd, false);
  }
  if (!result.ok()) return result;
  if (absl::Status moved = std::get<Flow>(*result).layout.Transpose(back); !moved.ok()) return moved;
  return result;
}

// The constant's numbers for each number of the flow, in the flow's own order. `widened`: the flow's layout where the
// constant has more axes.
absl::StatusOr<MapNumbersPtr> Lowering::Spread(const Flow& flow, const OnnxTensor& constant, Layout& widened) {
  Shape shape = constant.view.shape;
  widened = flow.layout;
  while (widened.rank() < shape.size() && shape[0] == 1) shape.erase(shape.begin());
  const size_t skipped = constant.view.shape.size() - shape.size();
  if (widened.rank() < shape.size()) {
    return BadFile(
        absl::StrCat("computes with ", ShortShape(shape), " of more axes than ", flow.layout.Text(symbols_)));
  }
  const absl::StatusOr<std::vector<double>> values = Doubles(constant, "constant");
  if (!values.ok()) return values.status();
  // Where in the constant the number at each place of the flow lies.
  std::vector<int64_t> places = {0}, sources = {0};
  const size_t missing = widened.rank() - shape.size();
  int64_t stride = 1;
  std::vector<int64_t> strides(shape.size());
  for (size_t k = shape.size(); k-- > 0; stride *= shape[k]) strides[k] = stride;
  for (size_t axis = 0; axis < widened.rank(); ++axis) {
    const int64_t dim = axis < missing ? 1 : shape[axis - missing];
    const std::optional<int64_t> size = widened.FeatureSize(axis);
    if (dim != 1 && dim != size) {
      return BadFile(absl::StrCat("computes with ", ShortShape(constant.view.shape),
                                  ", which has other numbers for "
                                  "different steps or rows, or does not fit ",
                                  flow.layout.Text(symbols_)));
    }
    const int64_t step = dim == 1 ? 0 : strides[axis - missing];
    const std::vector<int64_t> own = Layout({widened.axes()[axis]}).Places();
    std::vector<int64_t> more_places, more_sources;
    for (size_t k = 0; k < places.size(); ++k) {
      for (size_t j = 0; j < own.size(); ++j) {
        more_places.push_back(places[k] + own[j]);
        more_sources.push_back(sources[k] + static_cast<int64_t>(j) * step);
      }
    }
    places = std::move(more_places);
    sources = std::move(more_sources);
  }
  std::vector<double> spread(places.size());
  made_bytes_ += static_cast<int64_t>(places.size() * sizeof(double));
  for (size_t k = 0; k < places.size(); ++k) {
    spread[static_cast<size_t>(places[k])] = (*values)[static_cast<size_t>(sources[k])];
  }
  for (size_t k = 0; k < skipped; ++k) widened.axes().insert(widened.axes().begin(), LayoutAxis{});
  return Numbers(spread);
}

Lowering::Result Lowering::WithConstant(const Call&, const Flow& flow, const OnnxTensor& constant, MapFunction function,
                                        bool reversed) {
  Flow made = flow;
  const absl::StatusOr<MapNumbersPtr> numbers = Spread(flow, constant, made.layout);
  if (!numbers.ok()) return numbers.status();
  absl::StatusOr<Flow> result =
      Unary(flow, {.kind = MapOpKind::kConstant, .function = function, .a = *numbers, .reversed = reversed});
  if (!result.ok()) return result.status();
  result->layout = std::move(made.layout);
  return *std::move(result);
}

namespace {

MapFunction FunctionOf(std::string_view op_type) {
  static const std::unordered_map<std::string_view, MapFunction> functions = {
      {"Add", MapFunction::kAdd},
      {"Sub", MapFunction::kSubtract},
      {"Mul", MapFunction::kMultiply},
      {"Div", MapFunction::kDivide},
      {"Pow", MapFunction::kPower},
      {"Max", MapFunction::kMaximum},
      {"Min", MapFunction::kMinimum},
      {"Relu", MapFunction::kRelu},
      {"Tanh", MapFunction::kTanh},
      {"Sigmoid", MapFunction::kSigmoid},
      {"Exp", MapFunction::kExp},
      {"Log", MapFunction::kLog},
      {"Sqrt", MapFunction::kSqrt},
      {"Neg", MapFunction::kNegative},
      {"Abs", MapFunction::kAbsolute},
      {"Reciprocal", MapFunction::kReciprocal},
      {"Softplus", MapFunction::kSoftplus},
      {"Softsign", MapFunction::kSoftsign},
      {"Erf", MapFunction::kErf},
      {"Gelu", MapFunction::kGelu},
      {"LeakyRelu", MapFunction::kLeakyRelu},
      {"Elu", MapFunction::kElu},
      {"Selu", MapFunction::kSelu},
      {"HardSigmoid", MapFunction::kHardSigmoid},
      {"HardSwish", MapFunction::kHardSigmoid},
      {"Clip", MapFunction::kClip},
      {"ReduceMean", MapFunction::kMean},
      {"ReduceSum", MapFunction::kSum},
      {"ReduceMax", MapFunction::kLargest},
      {"ReduceMin", MapFunction::kSmallest}};
  return functions.at(op_type);
}

}  // namespace

Lowering::Result Lowering::Arithmetic(const Call& call) {
  const MapFunction function = FunctionOf(call.node.op_type());
  if (call.inputs.size() != 2 || !Has(call, 0) || !Has(call, 1)) return BadFile("has not two inputs");
  const auto is_sizes = [&](size_t k) { return std::holds_alternative<Sizes>(*call.inputs[k]); };
  if (is_sizes(0) || is_sizes(1)) {
    absl::StatusOr<Sizes> a = SizesOf(call, 0), b = SizesOf(call, 1);
    if (!a.ok()) return a.status();
    if (!b.ok()) return b.status();
    if (function != MapFunction::kMultiply || a->list.size() != 1 || b->list.size() != 1) {
      return BadFile("computes sizes other than by multiplying two of them");
    }
    Size& size = a->list[0];
    if (__builtin_mul_overflow(size.factor, b->list[0].factor, &size.factor) || size.symbols.size() > 16) {
      return BadFile("multiplies sizes beyond all bounds");
    }
    size.symbols.insert(size.symbols.end(), b->list[0].symbols.begin(), b->list[0].symbols.end());
    a->is_scalar &= b->is_scalar;
    return *std::move(a);
  }
  if (!IsFixed(call, 0) && !IsFixed(call, 1)) return Pair(call, function);
  const size_t fixed = IsFixed(call, 1) ? 1 : 0;
  absl::StatusOr<Flow> flow = FlowOf(call, 1 - fixed);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<OnnxTensor> constant = Value(call, fixed);
  if (!constant.ok()) return constant.status();
  return WithConstant(call, *flow, *constant, function, fixed == 0);
}

Lowering::Result Lowering::Pair(const Call& call, MapFunction function) {
  absl::StatusOr<Flow> a = FlowOf(call, 0), b = FlowOf(call, 1);
  if (!a.ok()) return a.status();
  if (!b.ok()) return b.status();
  if (!IsFloating(a->type) || !IsFloating(b->type)) {
    return BadFile("computes with integers; only tables are looked up by them");
  }
  const auto widen = [](Layout& layout, size_t rank) {
    while (layout.rank() < rank) layout.axes().insert(layout.axes().begin(), LayoutAxis{});
  };
  widen(a->layout, b->layout.rank());
  widen(b->layout, a->layout.rank());
  Layout made = a->layout;
  std::vector<int64_t> places_a = {0}, places_b = {0};
  for (size_t axis = 0; axis < made.rank(); ++axis) {
    const std::optional<int64_t> size_a = a->layout.FeatureSize(axis), size_b = b->layout.FeatureSize(axis);
    const std::optional<int> symbol_a = a->layout.SymbolOf(axis), symbol_b = b->layout.SymbolOf(axis);
    const bool fits = size_a && size_b       ? *size_a == *size_b || *size_a == 1 || *size_b == 1
                      : symbol_a && symbol_b ? symbols_.Unify(*symbol_a, *symbol_b)
                                             : Equal(symbols_, a->layout.SizeOfAxis(axis), b->layout.SizeOfAxis(axis));
    if (!fits) {
      return BadFile(absl::StrCat("joins ", a->layout.Text(symbols_), " and ", b->layout.Text(symbols_),
                                  ", of which one has steps or rows that the other has not"));
    }
    if (size_a && size_b && *size_a == 1) made.axes()[axis] = b->layout.axes()[axis];
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
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const std::string& op_type = call.node.op_type();
  MapOp op = {.kind = MapOpKind::kUnary, .function = FunctionOf(op_type)};
  if (op_type == "LeakyRelu") op.alpha = FloatOf(call, "alpha", 0.01F);
  if (op_type == "Elu") op.alpha = FloatOf(call, "alpha", 1);
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

Lowering::Result Lowering::SoftmaxOf(const Call& call) {
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  // Before opset 13 it went along all axes from `axis` on.
  MapOp op = {.kind = IsOnnxOp(call.node, "Softmax") ? MapOpKind::kSoftmax : MapOpKind::kLogSoftmax};
  absl::StatusOr<Flow> last = AlongLast(*flow, IntOf(call, "axis", opset_ < 13 ? 1 : -1), op.inner);
  if (!last.ok()) return last.status();
  absl::StatusOr<Flow> made = Unary(*last, std::move(op));
  if (!made.ok()) return made.status();
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
  if (flow->layout.rank() < 2 || flow->layout.FeatureSize(1) != static_cast<int64_t>(scale.size()) ||
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

Lowering::Result Lowering::Reduce(const Call& call) {
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<std::optional<std::vector<int64_t>>> axes = Ints(call, "axes", 1);
  if (!axes.ok()) return axes.status();
  if (!*axes || (*axes)->size() != 1) return BadFile("goes along several axes; only one at a time is supported");
  const absl::StatusOr<size_t> axis = AxisOf((**axes)[0], flow->layout.rank());
  if (!axis.ok()) return axis.status();
  const bool keeps_axis = IntOf(call, "keepdims", 1) != 0;
  const MapFunction function = FunctionOf(call.node.op_type());
  if (const std::optional<int> symbol = flow->layout.SymbolOf(*axis); symbol && symbols_.Find(*symbol) == Symbols::kT) {
    const OverTime over_time = function == MapFunction::kMean      ? OverTime::kMean
                               : function == MapFunction::kSum     ? OverTime::kSum
                               : function == MapFunction::kLargest ? OverTime::kLargest
                                                                   : OverTime::kSmallest;
    return OverTimeOf(*flow, *axis, over_time, keeps_axis);
  }
  MapOp op = {.kind = MapOpKind::kReduce, .function = function};
  flow = AlongLast(*flow, (**axes)[0], op.inner);
  if (!flow.ok()) return flow.status();
  op.in = {flow->node};
  const absl::StatusOr<int> node = flows_.AddOp(std::move(op), flow->layout.width() / *flow->layout.FeatureSize(*axis));
  if (!node.ok()) return node.status();
  flow->node = *node;
  flow->layout.axes()[*axis].clear();
  if (!keeps_axis) flow->layout.axes().erase(flow->layout.axes().begin() + static_cast<std::ptrdiff_t>(*axis));
  flow->layout = flow->layout.Canonical();
  return *std::move(flow);
}

Lowering::Result Lowering::ArgMax(const Call& call) {
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  if (IntOf(call, "select_last_index", 0) != 0) return BadFile("has select_last_index");
  const absl::StatusOr<size_t> axis = AxisOf(IntOf(call, "axis", 0), flow->layout.rank());
  if (!axis.ok()) return axis.status();
  MapOp op = {.kind = MapOpKind::kArgMax};
  flow = AlongLast(*flow, IntOf(call, "axis", 0), op.inner);
  if (!flow.ok()) return flow.status();
  op.in = {flow->node};
  const int64_t limit = op.inner;
  const absl::StatusOr<int> node = flows_.AddOp(std::move(op), flow->layout.width() / limit, true);
  if (!node.ok()) return node.status();
  flows_.nodes()[static_cast<size_t>(*node)].limit = limit;
  flow->node = *node;
  flow->type = DataType::kInt64;
  flow->layout.axes()[*axis].clear();
  if (IntOf(call, "keepdims", 1) == 0) {
    flow->layout.axes().erase(flow->layout.axes().begin() + static_cast<std::ptrdiff_t>(*axis));
  }
  flow->layout = flow->layout.Canonical();
  return *std::move(flow);
}

Lowering::Result Lowering::TopK(const Call& call) {
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<Sizes> k =
      opset_ < 10 ? absl::StatusOr<Sizes>(Sizes{.list = {Size(IntOf(call, "k", 0))}}) : SizesOf(call, 1);
  if (!k.ok()) return k.status();
  if (k->list.size() != 1 || !k->list[0].is_constant()) return BadFile("has no fixed K");
  if (IntOf(call, "largest", 1) != 1 || IntOf(call, "sorted", 1) != 1) return BadFile("is not of the largest, sorted");
  MapOp op = {.kind = MapOpKind::kTopK};
  flow = AlongLast(*flow, IntOf(call, "axis", -1), op.inner);
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
  Flow indices = *flow;
  indices.type = DataType::kInt64;
  if (absl::Status given = Give(call.node, 1, std::move(indices)); !given.ok()) return given;
  flow->node = *values;
  return *std::move(flow);
}

}  // namespace rnnserve
