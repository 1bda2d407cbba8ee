// SPDX-License-Identifier: Apache-2.0
// Nodes that only move numbers or axes, or compute sizes.
#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/fold_call.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {

Lowering::Result Lowering::Identity(const Call& call) { return *call.inputs.at(0); }

Lowering::Result Lowering::Dropout(const Call& call) {
  if (!Has(call, 2)) return *call.inputs.at(0);
  const Scope::Definition* mode = scope_->Find(call.node.input(2));
  const onnx::AttributeProto* constant = mode->node == nullptr ? nullptr : FindAttribute(*mode->node, "value");
  const onnx::TensorProto* tensor = constant == nullptr ? mode->tensor : &constant->t();
  if (tensor != nullptr && BooleanOf(*tensor) == false) return *call.inputs.at(0);
  return BadFile("may leave numbers out at random (training_mode); export the model in evaluation mode");
}

Lowering::Result Lowering::ShapeOf(const Call& call) {
  if (std::holds_alternative<Zeros>(*call.inputs[0])) return StateSizes{};
  if (const auto* list = std::get_if<Sizes>(call.inputs[0])) {
    return Sizes{.list = {Size(static_cast<int64_t>(list->list.size()))}};
  }
  absl::StatusOr<Flow> flow = Flow{};
  if (const std::optional<Lengths> lengths = LengthsOf(call, 0)) {
    flow->layout = lengths->layout;
  } else if (std::holds_alternative<RowOrder>(*call.inputs[0])) {
    flow->layout = Layout::OfSymbol(Symbols::kN);
  } else {
    flow = FlowOf(call, 0);
    if (!flow.ok()) return flow.status();
  }
  const auto rank = static_cast<int64_t>(flow->layout.rank());
  const int64_t first = Clamped(IntOf(call, "start", 0), rank), end = Clamped(IntOf(call, "end", rank), rank);
  Sizes sizes;
  for (int64_t axis = first; axis < end; ++axis)
    sizes.list.push_back(flow->layout.SizeOfAxis(static_cast<size_t>(axis)));
  return sizes;
}

Lowering::Result Lowering::Move(const Call& call) {
  if (!Has(call, 0)) return BadFile("has no input 0");
  if (std::holds_alternative<RepeatedRows>(*call.inputs[0])) return *call.inputs[0];  // as many numbers, in their order
  if (std::holds_alternative<Zeros>(*call.inputs[0])) return Zeros{};
  if (const auto* sizes = std::get_if<Sizes>(call.inputs[0])) {
    Sizes moved = *sizes;
    moved.is_scalar = IsOnnxOp(call.node, "Squeeze");
    return moved;
  }
  if (const auto* last = std::get_if<LastPlace>(call.inputs[0])) {
    return LastPlace{last->symbol, IsOnnxOp(call.node, "Squeeze")};
  }
  if (const auto* input = std::get_if<GraphInput>(call.inputs[0]);
      input != nullptr && IsOnnxOp(call.node, "Unsqueeze") && IsStateOfLayer(call.node.output(0)) &&
      graph_.input(static_cast<int>(input->input)).type().tensor_type().shape().dim_size() == 2) {
    const absl::StatusOr<std::optional<std::vector<int64_t>>> axes = Ints(call, "axes", 1);
    if (axes.ok() && *axes == std::vector<int64_t>{0}) return *input;  // [N, H] of one layer and direction
  }
  if (std::optional<Lengths> lengths = LengthsOf(call, 0)) {
    if (absl::Status moved = MoveAxes(call, lengths->layout); !moved.ok()) return moved;
    return *std::move(lengths);
  }
  if (const auto* counting = std::get_if<Counting>(call.inputs[0])) {
    Counting made = *counting;
    if (absl::Status moved = MoveAxes(call, made.layout); !moved.ok()) return moved;
    return made;
  }
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  if (IsOnnxOp(call.node, "Squeeze")) {
    const absl::StatusOr<std::optional<std::vector<int64_t>>> list = Ints(call, "axes", 1);
    if (!list.ok()) return list.status();
    for (const int64_t named : list->value_or(std::vector<int64_t>())) {  // one step is the last one
      const absl::StatusOr<size_t> axis = AxisOf(named, flow->layout.rank());
      const std::optional<int> symbol = axis.ok() ? flow->layout.SymbolOf(*axis) : std::nullopt;
      if (!symbol || symbols_.Find(*symbol) != Symbols::kT || symbols_.SizeOf(*symbol) != 1) continue;
      Result last = Step(call, *flow, *axis, -1, true);
      if (!last.ok()) return last;
      flow = std::get<Flow>(*std::move(last));
    }
  }
  if (absl::Status moved = MoveAxes(call, flow->layout); !moved.ok()) return moved;
  return *std::move(flow);
}

