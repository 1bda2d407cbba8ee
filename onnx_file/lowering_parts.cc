// SPDX-License-Identifier: Apache-2.0
// Nodes that take parts along an axis, or join them: of numbers, sizes, states.
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
namespace {

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

int64_t Clamped(int64_t index, int64_t size) { return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size); }

// Places first, first + step, ... before `end`, of an axis of `size`, as ONNX's Slice counts them.
std::vector<int64_t> PlacesOf(int64_t first, int64_t end, int64_t step, int64_t size) {
  std::vector<int64_t> places;
  step = std::clamp<int64_t>(step, -size - 1, size + 1);  // farther is as far, and cannot overflow
  if (step > 0) {
    for (int64_t k = Clamped(first, size), last = Clamped(end, size); k < last; k += step) places.push_back(k);
  } else {
    const int64_t from = std::min(first < 0 ? first + size : first, size - 1);
    const int64_t to = end < -size ? -1 : end < 0 ? end + size : end;
    for (int64_t k = from; k > to && k >= 0; k += step) places.push_back(k);
  }
  return places;
}

}  // namespace

RepeatedRows Lowering::PartOf(const RepeatedRows& rows, int64_t first, int64_t end) {
  const int64_t most = rows.end - rows.first;
  return {rows.name, rows.first + std::clamp<int64_t>(first, 0, most), rows.first + std::clamp<int64_t>(end, 0, most)};
}

Lowering::Result Lowering::Gather(const Call& call) {
  if (!Has(call, 0) || !Has(call, 1)) return BadFile("has not its two inputs");
  if (const auto* order = std::get_if<RowOrder>(call.inputs[1])) return Reorder(call, *order);
  if (IsFixed(call, 0)) {
    const absl::StatusOr<OnnxTensor> table = Value(call, 0);
    if (!table.ok()) return table.status();
    if (IntOf(call, "axis", 0) != 0) return BadFile("looks up something else than rows of a table of numbers");
    return Lookup(call, 1, *table);
  }
  if (const auto* last = std::get_if<LastPlace>(call.inputs[1])) {
    const absl::StatusOr<Flow> flow = FlowOf(call, 0);
    if (!flow.ok()) return flow.status();
    const absl::StatusOr<size_t> axis = AxisOf(IntOf(call, "axis", 0), flow->layout.rank());
    if (!axis.ok()) return axis.status();
    if (!IsOfAxis(*flow, *axis, last->symbol)) return BadFile("picks a place by the size of another axis");
    return Step(call, *flow, *axis, -1, !last->is_scalar);
  }
  const absl::StatusOr<OnnxTensor> index = Value(call, 1);
  if (!index.ok()) return index.status();
  const TensorView& view = index->view;
  if (IsFloating(view.type) || view.shape.size() > 1 || view.data.empty()) {
    return BadFile("takes more than a list of places");
  }
  const size_t count = view.data.size() / ByteSize(view.type);
  const bool keeps_axis = !view.shape.empty();
  if (const auto* sizes = std::get_if<Sizes>(call.inputs[0])) {
    Sizes picked = {.list = {}, .is_scalar = !keeps_axis};
    for (size_t k = 0; k < count && k < kMaxSizes; ++k) {
      const absl::StatusOr<size_t> place = AxisOf(IntAt(view, static_cast<int64_t>(k)), sizes->list.size());
      if (!place.ok()) return place.status();
      picked.list.push_back(sizes->list[*place]);
    }
    return picked;
  }
  if (std::holds_alternative<Zeros>(*call.inputs[0])) return Zeros{};
  if (const auto* rows = std::get_if<RepeatedRows>(call.inputs[0])) {
    const int64_t place = IntAt(view, 0);
    if (IntOf(call, "axis", 0) != 0 || count != 1 || place < 0)
      return BadFile("takes a part of another axis of a state");
    return PartOf(*rows, place, place + 1);
  }
  const int64_t named = IntOf(call, "axis", 0);
  if (const auto* input = std::get_if<GraphInput>(call.inputs[0]); input != nullptr && named == 0 && count == 1) {
    // A layer's part of a state of all: h0[k].
    const int64_t place = IntAt(view, 0);
    if (IsStateOfLayer(call.node.output(0)) && place >= 0) {
      return InputPart{input->input, place, place + 1};
    }
  }
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<size_t> axis = AxisOf(named, flow->layout.rank());
  if (!axis.ok()) return axis.status();
  const std::optional<int64_t> size = FeatureSize(flow->layout, *axis);
  if (!size) {
    if (count != 1) return BadFile("picks several steps or rows");
    return Step(call, *flow, *axis, IntAt(view, 0), keeps_axis);
  }
  std::vector<int64_t> places;
  for (size_t k = 0; k < count; ++k) {
    const absl::StatusOr<size_t> place = AxisOf(IntAt(view, static_cast<int64_t>(k)), static_cast<size_t>(*size));
    if (!place.ok()) return place.status();
    places.push_back(static_cast<int64_t>(*place));
  }
  absl::StatusOr<Flow> picked = SelectOfAxis(*flow, *axis, places);
  if (!picked.ok()) return picked.status();
  if (!keeps_axis) picked->layout.axes().erase(picked->layout.axes().begin() + static_cast<std::ptrdiff_t>(*axis));
  return *std::move(picked);
}

