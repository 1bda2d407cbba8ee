// SPDX-License-Identifier: Apache-2.0
// Lengths of rows as numbers. No step beyond a row's end is computed, so a mask (step < length) holds for every step
// that is, and rows may be sorted by length and put back: an order of rows is an axis of its own (Symbols::kSortedN),
// which moves no number. Likewise steps that are turned round (kBackT): a layer of the other direction reads them.
#include <algorithm>
#include <cmath>
#include <set>
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

// --- What the file has beyond the end of a row, where a mask fails and nothing else is known: one number, or nullopt.
using Beyond = std::optional<double>;

Beyond Of(MapFunction function, Beyond a, Beyond b) {
  const bool nothing = (a && *a == 0) || (b && *b == 0);
  if (function == MapFunction::kMultiply && nothing) return 0;
  if (b && function == MapFunction::kWhere) return *b != 0 ? a : 0;
  if (b && function == MapFunction::kWhereNot) return *b == 0 ? a : 0;
  if (!a || !b) return std::nullopt;
  switch (function) {
    case MapFunction::kAdd:
      return *a + *b;
    case MapFunction::kSubtract:
      return *a - *b;
    case MapFunction::kMultiply:
      return *a * *b;
    case MapFunction::kEqual:
      return *a == *b ? 1 : 0;
    case MapFunction::kMaximum:
      return std::max(*a, *b);
    case MapFunction::kMinimum:
      return std::min(*a, *b);
    default:
      return std::nullopt;
  }
}

// The number that all of them are.
Beyond OnlyOne(const MapNumbers& numbers) {
  const std::vector<double> values =
      numbers.f64.empty() ? std::vector<double>(numbers.f32.begin(), numbers.f32.end()) : numbers.f64;
  const bool same = std::ranges::all_of(values, [&](double value) { return value == values[0]; });
  return !values.empty() && same ? Beyond(values[0]) : std::nullopt;
}

