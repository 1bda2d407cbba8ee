// SPDX-License-Identifier: Apache-2.0
// Lengths of rows as numbers. No step beyond a row's end is computed, so a mask (step < length) holds for every step
// that is, and rows may be sorted by length and put back: an order of rows is an axis of its own (Symbols::kSortedN),
// which moves no number. Likewise steps that are turned round (kBackT): a layer of the other direction reads them.
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

// 0, 1, 2, ...
bool Counts(const TensorView& view) {
  if (IsFloating(view.type) || ByteSize(view.type) == 0) return false;
  const auto count = static_cast<int64_t>(view.data.size() / ByteSize(view.type));
  for (int64_t k = 0; k < count; ++k) {
    if (IntAt(view, k) != k) return false;
  }
  return true;
}

OnnxTensor NumberOf(const double& value) {
  OnnxTensor constant;
  constant.view = {DataType::kDouble, {}, std::as_bytes(std::span(&value, 1))};
  return constant;
}

}  // namespace

std::optional<Lengths> Lowering::LengthsOf(const Call& call, size_t index) {
  if (!Has(call, index)) return std::nullopt;
  if (const auto* lengths = std::get_if<Lengths>(call.inputs[index])) {
    return lengths->expanded.empty() ? std::optional(*lengths) : std::nullopt;
  }
  const auto* input = std::get_if<GraphInput>(call.inputs[index]);
  if (input == nullptr) return std::nullopt;
  const onnx::ValueInfoProto& info = graph_.input(static_cast<int>(input->input));
  const auto& tensor = info.type().tensor_type();
  const auto type = static_cast<DataType>(tensor.elem_type());
  if (!tensor.has_shape() || tensor.shape().dim_size() != 1 || (type != DataType::kInt32 && type != DataType::kInt64) ||
      LooksUp(info.name())) {
    return std::nullopt;
  }
  symbols_.Unify(Symbols::kN, symbols_.New(DimOf(info, 0)));
  return Lengths{.input = input->input, .layout = Layout::OfSymbol(Symbols::kN)};
}

std::optional<Layout> Lowering::CountingOf(const Call& call, size_t index, int symbol) {
  if (!Has(call, index)) return std::nullopt;
  if (const auto* counting = std::get_if<Counting>(call.inputs[index])) {
    for (const LayoutAxis& axis : counting->layout.axes()) {
      if (!axis.empty() && !symbols_.Unify(axis[0].symbol, symbol)) return std::nullopt;
    }
    return counting->layout;
  }
  if (!IsFixed(call, index)) return std::nullopt;
  const absl::StatusOr<OnnxTensor> value = Value(call, index);  // where the file fixes how many
  if (!value.ok() || !Counts(value->view) || symbols_.SizeOf(symbol) != NumElements(value->view.shape)) {
    return std::nullopt;
  }
  std::vector<LayoutAxis> axes(value->view.shape.size());
  const auto widest = std::ranges::max_element(value->view.shape);
  if (widest == value->view.shape.end() || *widest != NumElements(value->view.shape)) return std::nullopt;
  axes[static_cast<size_t>(widest - value->view.shape.begin())] = {{.symbol = symbol}};
  return Layout(std::move(axes));
}

Lowering::Result Lowering::Range(const Call& call) {
  if (call.inputs.size() != 3) return BadFile("has not three inputs");
  Size parts[3];
  for (size_t k = 0; k < 3; ++k) {
    const absl::StatusOr<Sizes> sizes = SizesOf(call, k);
    if (!sizes.ok()) return sizes.status();
    if (sizes->list.size() != 1) return BadFile("counts by more than one number");
    parts[k] = sizes->list[0];
  }
  const bool from_zero = Equal(symbols_, parts[0], Size(0)) && Equal(symbols_, parts[2], Size(1));
  if (!from_zero || parts[1].symbols.size() != 1 || parts[1].factor != 1) {
    return BadFile("counts something else than all steps or all rows from 0");
  }
  return Counting{Layout::OfSymbol(parts[1].symbols[0])};
}