absl::Status Lowering::MoveAxes(const Call& call, Layout& layout) {
  if (IsOnnxOp(call.node, "Reshape")) {
    const absl::StatusOr<Sizes> shape = SizesOf(call, 1);
    if (!shape.ok()) return shape.status();
    return layout.Reshape(symbols_, shape->list, IntOf(call, "allowzero", 0) != 0);
  }
  if (IsOnnxOp(call.node, "Flatten")) {
    const absl::StatusOr<size_t> axis = AxisOf(IntOf(call, "axis", 1), layout.rank() + 1);
    if (!axis.ok()) return axis.status();
    Size first;
    for (size_t k = 0; k < *axis; ++k) {
      const Size next = layout.SizeOfAxis(k);
      first.factor *= next.factor;
      first.symbols.insert(first.symbols.end(), next.symbols.begin(), next.symbols.end());
    }
    return layout.Reshape(symbols_, {first, Size(-1)}, false);
  }
  const bool turns = IsOnnxOp(call.node, "Transpose");
  const absl::StatusOr<std::optional<std::vector<int64_t>>> list = Ints(call, turns ? "perm" : "axes", 1);
  if (!list.ok()) return list.status();
  if (turns) return layout.Transpose(*list);
  if (IsOnnxOp(call.node, "Squeeze")) {
    for (const int64_t named : list->value_or(std::vector<int64_t>())) {
      if (const absl::StatusOr<size_t> axis = AxisOf(named, layout.rank()); axis.ok()) WantAsFeatures(layout, *axis);
    }
    return layout.Squeeze(symbols_, *list);
  }
  if (!*list) return BadFile("names no axes");
  return layout.Unsqueeze(**list);
}

// Sizes that are not -1, as torch's expand(-1, n, -1) asks and chooses.
std::optional<Lowering::Result> Lowering::CompareSizes(const Call& call) {
  const auto is_sizes = [](const GraphValue* value) { return std::holds_alternative<Sizes>(*value); };
  if (!IsOnnxOp(call.node, "Equal") || std::ranges::none_of(call.inputs, is_sizes)) return std::nullopt;
  const absl::StatusOr<Sizes> a = SizesOf(call, 0), b = SizesOf(call, 1);
  if (!a.ok()) return Result(a.status());
  if (!b.ok()) return Result(b.status());
  if (a->list.size() != b->list.size()) return BadFile("compares lists of sizes that are not as long");
  Sizes made;
  for (size_t k = 0; k < a->list.size(); ++k) {
    const Size &one = a->list[k], &other = b->list[k];
    const bool are_equal = Equal(symbols_, one, other);
    const bool is_negative = (one.is_constant() && one.factor < 0) || (other.is_constant() && other.factor < 0);
    if (!are_equal && !is_negative && !(one.is_constant() && other.is_constant())) {
      return BadFile("compares how many steps or rows there are with a number");
    }
    made.list.emplace_back(are_equal ? 1 : 0);
  }
  return Result(std::move(made));
}

std::optional<Lowering::Result> Lowering::ChooseSizes(const Call& call) {
  if (!std::holds_alternative<Sizes>(*call.inputs[0])) return std::nullopt;
  const absl::StatusOr<Sizes> chosen = SizesOf(call, 0), a = SizesOf(call, 1), b = SizesOf(call, 2);
  if (!a.ok()) return Result(a.status());
  if (!b.ok()) return Result(b.status());
  const size_t count = chosen->list.size();
  if (a->list.size() != count || b->list.size() != count) return BadFile("chooses of lists that are not as long");
  Sizes made;
  for (size_t k = 0; k < count; ++k) made.list.push_back(chosen->list[k].factor != 0 ? a->list[k] : b->list[k]);
  return Result(std::move(made));
}