Beyond BeyondOf(const MapOp& op, const std::vector<Beyond>& in) {
  const Beyond first = in.empty() ? std::nullopt : in[0];
  switch (op.kind) {
    case MapOpKind::kSelect:
    case MapOpKind::kConvert:
      return first;
    case MapOpKind::kConcat:
      return std::ranges::all_of(in, [&](Beyond value) { return value == first; }) ? first : std::nullopt;
    case MapOpKind::kBinary:
      return Of(op.function, in[0], in[1]);
    case MapOpKind::kConstant:
      return op.reversed ? Of(op.function, OnlyOne(*op.a), first) : Of(op.function, first, OnlyOne(*op.a));
    case MapOpKind::kUnary:
      return first && op.function == MapFunction::kNegative ? Beyond(-*first) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// Whether it leaves what comes of the row's own steps as it is.
bool AddsNothing(OverTime over_time, Beyond beyond) {
  constexpr double kFar = 1e4;  // as masks have it, float16's among them
  if (over_time == OverTime::kFirst) return true;
  if (!beyond) return false;
  return (over_time == OverTime::kSum && *beyond == 0) || (over_time == OverTime::kLargest && *beyond <= -kFar) ||
         (over_time == OverTime::kSmallest && *beyond >= kFar);
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
  const auto input = std::ranges::find(nodes, FlowNode::Kind::kInput, &FlowNode::kind);
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
    if (!number || std::abs(*number) > kFar) {
      return BadFile(absl::StrCat("computes with the lengths ",
                                  Quoted(graph_.input(static_cast<int>(lengths->input)).name()),
                                  "; they make masks (step < length), orders of rows and, cast to numbers, means; "
                                  "leave the rest out: requests bring sequence_lens, and means, extremes and last "
                                  "steps are of each row's own steps"));
    }
    if ((is_clip && k == 0) || op_type == "Max") {
      lengths->at_least = std::max(lengths->at_least.value_or(*number), *number);
    } else if (!lengths->at_least && (op_type == "Add" || (op_type == "Sub" && k == 0))) {
      lengths->plus += op_type == "Add" ? *number : -*number;
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

std::vector<std::optional<double>> Lowering::BeyondEnds() const {
  std::vector<Beyond> beyond(flows_.nodes().size());
  for (size_t k = 0; k < beyond.size(); ++k) {  // inputs come before what takes them
    const FlowNode& node = flows_.at(static_cast<int>(k));
    std::vector<Beyond> in;
    for (const int from : node.op.in) in.push_back(beyond[static_cast<size_t>(from)]);
    if (static_cast<int>(k) == ones_ || (node.kind == FlowNode::Kind::kLayerY && LayersTakeLengths())) {
      beyond[k] = 0;
    } else if (node.kind == FlowNode::Kind::kOp && node.result == 0) {
      beyond[k] = BeyondOf(node.op, in);
    }
  }
  return beyond;
}

// Beyond a row's end a request's outputs are zero.
Obstacle Lowering::OtherBeyondEnds(const std::function<bool(const std::string&)>& is_asked) const {
  if (!lengths_input_) return {};
  const std::vector<Beyond> beyond = BeyondEnds();
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
  const std::vector<Beyond> beyond = BeyondEnds();
  std::set<int> seen;
  std::vector<int> open;
  for (const Output& output : outputs_) open.push_back(output.flow.node);
  while (!open.empty()) {
    const int next = open.back();
    open.pop_back();
    if (!seen.insert(next).second) continue;
    const FlowNode& node = flows_.at(next);
    if (node.kind == FlowNode::Kind::kFinalH || node.kind == FlowNode::Kind::kFinalC) {
      return refuse("a final state is that of");
    }
    if (node.kind == FlowNode::Kind::kOverTime && !own_ends_.contains(next)) {
      if (node.over_time == OverTime::kLast || turned_ends_.contains(next)) return refuse("the last step is that of");
      if (node.over_time == OverTime::kMean) return refuse("a mean over time counts");
      if (!AddsNothing(node.over_time, beyond[static_cast<size_t>(node.op.in[0])])) {
        return refuse("a sum or extreme over time has more than the mask leaves of");
      }
    }
    open.insert(open.end(), node.op.in.begin(), node.op.in.end());
  }
  return absl::OkStatus();
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
  if (!order.is_back && (IsStateOfLayer(made) || parted_states_.contains(made))) {
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
    if (!lengths || lengths->plus != -1 || lengths->at_least || lengths->layout.rank() != 2) continue;
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
                             : lengths != nullptr && lengths->plus == -1 && !lengths->at_least && !lengths->is_sorted &&
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

Lowering::Result Lowering::TurnSteps(const Flow& flow, size_t axis) {
  const std::optional<int> symbol = flow.layout.SymbolOf(axis);
  const bool is_turned = symbol && symbols_.Find(*symbol) == Symbols::kBackT;
  if (!symbol || !(is_turned || symbols_.Unify(*symbol, Symbols::kT))) {
    return BadFile(absl::StrCat("turns axis ", axis, " of ", flow.layout.Text(symbols_), " round; only steps can be"));
  }
  Flow made = flow;
  made.layout.axes()[axis] = {{.symbol = is_turned ? Symbols::kT : Symbols::kBackT}};
  return made;
}

// Of each row's own steps.
Lowering::Result Lowering::ReverseSequence(const Call& call) {
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const std::optional<Lengths> lengths = LengthsOf(call, 1);
  if (!lengths || lengths->is_sorted || lengths->plus != 0 || lengths->at_least) {
    return BadFile("turns the steps of rows round whose lengths are no graph input");
  }
  const absl::StatusOr<size_t> steps = AxisOf(IntOf(call, "time_axis", 0), flow->layout.rank());
  const absl::StatusOr<size_t> rows = AxisOf(IntOf(call, "batch_axis", 1), flow->layout.rank());
  if (!steps.ok()) return steps.status();
  if (!rows.ok()) return rows.status();
  const std::optional<int> symbol = flow->layout.SymbolOf(*rows);
  if (!symbol || !symbols_.Unify(*symbol, Symbols::kN)) return BadFile("has other rows than lengths");
  if (absl::Status used = UseLengths(lengths->input); !used.ok()) return used;
  mask_ = {.node = &call.node, .label = call.label};
  return TurnSteps(*flow, *steps);
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
  Result made = count == 1 ? WithConstant(call, flows[0], NumberOf(1), MapFunction::kSubtract, true)
                           : Pair(flows[0], flows[1],
                                  IsOnnxOp(call.node, "And") ? MapFunction::kMultiply : MapFunction::kMaximum);
  if (made.ok()) std::get<Flow>(*made).type = kBoolean;
  return made;
}

}  // namespace rnnserve