absl::StatusOr<Flow> Lowering::SelectOfAxis(const Flow& flow, size_t axis, const std::vector<int64_t>& places) {
  // Of the axis, in its own order, and of all the others around it.
  Layout outer(std::vector<LayoutAxis>(flow.layout.axes().begin(),
                                       flow.layout.axes().begin() + static_cast<std::ptrdiff_t>(axis)));
  Layout own({flow.layout.axes()[axis]});
  Layout inner(std::vector<LayoutAxis>(flow.layout.axes().begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                                       flow.layout.axes().end()));
  const std::vector<int64_t> of_outer = outer.Places(), of_own = own.Places(), of_inner = inner.Places();
  if (static_cast<int64_t>(of_outer.size() * of_inner.size() * places.size()) > FlowGraph::kMaxWidth) {
    return BadFile("gives too many numbers a step");
  }
  std::vector<int64_t> all;
  for (const int64_t a : of_outer) {
    for (const int64_t b : places) {
      for (const int64_t c : of_inner) all.push_back(a + of_own[static_cast<size_t>(b)] + c);
    }
  }
  if (all.empty()) return BadFile("leaves no numbers");
  Flow made = flow;
  made.layout.axes()[axis] = {{.size = static_cast<int64_t>(places.size())}};
  made.layout = made.layout.Canonical();
  absl::StatusOr<int> node = flows_.Select(flow.node, std::move(all));
  if (!node.ok()) return node.status();
  made.node = *node;
  return made;
}

// One step of all: the first or the last of a row's own.
Lowering::Result Lowering::Step(const Call&, const Flow& flow, size_t axis, int64_t index, bool keeps_axis) {
  const std::optional<int> symbol = flow.layout.SymbolOf(axis);
  const bool is_turned = symbol && symbols_.Find(*symbol) == Symbols::kBackT;
  if (!symbol || (symbols_.Find(*symbol) != Symbols::kT && !is_turned)) {
    return BadFile(absl::StrCat("picks from axis ", axis, " of ", flow.layout.Text(symbols_),
                                "; only the first or last step after a layer can be picked"));
  }
  const std::optional<int64_t> steps = symbols_.SizeOf(*symbol);
  const bool is_last = index == -1 || (steps && index == *steps - 1);
  if (is_last || index == 0) {
    Result made = OverTimeOf(flow, axis, is_last == is_turned ? OverTime::kFirst : OverTime::kLast, keeps_axis);
    if (made.ok() && is_last && is_turned) turned_ends_.insert(std::get<Flow>(*made).node);
    return made;
  }
  return BadFile(absl::StrCat("picks step ", index,
                              "; only the first and the last one can be picked (PyTorch: y[:, -1]; with dynamo=False "
                              "x.shape[1] - 1 can become a number, dynamo=True keeps it)"));
}

bool Lowering::IsOfAxis(const Flow& flow, size_t axis, int symbol) const {
  const auto unturned = [this](int of) {
    return symbols_.Find(of) == Symbols::kBackT ? Symbols::kT : symbols_.Find(of);
  };
  const std::optional<int> own = flow.layout.SymbolOf(axis);
  return own && unturned(*own) == unturned(symbol);
}

std::optional<LastPlace> Lowering::LastPlaceOf(const Call& call) {
  if (!IsOnnxOp(call.node, "Sub") && !IsOnnxOp(call.node, "Add")) return std::nullopt;
  absl::StatusOr<Sizes> sizes = SizesOf(call, 0), number = SizesOf(call, 1);
  if (IsOnnxOp(call.node, "Add") && IsFixed(call, 0)) std::swap(sizes, number);
  if (!sizes.ok() || !number.ok() || sizes->list.size() != 1 || number->list.size() != 1) return std::nullopt;
  const Size &size = sizes->list[0], one(IsOnnxOp(call.node, "Sub") ? 1 : -1);
  if (size.factor != 1 || size.symbols.size() != 1 || !Equal(symbols_, number->list[0], one)) return std::nullopt;
  return LastPlace{size.symbols[0], sizes->is_scalar && number->is_scalar};
}