// 1 for every step, whatever it brings.
absl::StatusOr<int> Lowering::Ones() {
  if (ones_ >= 0) return ones_;
  const auto& nodes = flows_.nodes();
  const auto input = std::ranges::find_if(
      nodes, [](const FlowNode& node) { return node.kind == FlowNode::Kind::kInput && node.per_step; });
  if (input == nodes.end()) return BadFile("takes lengths before any input brings steps");
  const bool is_integer = input->is_integer;
  absl::StatusOr<int> node = flows_.Select(static_cast<int>(input - nodes.begin()), {0});
  if (node.ok() && is_integer) node = flows_.AddOp({.kind = MapOpKind::kConvert, .in = {*node}}, 1);
  const absl::StatusOr<MapNumbersPtr> zero = Numbers({0});
  if (!node.ok()) return node.status();
  if (!zero.ok()) return zero.status();
  node = flows_.AddOp({.kind = MapOpKind::kConstant, .function = MapFunction::kPower, .in = {*node}, .a = *zero}, 1);
  if (node.ok()) ones_ = *node;
  return node;
}

Lowering::Result Lowering::NumbersOf(const Call& call, const Lengths& lengths) {
  if (absl::Status used = UseLengths(lengths.input); !used.ok()) return used;
  mask_ = {.node = &call.node, .label = call.label};
  const absl::StatusOr<int> ones = Ones();
  if (!ones.ok()) return ones.status();
  Flow steps = {*ones, lengths.layout, data_type_};
  steps.layout.axes().insert(steps.layout.axes().begin(), Layout::AxisOfSymbol(Symbols::kT));
  Result made = OverTimeOf(steps, 0, OverTime::kSum, false);
  const auto plus = static_cast<double>(lengths.plus);
  if (made.ok() && lengths.plus != 0) {
    made = WithConstant(call, std::get<Flow>(*made), NumberOf(plus), MapFunction::kAdd, false);
  }
  const auto least = static_cast<double>(lengths.at_least.value_or(0));
  if (made.ok() && lengths.at_least) {
    made = WithConstant(call, std::get<Flow>(*made), NumberOf(least), MapFunction::kMaximum, false);
  }
  return made;
}

// lengths - 1, clamp(min=1): still integers.
std::optional<Lowering::Result> Lowering::ArithmeticOfLengths(const Call& call) {
  const std::string& op_type = call.node.op_type();
  for (size_t k = 0; k < std::min<size_t>(call.inputs.size(), 2); ++k) {
    std::optional<Lengths> lengths = LengthsOf(call, k);
    if (!lengths) continue;
    const bool is_clip = op_type == "Clip" && !Has(call, 2);
    const std::optional<int64_t> number = call.inputs.size() < 2 || !IsFixed(call, 1 - k)
                                              ? std::nullopt
                                              : FixedInteger(call.node.input(static_cast<int>(1 - k)));
    constexpr int64_t kFar = 1 << 24;
    if (!number && op_type == "Add") return BadFile(absl::StrCat("computes places of lengths; ", View(kPickLast)));
    if (!number || std::abs(*number) > kFar) {
      return BadFile(absl::StrCat("computes with the lengths ",
                                  Quoted(graph_.input(static_cast<int>(lengths->input)).name()),
                                  "; they make masks (step < length), orders of rows and, cast to numbers, means; "
                                  "leave the rest out: requests bring sequence_lens, and means, extremes and last "
                                  "steps are of each row's own steps"));
    }
    if ((is_clip && k == 0) || op_type == "Max") {
      lengths->at_least = std::max(lengths->at_least.value_or(*number), *number);
    } else if (op_type == "Add" || (op_type == "Sub" && k == 0)) {
      const int64_t more = op_type == "Add" ? *number : -*number;
      lengths->plus += more;
      if (lengths->at_least) *lengths->at_least += more;
    } else {
      return BadFile(absl::StrCat("computes ", op_type, " of lengths; cast them to numbers before"));
    }
    return Result(*std::move(lengths));
  }
  return std::nullopt;
}