// Of sizes it repeats one; of zeros it makes more of them; of a constant it makes a state of all rows; of flows it may
// only leave them as they are.
Lowering::Result Lowering::Expand(const Call& call) {
  if (!Has(call, 0)) return BadFile("has no input 0");
  if (std::optional<Result> lengths = ExpandLengths(call)) return *std::move(lengths);
  if (std::holds_alternative<Zeros>(*call.inputs[0]) || std::holds_alternative<RepeatedRows>(*call.inputs[0])) {
    return *call.inputs[0];
  }
  if (const auto* sizes = std::get_if<Sizes>(call.inputs[0]); sizes != nullptr && sizes->list.size() == 1) {
    Sizes repeated = *sizes;
    repeated.repeats = true;
    return repeated;
  }
  if (IsFixed(call, 0)) {
    const absl::StatusOr<OnnxTensor> value = Value(call, 0);
    if (!value.ok()) return value.status();
    if (AllZero(value->view.data)) return Zeros{};
    const Shape& dims = value->view.shape;  // but the last
    const bool has_rows = dims.size() > 1 && std::count(dims.begin(), dims.end() - 1, 1) + 2 < std::ssize(dims);
    if (!has_rows && !dims.empty() && IsFloating(value->view.type)) return RepeatedRows{call.node.input(0)};
    return BadFile("repeats numbers that the file fixes, and not zeros, over rows or steps; make it an input");
  }
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<Sizes> shape = SizesOf(call, 1);
  if (!shape.ok()) return shape.status();
  absl::StatusOr<Flow> made = *flow;
  const bool same_rank = shape->list.size() == flow->layout.rank(), is_tile = IsOnnxOp(call.node, "Tile");
  for (size_t k = 0; k < shape->list.size() && made.ok(); ++k) {
    const Size& wanted = shape->list[k];
    const Size one(1);
    if (Equal(symbols_, wanted, one) ||
        (same_rank && !is_tile && Equal(symbols_, wanted, flow->layout.SizeOfAxis(k)))) {
      continue;
    }
    const std::optional<int> own = same_rank && !is_tile ? made->layout.SymbolOf(k) : std::nullopt;
    if (own && wanted.is_constant() && symbols_.SizeOf(*own) == wanted.factor) continue;
    const bool is_symbol = same_rank && wanted.factor == 1 && wanted.symbols.size() == 1;
    // A mask [N, T, 1] to the shape of y.
    const auto is_one = [this](int symbol) { return symbols_.SizeOf(symbol) == 1; };
    if (own && is_symbol && (IsOfRow(*flow) || is_one(*own) == is_one(wanted.symbols[0])) &&
        symbols_.Unify(*own, wanted.symbols[0])) {
      continue;
    }
    if (is_symbol && AreSteps(wanted.symbols[0]) && made->layout.FeatureSize(k) == 1 && IsOfRow(*made)) {
      made = AtEachStep(*std::move(made), k, wanted.symbols[0]);
      continue;
    }
    const int64_t size = same_rank ? flow->layout.FeatureSize(k).value_or(0) : 0;
    const bool can_be_repeated = size == 1 || (size > 1 && is_tile);
    if (!can_be_repeated || !wanted.is_constant() || wanted.factor < 1 || wanted.factor > FlowGraph::kMaxWidth / size) {
      return BadFile(
          "repeats numbers over another axis; numbers of a step can be repeated, as more of that step, and what "
          "requests bring of each row, [N, K], over the steps");
    }
    std::vector<int64_t> places(static_cast<size_t>(wanted.factor * size));
    for (size_t place = 0; place < places.size(); ++place) places[place] = static_cast<int64_t>(place) % size;
    const Flow record = *made;
    made = SelectOfAxis(record, k, places);
    if (made.ok() && size == 1 && IsOfRow(record)) repeated_.insert_or_assign(made->node, Repeated{record, k});
  }
  if (!made.ok()) return made.status();
  return *std::move(made);
}

Lowering::Result Lowering::ConstantOfShape(const Call& call) {
  const onnx::AttributeProto* attribute = FindAttribute(call.node, "value");
  if (attribute == nullptr) return Zeros{};
  const absl::StatusOr<OnnxTensor> value = constants_.Stored(attribute->t());
  if (!value.ok()) return value.status();
  if (value->view.type == DataType::kInt64 && NumElements(value->view.shape) == 1 && IntAt(value->view, 0) != 0) {
    const absl::StatusOr<Sizes> count = SizesOf(call, 0);  // a list of sizes
    if (count.ok() && count->list.size() == 1 && count->list[0].is_constant() && count->list[0].factor > 0 &&
        count->list[0].factor <= static_cast<int64_t>(kMaxSizes)) {
      return Sizes{.list = std::vector<Size>(static_cast<size_t>(count->list[0].factor), Size(IntAt(value->view, 0)))};
    }
  }
  if (AllZero(value->view.data)) return Zeros{};
  if (IsFixed(call, 0)) return Fixed{};
  return BadFile("makes numbers that are not zero; only zero states are made in a file");
}

// ReduceProd, of sizes alone: TensorFlow's Tensordot joins steps and rows by it.
Lowering::Result Lowering::ProductOfSizes(const Call& call) {
  if (std::holds_alternative<Flow>(*call.inputs[0])) {
    return BadFile(
        "multiplies the numbers along an axis with one another; sums, means and extremes along it can be computed, and "
        "products of parts of it (PyTorch: y[..., 0] * y[..., 1])");
  }
  const absl::StatusOr<Sizes> sizes = SizesOf(call, 0);
  if (!sizes.ok()) return sizes.status();
  Size product;
  for (const Size& size : sizes->list) {
    if (__builtin_mul_overflow(product.factor, size.factor, &product.factor) || product.symbols.size() > kMaxSizes) {
      return BadFile("multiplies sizes beyond all bounds");
    }
    product.symbols.insert(product.symbols.end(), size.symbols.begin(), size.symbols.end());
  }
  return Sizes{.list = {product}, .is_scalar = IntOf(call, "keepdims", 1) == 0};
}

}  // namespace rnnserve