Lowering::Result Lowering::SliceSizes(const Call& call, const Sizes& sizes) {
  const auto number = [&](std::string_view name, size_t index, int64_t otherwise) -> absl::StatusOr<int64_t> {
    const absl::StatusOr<std::optional<std::vector<int64_t>>> list = Ints(call, name, index);
    if (!list.ok()) return list.status();
    return *list && (*list)->size() == 1 ? (**list)[0] : otherwise;
  };
  const absl::StatusOr<int64_t> first = number("starts", 1, 0), end = number("ends", 2, kToTheEnd);
  const absl::StatusOr<int64_t> step = number("steps", 4, 1);
  for (const auto* one : {&first, &end, &step}) {
    if (!one->ok()) return one->status();
  }
  if (*step == 0) return BadFile("has a step of 0");
  Sizes picked;
  for (const int64_t k : PlacesOf(*first, *end, *step, static_cast<int64_t>(sizes.list.size()))) {
    picked.list.push_back(sizes.list[static_cast<size_t>(k)]);
  }
  return picked;
}

Lowering::Result Lowering::Slice(const Call& call) {
  if (!Has(call, 0)) return BadFile("has no input 0");
  if (const auto* sizes = std::get_if<Sizes>(call.inputs[0])) return SliceSizes(call, *sizes);
  if (std::holds_alternative<Zeros>(*call.inputs[0])) return Zeros{};
  std::vector<int64_t> lists[4];  // starts, ends, axes, steps
  constexpr std::string_view kNames[] = {"starts", "ends", "axes", "steps"};
  std::vector<int> ends_of;  // symbols by whose sizes the slice begins or ends
  for (size_t k = 0; k < 4; ++k) {
    const auto* last = Has(call, k + 1) ? std::get_if<LastPlace>(call.inputs[k + 1]) : nullptr;
    const auto* all = k == 1 && Has(call, 2) ? std::get_if<Sizes>(call.inputs[2]) : nullptr;
    const bool is_all =
        all != nullptr && all->list.size() == 1 && all->list[0].factor == 1 && all->list[0].symbols.size() == 1;
    if (last != nullptr || is_all) {
      lists[k] = {is_all ? kToTheEnd : -1};
      ends_of.push_back(is_all ? all->list[0].symbols[0] : last->symbol);
      continue;
    }
    const absl::StatusOr<std::optional<std::vector<int64_t>>> list = Ints(call, kNames[k], k + 1);
    if (!list.ok()) return list.status();
    if (*list) lists[k] = **list;
  }
  auto& [starts, ends, axes, steps] = lists;
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (starts.empty() || ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    return BadFile("has starts, ends, axes and steps of different lengths");
  }
  const auto* rows = std::get_if<RepeatedRows>(call.inputs[0]);
  if (rows != nullptr && axes.size() == 1 && (axes[0] == 0 || axes[0] == -3) && steps[0] == 1 && starts[0] >= 0) {
    return PartOf(*rows, starts[0], ends[0]);
  }
  const auto* input = std::get_if<GraphInput>(call.inputs[0]);
  if (input != nullptr && IsStateOfLayer(call.node.output(0)) && axes.size() == 1 && (axes[0] == 0 || axes[0] == -3) &&
      steps[0] == 1 && starts[0] >= 0) {
    return InputPart{input->input, starts[0], ends[0]};  // a layer's part of a state of all
  }
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  GraphValue made = *flow;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto* next = std::get_if<Flow>(&made);
    const absl::StatusOr<size_t> axis = AxisOf(axes[k], next->layout.rank());
    if (!axis.ok()) return axis.status();
    if (steps[k] == 0) return BadFile("has a step of 0");
    if (std::ranges::any_of(ends_of, [&](int symbol) { return !IsOfAxis(*next, *axis, symbol); })) {
      return BadFile("takes a part of an axis by the size of another one");
    }
    Result sliced = SliceFlow(call, *next, *axis, starts[k], ends[k], steps[k]);
    if (!sliced.ok()) return sliced;
    made = *std::move(sliced);
  }
  return made;
}