std::optional<Lowering::Result> Lowering::MaskOf(const Call& call) {
  for (size_t k = 0; k < 2; ++k) {
    const std::optional<Lengths> lengths = LengthsOf(call, k);
    if (!lengths) continue;
    const std::optional<Layout> steps = CountingOf(call, 1 - k, Symbols::kT);
    std::string op_type = call.node.op_type();
    if (k == 0) {  // length > step
      const bool is_greater = op_type.starts_with("Greater");
      if (is_greater || op_type.starts_with("Less"))
        op_type = (is_greater ? "Less" : "Greater") + op_type.substr(is_greater ? 7 : 4);
    }
    const bool holds = (op_type == "Less" && lengths->plus == 0) || (op_type == "LessOrEqual" && lengths->plus == -1);
    const bool fails =
        (op_type == "GreaterOrEqual" && lengths->plus == 0) || (op_type == "Greater" && lengths->plus == -1);
    if (!steps || lengths->at_least || !(holds || fails)) {
      return BadFile("compares lengths other than with all steps (step < length, step >= length)");
    }
    if (absl::Status used = UseLengths(lengths->input); !used.ok()) return used;
    mask_ = {.node = &call.node, .label = call.label};
    std::vector<LayoutAxis> axes(std::max(steps->rank(), lengths->layout.rank()));
    for (const Layout* layout : {&*steps, &lengths->layout}) {
      for (size_t axis = 0; axis < layout->rank(); ++axis) {
        LayoutAxis& place = axes[axes.size() - layout->rank() + axis];
        if (layout->axes()[axis].empty()) continue;
        if (!place.empty()) return BadFile("compares each row's length with one step");
        place = layout->axes()[axis];
      }
    }
    const absl::StatusOr<int> ones = Ones();
    if (!ones.ok()) return ones.status();
    Flow mask = {*ones, Layout(std::move(axes)), data_type_};
    if (fails) {
      Result none = WithConstant(call, mask, NumberOf(1), MapFunction::kSubtract, true);
      if (!none.ok()) return none;
      mask = std::get<Flow>(*std::move(none));
    }
    mask.type = kBoolean;
    return Result(std::move(mask));
  }
  return std::nullopt;
}

Lowering::Result Lowering::SortRows(const Call& call, const Lengths& lengths) {
  const absl::StatusOr<Sizes> k = SizesOf(call, 1);
  if (!k.ok()) return k.status();
  const bool has_all =
      k->list.size() == 1 &&
      k->list[0].factor == (k->list[0].is_constant() ? symbols_.SizeOf(Symbols::kN).value_or(-1) : 1) &&
      (k->list[0].is_constant() ||
       (k->list[0].symbols.size() == 1 && symbols_.Unify(k->list[0].symbols[0], Symbols::kN)));
  if (!has_all || lengths.layout.rank() != 1 || lengths.is_sorted || IntOf(call, "largest", 1) != 1 ||
      IntOf(call, "sorted", 1) != 1) {
    return BadFile("orders lengths other than all of them, the largest first");
  }
  if (absl::Status given = Give(call.node, 1, RowOrder{}); !given.ok()) return given;
  Lengths sorted = lengths;
  sorted.is_sorted = true;
  sorted.layout = Layout::OfSymbol(Symbols::kSortedN);
  return sorted;
}

// Of a permutation, scattering 0, 1, ... makes the inverse.
Lowering::Result Lowering::ScatterElements(const Call& call) {
  const auto* order = Has(call, 1) ? std::get_if<RowOrder>(call.inputs[1]) : nullptr;
  if (order == nullptr || order->is_back || !CountingOf(call, 2, Symbols::kN)) {
    return BadFile("puts numbers into places that are computed; only an order of rows by length is turned back so");
  }
  return RowOrder{.is_back = true};
}

Lowering::Result Lowering::Reorder(const Call& call, const RowOrder& order) {
  if (std::holds_alternative<Zeros>(*call.inputs[0])) return Zeros{};
  if (std::optional<Lengths> lengths = LengthsOf(call, 0)) {
    if (lengths->layout.rank() != 1 || lengths->is_sorted != order.is_back) return BadFile("orders rows a second time");
    lengths->is_sorted = !order.is_back;
    lengths->layout = Layout::OfSymbol(order.is_back ? Symbols::kN : Symbols::kSortedN);
    return *std::move(lengths);
  }
  const std::string& made = call.node.output(0);
  const auto* computed = std::get_if<Flow>(call.inputs[0]);
  const bool is_of_row = computed != nullptr && IsOfRow(*computed);
  if (!order.is_back && !is_of_row && (IsStateOfLayer(made) || parted_states_.contains(made))) {
    return BadFile(
        "sorts a state that requests bring by the lengths of rows (PyTorch: pack_padded_sequence with "
        "enforce_sorted=False); leave the lengths out, which requests bring as sequence_lens, or let the layers begin "
        "with "
        "zeros");
  }
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<size_t> axis = AxisOf(IntOf(call, "axis", 0), flow->layout.rank());
  if (!axis.ok()) return axis.status();
  const int from = order.is_back ? Symbols::kSortedN : Symbols::kN;
  const std::optional<int> symbol = flow->layout.SymbolOf(*axis);
  if (!symbol || !symbols_.Unify(*symbol, from)) {
    return BadFile(absl::StrCat("puts axis ", *axis, " of ", flow->layout.Text(symbols_),
                                order.is_back ? " back into the order of rows, which it is not sorted by"
                                              : " into the order of lengths, which only rows have"));
  }
  flow->layout.axes()[*axis] = {{.symbol = order.is_back ? Symbols::kN : Symbols::kSortedN}};
  return *std::move(flow);
}

