// SPDX-License-Identifier: Apache-2.0
// Tables that are looked up, and products with weights.
#include <algorithm>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

// The table has the square of this number.
constexpr int64_t kMostOneHot = 1024;

}  // namespace

// A table with a row of numbers for each integer.
Lowering::Result Lowering::Lookup(const Call& call, size_t index_input, const OnnxTensor& table) {
  if (!IsFloating(table.view.type) || table.view.shape.size() < 1) {
    return BadFile("looks up something else than rows of a table of numbers");
  }
  absl::StatusOr<Flow> index = FlowOf(call, index_input);
  if (!index.ok()) return index.status();
  if (IsFloating(index->type)) {
    return BadFile(
        "looks a table up by numbers that are no integers; make them an integer input of the model, or one of ArgMax "
        "or TopK");
  }
  index = flows_.Canonical(*index);
  if (!index.ok()) return index.status();
  const int64_t entries = table.view.shape[0];
  int64_t each = 1;
  for (size_t k = 1; k < table.view.shape.size(); ++k) each *= table.view.shape[k];
  if (entries < 1 || each < 1 || each > FlowGraph::kMaxWidth) return BadFile("has an empty table, or one too wide");
  const auto wrapped = wrapped_.find(call.node.input(static_cast<int>(index_input)));
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

// A lookup in a table of `depth` rows, of which each has one number that is not as the others.
Lowering::Result Lowering::OneHot(const Call& call) {
  const absl::StatusOr<Flow> index = FlowOf(call, 0);
  if (!index.ok()) return index.status();
  const absl::StatusOr<size_t> axis = AxisOf(IntOf(call, "axis", -1), index->layout.rank() + 1);
  if (!axis.ok()) return axis.status();
  for (size_t k = 1; k <= 2; ++k) {
    if (!Has(call, k)) return BadFile("has not its three inputs");
  }
  const absl::StatusOr<OnnxTensor> depth = Value(call, 1), values = Value(call, 2);
  if (!depth.ok()) return depth.status();
  if (!values.ok()) return values.status();
  const absl::StatusOr<std::vector<double>> entries = Doubles(*depth, "depth"), off_on = Doubles(*values, "values");
  if (!entries.ok()) return entries.status();
  if (!off_on.ok()) return off_on.status();
  if (entries->size() != 1 || off_on->size() != 2) return BadFile("has not one depth and two values");
  const double count = entries->front();
  if (!(count >= 1 && count <= static_cast<double>(kMostOneHot))) {
    return BadFile(absl::StrCat("has depth ", count, "; 1 to ", kMostOneHot,
                                " are supported: of more, look up a table (Gather, an embedding) instead"));
  }
  const auto rows = static_cast<size_t>(count);
  std::vector<double> table(rows * rows, (*off_on)[0]);
  for (size_t k = 0; k < rows; ++k) table[k * rows + k] = (*off_on)[1];
  OnnxTensor made;
  made.view = {
      DataType::kDouble, {static_cast<int64_t>(rows), static_cast<int64_t>(rows)}, std::as_bytes(std::span(table))};
  Result result = Lookup(call, 0, made);
  if (!result.ok()) return result;
  Flow& flow = std::get<Flow>(*result);
  flow.type = values->view.type;
  if (!IsFloating(flow.type)) {
    const absl::StatusOr<int> node =
        flows_.AddOp({.kind = MapOpKind::kConvert, .in = {flow.node}}, flow.layout.width(), true);
    if (!node.ok()) return node.status();
    flow.node = *node;
  }
  flow.layout.MoveAxis(flow.layout.rank() - 1, *axis);
  return result;
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
  absl::StatusOr<OnnxTensor> weights = Value(call, 1);
  if (!weights.ok()) return weights.status();
  const bool is_vector = weights->view.shape.size() == 1;
  if (is_vector) weights->view.shape.push_back(1);
  Result product = Product(*flow, *weights, false, 1);
  if (product.ok() && is_vector) std::get<Flow>(*product).layout.axes().pop_back();
  return product;
}

Lowering::Result Lowering::Gemm(const Call& call) {
  if (IntOf(call, "transA", 0) != 0) return BadFile("has transA, which turns rows; transpose before or leave it out");
  if (!IsFixed(call, 1)) return BadFile("multiplies by a matrix that the file does not fix");
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<OnnxTensor> weights = Value(call, 1);
  if (!weights.ok()) return weights.status();
  Result product = Product(*flow, *weights, IntOf(call, "transB", 0) != 0, FloatOf(call, "alpha", 1));
  const double beta = FloatOf(call, "beta", 1);
  if (!product.ok() || !Has(call, 2) || beta == 0) return product;
  absl::StatusOr<OnnxTensor> bias = Value(call, 2);
  if (!bias.ok()) return bias.status();
  absl::StatusOr<std::vector<double>> scaled = Doubles(*bias, "bias");
  if (!scaled.ok()) return scaled.status();
  for (double& number : *scaled) number *= beta;
  bias->view = {DataType::kDouble, bias->view.shape, std::as_bytes(std::span(*scaled))};
  return WithConstant(call, std::get<Flow>(*product), *bias, MapFunction::kAdd, false);
}

// "ntf,fc->ntc", "cf,ntf->ntc", "...f,f->...": the last axis by weights.
Lowering::Result Lowering::Einsum(const Call& call) {
  const onnx::AttributeProto* attribute = FindAttribute(call.node, "equation");
  std::string equation = attribute == nullptr ? "" : attribute->s();
  std::erase(equation, ' ');
  const absl::Status refused = BadFile(absl::StrCat("computes ", Quoted(equation),
                                                    "; of Einsum a product of the last axis by weights is supported "
                                                    "(\"ntf,fc->ntc\")"));
  const size_t comma = equation.find(','), arrow = equation.find("->");
  const size_t fixed = IsFixed(call, 0) ? 0 : 1;
  if (call.inputs.size() != 2 || !IsFixed(call, fixed) || comma > arrow || arrow == std::string::npos) return refused;
  const std::string terms[] = {equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1)};
  std::string made = terms[1 - fixed], by = terms[fixed];
  const auto is_once = [](const std::string& term, char letter) { return std::ranges::count(term, letter) == 1; };
  if (made.empty() || !is_once(by, made.back()) || by.size() > 2) return refused;
  if (std::ranges::any_of(made, [&](char letter) { return letter != '.' && !is_once(made, letter); })) return refused;
  const bool transposed = by.size() == 2 && by.back() == made.back(), is_vector = by.size() == 1;
  std::erase(by, made.back());
  made.pop_back();
  if (equation.substr(arrow + 2) != made + by || (!is_vector && made.find(by) != std::string::npos)) return refused;
  const absl::StatusOr<Flow> flow = FlowOf(call, 1 - fixed);
  if (!flow.ok()) return flow.status();
  absl::StatusOr<OnnxTensor> weights = Value(call, fixed);
  if (!weights.ok()) return weights.status();
  if (weights->view.shape.size() != (is_vector ? 1 : 2)) return refused;
  if (is_vector) weights->view.shape.push_back(1);
  Result product = Product(*flow, *weights, transposed, 1);
  if (product.ok() && is_vector) std::get<Flow>(*product).layout.axes().pop_back();
  return product;
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
  if (rank != shape.size() || FeatureSize(flow->layout, 1) != shape[1]) {
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

}  // namespace rnnserve