Lowering::Result Lowering::SliceFlow(const Call& call, const Flow& flow, size_t axis, int64_t first, int64_t end,
                                     int64_t step) {
  if (const std::optional<int64_t> size = FeatureSize(flow.layout, axis)) {
    absl::StatusOr<Flow> picked = SelectOfAxis(flow, axis, PlacesOf(first, end, step, *size));
    if (!picked.ok()) return picked.status();
    return *std::move(picked);
  }
  constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
  const std::optional<int> symbol = flow.layout.SymbolOf(axis);
  const int64_t size = symbol ? symbols_.SizeOf(*symbol).value_or(1) : 1;
  if (size > 1 && step == 1) {  // of as many as the file fixes: the last one, or all
    if (first == size - 1) first = -1;
    if (first == -size) first = 0;
    if (end >= size) end = kFar;
  }
  if (first == 0 && end >= kFar && step == 1) return flow;  // all of them
  if (step == 1 && first == -1 && end >= kFar) return Step(call, flow, axis, -1, true);
  if (step == 1 && first == 0 && end == 1) return Step(call, flow, axis, 0, true);
  if (step == -1 && (first == -1 || first >= kFar) && end <= -kFar) {
    turns_ = {.node = &call.node, .label = call.label};
    return TurnSteps(call, flow, axis);
  }
  const auto is_such = [&](const onnx::NodeProto& node) {
    return IsOnnxOp(node, "Slice") && node.input_size() > 0 && node.input(0) == call.node.input(0);
  };
  return BadFile(
      absl::StrCat("takes a part of the steps or rows of ", flow.layout.Text(symbols_),
                   "; only the first or last step can be picked",
                   std::ranges::count_if(graph_.node(), is_such) > 2
                       ? ". If the file has one such node for each step, its recurrence is unrolled: export it with "
                         "dynamo=False"
                       : ""));
}

Lowering::Result Lowering::Split(const Call& call) {
  const auto parts = static_cast<size_t>(call.node.output_size());
  absl::StatusOr<std::optional<std::vector<int64_t>>> sizes = Ints(call, "split", 1, parts);
  if (!sizes.ok()) return sizes.status();
  if (std::holds_alternative<Zeros>(*call.inputs[0])) {
    for (size_t k = 1; k < parts; ++k) {
      if (absl::Status given = Give(call.node, static_cast<int>(k), Zeros{}); !given.ok()) return given;
    }
    return Zeros{};
  }
  if (const auto* rows = std::get_if<RepeatedRows>(call.inputs[0]);
      rows != nullptr && *sizes && (*sizes)->size() == parts && parts > 0 && IntOf(call, "axis", 0) == 0) {
    int64_t from = (**sizes)[0];
    for (size_t k = 1; k < parts; from += (**sizes)[k++]) {
      RepeatedRows part = PartOf(*rows, from, from + (**sizes)[k]);
      if (absl::Status given = Give(call.node, static_cast<int>(k), std::move(part)); !given.ok()) return given;
    }
    return PartOf(*rows, 0, (**sizes)[0]);
  }
  if (const auto* state = std::get_if<GraphInput>(call.inputs[0]);
      state != nullptr && *sizes && (*sizes)->size() == parts && parts > 0 && IntOf(call, "axis", 0) == 0 &&
      IsStateOfLayer(call.node.output(0))) {
    const size_t input = state->input;
    int64_t from = (**sizes)[0];
    const InputPart first = {input, 0, from};
    for (size_t k = 1; k < parts; from += (**sizes)[k++]) {
      InputPart part = {input, from, from + (**sizes)[k]};
      if (absl::Status given = Give(call.node, static_cast<int>(k), part); !given.ok()) return given;
    }
    return first;
  }
  const absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return flow.status();
  const absl::StatusOr<size_t> axis = AxisOf(IntOf(call, "axis", 0), flow->layout.rank());
  if (!axis.ok()) return axis.status();
  const std::optional<int64_t> size = FeatureSize(flow->layout, *axis);
  if (!size) {
    return BadFile(
        absl::StrCat("splits the steps or rows of ", flow->layout.Text(symbols_),
                     "; if the file has one such node for each step, its recurrence is unrolled: export it with "
                     "dynamo=False"));
  }
  if (parts == 0) return BadFile("has no outputs");
  std::vector<int64_t> counts;
  if (*sizes) {
    counts = **sizes;
  } else {
    const int64_t each = (*size + static_cast<int64_t>(parts) - 1) / static_cast<int64_t>(parts);
    for (int64_t left = *size; left > 0; left -= each) counts.push_back(std::min(each, left));
  }
  if (counts.size() != parts || std::ranges::any_of(counts, [](int64_t count) { return count < 1; }) ||
      std::accumulate(counts.begin(), counts.end(), int64_t{0}) != *size) {
    return BadFile(absl::StrCat("splits ", *size, " numbers into other parts"));
  }
  std::optional<GraphValue> first;
  for (size_t k = 0, at = 0; k < parts; at += static_cast<size_t>(counts[k++])) {
    std::vector<int64_t> places(static_cast<size_t>(counts[k]));
    std::iota(places.begin(), places.end(), static_cast<int64_t>(at));
    absl::StatusOr<Flow> part = SelectOfAxis(*flow, *axis, places);
    if (!part.ok()) return part.status();
    if (k == 0) {
      first = *std::move(part);
    } else if (absl::Status given = Give(call.node, static_cast<int>(k), *std::move(part)); !given.ok()) {
      return given;
    }
  }
  return *std::move(first);
}