std::optional<Lowering::Result> Lowering::JoinPlaces(const Call& call) {
  if (call.inputs.size() != 2) return std::nullopt;
  for (size_t k = 0; k < 2; ++k) {
    const std::optional<Lengths> lengths = LengthsOf(call, k);
    if (!lengths || !lengths->is_last() || lengths->layout.rank() != 2) continue;
    const std::optional<Layout> rows = CountingOf(call, 1 - k, Symbols::kN);
    if (!rows || rows->rank() != 2 || !rows->SymbolOf(0) || !lengths->layout.SymbolOf(0) || lengths->is_sorted)
      continue;
    return Result(LastSteps{.input = lengths->input, .steps_first = k == 0});
  }
  return std::nullopt;
}

std::optional<Lowering::Result> Lowering::ExpandLengths(const Call& call) {
  std::optional<Lengths> lengths = LengthsOf(call, 0);
  if (!lengths) return std::nullopt;
  const absl::StatusOr<Sizes> shape = SizesOf(call, 1);
  if (!shape.ok()) return Result(shape.status());
  if (shape->list.size() != lengths->layout.rank()) return BadFile("repeats lengths over other axes");
  lengths->expanded = shape->list;
  return Result(*std::move(lengths));
}

Lowering::Result Lowering::GatherLast(const Call& call) {
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const auto* places = Has(call, 1) ? std::get_if<LastSteps>(call.inputs[1]) : nullptr;
  const auto* lengths = Has(call, 1) ? std::get_if<Lengths>(call.inputs[1]) : nullptr;
  const bool is_nd = IsOnnxOp(call.node, "GatherND");
  const bool is_last = is_nd ? places != nullptr && IntOf(call, "batch_dims", 0) == 0
                             : lengths != nullptr && lengths->is_last() && !lengths->is_sorted &&
                                   lengths->layout.rank() == flow->layout.rank();
  const absl::StatusOr<size_t> axis =
      AxisOf(is_nd ? (places != nullptr && !places->steps_first ? 1 : 0) : IntOf(call, "axis", 0), flow->layout.rank());
  if (!axis.ok()) return axis.status();
  const std::optional<int> steps = flow->layout.SymbolOf(*axis);
  // The rows are the other one of the first two axes, and the lengths', whose other axes are of 1.
  const size_t rows_axis = 1 - std::min<size_t>(*axis, 1);
  const std::optional<int> rows = flow->layout.rank() > rows_axis ? flow->layout.SymbolOf(rows_axis) : std::nullopt;
  if (!is_last || *axis > 1 || !steps || symbols_.Find(*steps) != Symbols::kT || !rows ||
      !symbols_.Unify(*rows, Symbols::kN) || (lengths != nullptr && !lengths->layout.SymbolOf(rows_axis))) {
    return BadFile(absl::StrCat("picks by places that are computed; ", View(kPickLast)));
  }
  // A place for each number of the step, no fewer and no more.
  for (size_t k = 0; lengths != nullptr && k < flow->layout.rank(); ++k) {
    const Size count = lengths->expanded.empty() ? Size(1) : lengths->expanded[k];
    const Size all = k == *axis || k == rows_axis ? Size(1) : flow->layout.SizeOfAxis(k);
    const bool are_rows = k == rows_axis && (count.is_constant() ? symbols_.SizeOf(*rows) == count.factor
                                                                 : Equal(symbols_, count, flow->layout.SizeOfAxis(k)));
    if (!Equal(symbols_, count, all) && !are_rows) {
      return BadFile(absl::StrCat("picks one step of ", flow->layout.Text(symbols_),
                                  " by places of another shape: expand them to as many as the step has numbers"));
    }
  }
  if (absl::Status used = UseLengths(is_nd ? places->input : lengths->input); !used.ok()) return used;
  mask_ = {.node = &call.node, .label = call.label};
  Result made = OverTimeOf(*flow, *axis, OverTime::kLast, !is_nd);
  if (made.ok()) own_ends_.insert(std::get<Flow>(*made).node);
  return made;
}

Lowering::Result Lowering::TurnSteps(const Call& call, const Flow& flow, size_t axis) {
  if (ends_ == Ends::kRefused) return BadFile("turns the steps round, of which a session has no end to begin at");
  last_turn_ = {.node = &call.node, .label = call.label};
  const std::optional<int> symbol = flow.layout.SymbolOf(axis);
  const bool is_turned = symbol && symbols_.Find(*symbol) == Symbols::kBackT;
  if (!symbol || !(is_turned || symbols_.Unify(*symbol, Symbols::kT))) {
    return BadFile(absl::StrCat("turns axis ", axis, " of ", flow.layout.Text(symbols_), " round; only steps can be"));
  }
  Flow made = flow;
  made.layout.axes()[axis] = {{.symbol = is_turned ? Symbols::kT : Symbols::kBackT}};
  return made;
}

// Whether input 1 is as many for each row as the axis has, as tf2onnx writes tf.reverse.
bool Lowering::TurnsAll(const Call& call, const Flow& flow, size_t axis) {
  const auto* all = Has(call, 1) ? std::get_if<Sizes>(call.inputs[1]) : nullptr;
  if (all != nullptr) {
    return all->repeats && all->list[0].factor == 1 && all->list[0].symbols.size() == 1 &&
           IsOfAxis(flow, axis, all->list[0].symbols[0]);
  }
  const std::optional<int> symbol = flow.layout.SymbolOf(axis);
  const absl::StatusOr<OnnxTensor> value = IsFixed(call, 1) ? Value(call, 1) : absl::NotFoundError("");
  if (!symbol || !symbols_.SizeOf(*symbol) || !value.ok() || IsFloating(value->view.type)) return false;
  for (size_t k = 0; k < value->view.data.size() / ByteSize(value->view.type); ++k) {
    if (IntAt(value->view, static_cast<int64_t>(k)) != *symbols_.SizeOf(*symbol)) return false;
  }
  return true;
}

// Of each row's own steps, or of all.
Lowering::Result Lowering::ReverseSequence(const Call& call) {
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<size_t> steps = AxisOf(IntOf(call, "time_axis", 0), flow->layout.rank());
  if (!steps.ok()) return steps.status();
  if (TurnsAll(call, *flow, *steps)) {
    turns_ = {.node = &call.node, .label = call.label};
    return TurnSteps(call, *flow, *steps);
  }
  const std::optional<Lengths> lengths = LengthsOf(call, 1);
  if (!lengths || lengths->is_sorted || lengths->plus != 0 || lengths->at_least) {
    return BadFile("turns the steps of rows round whose lengths are no graph input");
  }
  const absl::StatusOr<size_t> rows = AxisOf(IntOf(call, "batch_axis", 1), flow->layout.rank());
  if (!rows.ok()) return rows.status();
  const std::optional<int> symbol = flow->layout.SymbolOf(*rows);
  if (!symbol || !symbols_.Unify(*symbol, Symbols::kN)) return BadFile("has other rows than lengths");
  if (absl::Status used = UseLengths(lengths->input); !used.ok()) return used;
  mask_ = {.node = &call.node, .label = call.label};
  return TurnSteps(call, *flow, *steps);
}

// A boolean is 1 or 0.
Lowering::Result Lowering::Logic(const Call& call) {
  Flow flows[2];
  const size_t count = IsOnnxOp(call.node, "Not") ? 1 : 2;
  for (size_t k = 0; k < count; ++k) {
    absl::StatusOr<Flow> flow = FlowOf(call, k);
    if (!flow.ok()) return flow.status();
    if (flow->type != kBoolean) return BadFile("computes with what is no comparison of a step's numbers");
    flow->type = data_type_;
    flows[k] = *std::move(flow);
  }
  if (IsOnnxOp(call.node, "Xor")) {  // more than the one, or more than the other
    Result more = Pair(flows[0], flows[1], MapFunction::kGreater);
    if (!more.ok()) return more;
    Result less = Pair(flows[0], flows[1], MapFunction::kLess);
    if (!less.ok()) return less;
    flows[0] = std::get<Flow>(*std::move(more));
    flows[1] = std::get<Flow>(*std::move(less));
  }
  Result made = count == 1 ? WithConstant(call, flows[0], NumberOf(1), MapFunction::kSubtract, true)
                           : Pair(flows[0], flows[1],
                                  IsOnnxOp(call.node, "And") ? MapFunction::kMultiply : MapFunction::kMaximum);
  if (made.ok()) std::get<Flow>(*made).type = kBoolean;
  return made;
}

}  // namespace rnnserve