Lowering::Result Lowering::Concat(const Call& call) {
  if (std::optional<Result> places = JoinPlaces(call)) return *std::move(places);
  const bool is_flow = std::ranges::any_of(call.inputs, [](const GraphValue* value) {
    return value != nullptr && (std::holds_alternative<Flow>(*value) || std::holds_alternative<GraphInput>(*value));
  });
  const auto is_zeros = [](const GraphValue* value) {
    return value != nullptr && std::holds_alternative<Zeros>(*value);
  };
  if (std::ranges::any_of(call.inputs, is_zeros)) {  // of which a state is made, or nothing: checked there
    if (std::ranges::all_of(call.inputs, is_zeros)) return Zeros{};
    return BadFile(
        "joins zeros that the file makes with other numbers: a row has the steps that a request brings and no more, "
        "and a state comes whole; leave the zeros out, or let the request bring them");
  }
  if (is_flow) {
    const absl::StatusOr<Flow> first = FlowOf(call, 0);
    if (!first.ok()) return first.status();
    const absl::StatusOr<size_t> axis = AxisOf(IntOf(call, "axis", 0), first->layout.rank());
    if (!axis.ok()) return axis.status();
    absl::StatusOr<Flow> joined = JoinFlows(call, *axis);
    if (!joined.ok()) return joined.status();
    return *std::move(joined);
  }
  Sizes joined;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const absl::StatusOr<Sizes> part = SizesOf(call, k);
    if (!part.ok()) return part.status();
    joined.list.insert(joined.list.end(), part->list.begin(), part->list.end());
    if (joined.list.size() > kMaxSizes) return BadFile("joins too many sizes");
  }
  return joined;
}

absl::StatusOr<Flow> Lowering::JoinFlows(const Call& call, size_t axis) {
  MapOp op = {.kind = MapOpKind::kConcat};
  std::optional<Flow> sum;
  int64_t along = 0;
  std::optional<Flow> steps;
  for (size_t k = 0; k < call.inputs.size() && !steps; ++k) {
    const absl::StatusOr<Flow> flow = FlowOf(call, k);
    if (flow.ok() && !IsOfRow(*flow)) steps = *flow;
  }
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    absl::StatusOr<Flow> flow = FlowOf(call, k);
    if (flow.ok() && steps) flow = AtStepsOf(*steps, *flow);
    if (!flow.ok()) return flow.status();
    absl::StatusOr<Flow> next = flows_.Canonical(*flow);
    if (!next.ok()) return next.status();
    if (axis >= next->layout.rank() || (sum && sum->layout.rank() != next->layout.rank())) {
      return BadFile("joins tensors of different ranks");
    }
    const std::optional<int64_t> size = FeatureSize(next->layout, axis);
    for (size_t other = 0; other < next->layout.rank() && sum; ++other) {
      if (other == axis) continue;
      const std::optional<int> a = sum->layout.SymbolOf(other), b = next->layout.SymbolOf(other);
      const bool fits = a && b ? symbols_.Unify(*a, *b)
                               : Equal(symbols_, sum->layout.SizeOfAxis(other), next->layout.SizeOfAxis(other));
      if (!fits) {
        WantAsFeatures(next->layout, other);
        return BadFile(absl::StrCat("joins ", sum->layout.Text(symbols_), " and ", next->layout.Text(symbols_)));
      }
    }
    if (!size) return BadFile("joins along the steps or rows; only numbers of one step can be joined");
    along += *size;
    op.in.push_back(next->node);
    if (!sum) sum = *std::move(next);
  }
  sum->layout.axes()[axis] = {{.size = along}};
  sum->layout = sum->layout.Canonical();
  op.inner = along;
  for (size_t k = axis + 1; k < sum->layout.rank(); ++k) op.inner *= sum->layout.FeatureSize(k).value_or(1);
  absl::StatusOr<int> node = flows_.AddOp(std::move(op), sum->layout.width(), !IsFloating(sum->type));
  if (!node.ok()) return node.status();
  sum->node = *node;
  return *std::move(sum);
}

}  // namespace rnnserve
