// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN nodes of a graph that is lowered.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/op/stack.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"
#include "onnx_file/state_width.h"

namespace rnnserve {
absl::Status Lowering::Layer(const Call& call) {
  const auto refuse = [&](const absl::Status& status) {
    return BadFile(absl::StrCat(call.label, ": ", status.message()));
  };
  if (layers_.size() == kMaxLayers) {
    return BadFile(absl::StrCat(call.label, " is layer ", kMaxLayers + 1, "; a model has at most ", kMaxLayers));
  }
  if (call.inputs.size() > RecurrentInputs(call.node.op_type()).size()) {
    return BadFile(absl::StrCat(call.label, " has ", call.inputs.size(), " inputs, but the operator has ",
                                RecurrentInputs(call.node.op_type()).size()));
  }
  absl::StatusOr<OperatorDef> op = OperatorOf(call.node, opset_);
  if (!op.ok()) return refuse(op.status());
  LoweredLayer layer;
  layer.label = call.label;
  layer.op.op = *std::move(op);
  const onnx::AttributeProto* direction = FindAttribute(call.node, "direction");
  layer.directions = direction != nullptr && direction->s() == "bidirectional" ? 2 : 1;
  if (ends_ == Ends::kRefused && direction != nullptr && direction->s() != "forward") {
    return refuse(BadFile(absl::StrCat("direction is ", Quoted(direction->s()),
                                       ", which begins with the last step; a "
                                       "session takes the first one first: split it for Infer, without --stream")));
  }
  const int64_t layout = IntOf(call, "layout", 0);
  layer.rows_first = layout == 1;
  absl::Status taken = TakeWeights(call, layer);
  const auto blame = [&](size_t index) {
    if (!taken.ok() && Has(call, index)) Blame({.node = &call.node, .input = call.node.input(static_cast<int>(index))});
  };
  if (taken.ok()) {
    taken = TakeX(call, layer, layout);
    blame(0);
  }
  if (taken.ok()) {
    taken = TakeLengths(call, layer.is_sorted);
    blame(kLengthsInput);
  }
  layers_.push_back(std::move(layer));
  for (const size_t index : {size_t{5}, size_t{6}}) {  // the layer's own fault, wherever the state comes from
    if (taken.ok() && Has(call, index)) taken = CheckStateWidth(constants_, *scope_, call.node, index);
  }
  for (const size_t index : {size_t{5}, size_t{6}}) {
    if (!taken.ok()) break;
    taken = TakeState(call, index);
    blame(index);
  }
  if (!taken.ok()) return refuse(taken);
  return GiveOutputs(call, layout);
}

absl::Status Lowering::TakeWeights(const Call& call, LoweredLayer& layer) {
  for (size_t index = 1; index < call.inputs.size(); ++index) {
    if (!IsWeightInput(index) || !Has(call, index)) continue;
    const std::string& name = call.node.input(static_cast<int>(index));
    absl::StatusOr<OnnxTensor> value = constants_.Value(*scope_, name);
    if (!value.ok()) {
      return BadFile(absl::StrCat(InputLabel(index, name), " ", value.status().message(),
                                  absl::IsNotFound(value.status()) ? kFixWeights : ""));
    }
    if (absl::Status floating = CheckFloating(value->view.type); !floating.ok()) {
      return BadFile(absl::StrCat(InputLabel(index, name), " ", floating.message()));
    }
    layer.op.weights.push_back({std::string(RecurrentInputs(call.node.op_type())[index]), std::move(value->view)});
    if (value->storage != nullptr) layer.op.storage.push_back(std::move(value->storage));
    const Shape& shape = layer.op.weights.back().tensor.shape;
    if (index == 2 && shape.size() == 3) layer.hidden_size = shape[2];
  }
  if (layer.hidden_size < 1) return BadFile("has no R, or one that is not [D, gates * H, H]");
  return absl::OkStatus();
}

// [T, N, I], whatever has moved its axes before.
absl::Status Lowering::TakeX(const Call& call, LoweredLayer& layer, int64_t layout) {
  absl::StatusOr<Flow> flow = FlowOf(call, 0);
  if (!flow.ok()) return BadFile(absl::StrCat("X (input 0) ", flow.status().message()));
  if (!flows_.at(flow->node).per_step) {
    return BadFile("X is a final state or what else ends a sequence; the layers of a model take every step");
  }
  if (flow->type != data_type_) {
    return BadFile(absl::StrCat("X is ", OnnxTypeName(flow->type), ", but its weights are ", OnnxTypeName(data_type_)));
  }
  const size_t steps_axis = layout == 1 ? 1 : 0;
  if (is_one_step_ && flow->layout.rank() == 3 && flow->layout.FeatureSize(steps_axis) == 1) {
    flow->layout.axes()[steps_axis] = {{.symbol = Symbols::kT}};
  }
  const bool has_axes = flow->layout.rank() == 3 && FeatureSize(flow->layout, 2);
  const std::optional<int> t = has_axes ? flow->layout.SymbolOf(layout == 1 ? 1 : 0) : std::nullopt;
  const std::optional<int> n = has_axes ? flow->layout.SymbolOf(layout == 1 ? 0 : 1) : std::nullopt;
  layer.is_turned = t && symbols_.Find(*t) == Symbols::kBackT;
  const bool turns_rows = n && symbols_.Find(*n) == Symbols::kBackT;
  layer.is_sorted = n && symbols_.Find(*n) == Symbols::kSortedN;
  if (!t || !n || !symbols_.Unify(*t, layer.is_turned ? Symbols::kBackT : Symbols::kT) ||
      !symbols_.Unify(*n, layer.is_sorted ? Symbols::kSortedN : Symbols::kN)) {
    return BadFile(absl::StrCat("X comes with the axes ", flow->layout.Text(symbols_), ", but ",
                                layout == 1 ? "[N, T, I]" : "[T, N, I]",
                                " is needed, T and N being the same for the whole model",
                                flow->layout.rank() == 3 && !n && flow->layout.FeatureSize(layout == 1 ? 0 : 1) == 1
                                    ? "; export the model with an axis of rows, if only for one row"
                                : turns_rows ? "; its rows were turned round, and each row is computed by itself, in "
                                               "whatever order rows come: leave that out, or turn the steps round "
                                               "(PyTorch: x.flip(1) with batch_first)"
                                             : ""));
  }
  if (layer.is_turned) {  // which is what the other direction reads
    if (layer.directions == 2) {
      return BadFile("X has its steps turned round, and both directions read them; turn the outputs round instead");
    }
    const onnx::AttributeProto* direction = FindAttribute(call.node, "direction");
    const bool is_forward = direction == nullptr || direction->s() != "reverse";
    layer.op.op.attributes["direction"] = std::string(is_forward ? "reverse" : "forward");
  }
  flow = flows_.Canonical(*flow);
  if (!flow.ok()) return flow.status();
  layer.x = flow->node;
  const FlowNode& from = flows_.at(layer.x);
  if (from.kind != FlowNode::Kind::kInput) return absl::OkStatus();
  // A layer reads numbers of its own type, and those of a step one after the other.
  const InputUse& given = inputs_[from.input];
  const bool is_ordered = given.layout.SymbolOf(0) && (is_one_step_ || given.layout.SymbolOf(1));
  if (is_ordered && given.type == data_type_) return absl::OkStatus();
  const absl::StatusOr<int> copy =
      flows_.AddOp({.kind = MapOpKind::kConcat, .in = {layer.x}, .inner = from.width}, from.width);
  if (!copy.ok()) return copy.status();
  layer.x = *copy;
  return absl::OkStatus();
}

absl::Status Lowering::UseLengths(size_t input) {
  InputUse& use = inputs_[input];
  const onnx::ValueInfoProto& info = graph_.input(static_cast<int>(input));
  if (use.kind != InputUse::Kind::kUnused && use.kind != InputUse::Kind::kLengths) {
    return BadFile(absl::StrCat("lengths are graph input ", Quoted(info.name()), ", which is something else already"));
  }
  if (lengths_input_.value_or(input) != input) {
    return BadFile(absl::StrCat("lengths are ", Quoted(info.name()), ", but others ",
                                Quoted(graph_.input(static_cast<int>(*lengths_input_)).name()),
                                "; a request brings one for the whole model"));
  }
  use.type = static_cast<DataType>(info.type().tensor_type().elem_type());
  if (use.type != DataType::kInt32 && use.type != DataType::kInt64) {
    return BadFile(absl::StrCat("lengths (", Quoted(info.name()), ") are ", OnnxTypeName(use.type),
                                ", but INT32 or INT64 is needed"));
  }
  use.kind = InputUse::Kind::kLengths;
  lengths_input_ = input;
  return absl::OkStatus();
}

absl::Status Lowering::TakeLengths(const Call& call, bool is_sorted) {
  std::string name;
  if (Has(call, kLengthsInput)) {
    const GraphValue& value = *call.inputs[kLengthsInput];
    const auto* sizes = std::get_if<Sizes>(&value);
    const auto* input = std::get_if<GraphInput>(&value);
    const auto* lengths = std::get_if<Lengths>(&value);
    if (input != nullptr || lengths != nullptr) {
      if ((lengths != nullptr && lengths->is_sorted) != is_sorted) {
        return BadFile("sequence_lens (input 4) are of rows in another order than X");
      }
      if (lengths != nullptr && (lengths->plus != 0 || lengths->at_least || lengths->layout.rank() != 1)) {
        return BadFile("sequence_lens (input 4) are computed from lengths; make them a graph input");
      }
      const size_t taken = input != nullptr ? input->input : lengths->input;
      if (absl::Status used = UseLengths(taken); !used.ok()) {
        return BadFile(absl::StrCat("sequence_lens (input 4): ", used.message()));
      }
      name = graph_.input(static_cast<int>(taken)).name();
    } else if (sizes == nullptr || sizes->list.size() != 1 || sizes->list[0].factor != 1 ||
               sizes->list[0].symbols.size() != 1 || symbols_.Find(sizes->list[0].symbols[0]) != Symbols::kT) {
      return BadFile("sequence_lens (input 4) are computed or fixed in the file; make them a graph input");
    }
  }
  if (!lengths_) lengths_ = name;
  if (*lengths_ == name) return absl::OkStatus();
  return BadFile(absl::StrCat("sequence_lens (input 4) are ", Quoted(name), ", but those of the first layer ",
                              Quoted(*lengths_), "; a request brings one for all layers"));
}

absl::Status Lowering::TakeState(const Call& call, size_t index) {
  if (!Has(call, index)) return absl::OkStatus();
  const GraphValue& value = *call.inputs[index];
  const std::string label = InputLabel(index, call.node.input(static_cast<int>(index)));
  if (std::holds_alternative<Zeros>(value)) return absl::OkStatus();
  if (IsFixed(call, index) || std::holds_alternative<RepeatedRows>(value)) return TakeStart(call, index);
  const auto* whole = std::get_if<GraphInput>(&value);
  const auto* part = std::get_if<InputPart>(&value);
  const auto* flow = std::get_if<Flow>(&value);
  if (flow != nullptr && IsOfRow(*flow)) return TakeComputedState(call, index);
  if (whole == nullptr && part == nullptr) {
    return BadFile(absl::StrCat(label,
                                " is computed in the graph, or comes out of another layer; it may be zeros, a graph "
                                "input, or a layer's part of one (an encoder and its decoder are two models, of which "
                                "a request to the second brings what the first gave)"));
  }
  if (layers_.back().is_sorted) {
    return BadFile(absl::StrCat(label,
                                " is in the order of the request's rows, but X in that of their lengths (PyTorch: "
                                "pack_padded_sequence with enforce_sorted=False sorts x); leave the lengths out: "
                                "requests bring sequence_lens"));
  }
  const size_t input = whole != nullptr ? whole->input : part->input;
  const onnx::ValueInfoProto& info = graph_.input(static_cast<int>(input));
  InputUse& use = inputs_[input];
  const bool is_c = index == 6;
  if (use.kind != InputUse::Kind::kUnused && (use.kind != InputUse::Kind::kState || use.is_c != is_c)) {
    return BadFile(absl::StrCat(label, " is graph input ", Quoted(info.name()), ", which is something else already"));
  }
  use.kind = InputUse::Kind::kState;
  use.is_c = is_c;
  use.type = static_cast<DataType>(info.type().tensor_type().elem_type());
  const bool is_cast = !scope_->Find(call.node.input(static_cast<int>(index)))->is_input();
  if (use.type != data_type_ && !(IsFloating(use.type) && is_cast)) {
    return BadFile(
        absl::StrCat(label, " is ", OnnxTypeName(use.type), ", but the weights are ", OnnxTypeName(data_type_)));
  }
  use.layers.push_back(layers_.size() - 1);
  use.takers.push_back({.node = &call.node, .input = call.node.input(static_cast<int>(index))});
  use.parts.emplace_back(part == nullptr ? 0 : part->first, part == nullptr ? layers_.back().directions : part->end);
  return absl::OkStatus();
}

// A state that the file fixes, the same for all rows: [D, H] of it.
absl::Status Lowering::TakeStart(const Call& call, size_t index) {
  LoweredLayer& layer = layers_.back();
  const std::string label = InputLabel(index, call.node.input(static_cast<int>(index)));
  const auto* repeated = std::get_if<RepeatedRows>(call.inputs[index]);
  const absl::StatusOr<OnnxTensor> fixed =
      repeated != nullptr ? constants_.Value(*scope_, repeated->name) : Value(call, index);
  if (!fixed.ok()) return BadFile(absl::StrCat(label, " ", fixed.status().message()));
  const TensorView& view = fixed->view;
  if (view.type != data_type_) {
    return BadFile(absl::StrCat(label, " has another data_type than the weights, ", View(DataTypeName(data_type_))));
  }
  const int64_t d = layer.directions;
  const size_t bytes = static_cast<size_t>(layer.hidden_size) * ByteSize(view.type);
  const auto count = static_cast<int64_t>(view.data.size() / bytes);  // of [H]
  // Rows of the state: of `repeated` there is one, which layers or directions may share.
  const int64_t first = repeated == nullptr || count == 1 ? 0 : std::clamp<int64_t>(repeated->first, 0, count);
  const int64_t end = repeated == nullptr || count == 1 ? count : std::min(repeated->end, count);
  const int64_t rows = repeated == nullptr ? count / d : 1;
  if (view.data.size() % bytes != 0 || rows < 1 || (end - first != d * rows && !(repeated != nullptr && count == 1))) {
    return BadFile(absl::StrCat(label, " of shape ", ShortShape(view.shape), " in the file is none of ", d,
                                " directions and ", layer.hidden_size, " units"));
  }
  std::vector<std::byte> start;
  for (int64_t direction = 0; direction < d; ++direction) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t place = count == 1            ? 0
                            : repeated != nullptr ? first + direction
                            : layer.rows_first    ? row * d + direction
                                                  : direction * rows + row;
      const std::span<const std::byte> numbers = view.data.subspan(static_cast<size_t>(place) * bytes, bytes);
      if (row == 0) {
        start.insert(start.end(), numbers.begin(), numbers.end());
      } else if (!std::ranges::equal(numbers, std::span(start).last(bytes))) {
        return BadFile(absl::StrCat(label, " is fixed in the file, other numbers for each of ", rows,
                                    " rows; make it a graph input and send it with each request"));
      }
    }
  }
  if (!AllZero(start)) (index == 6 ? layer.start.c : layer.start.h) = std::move(start);
  return absl::OkStatus();
}

absl::Status Lowering::GiveOutputs(const Call& call, int64_t layout) {
  LoweredLayer& layer = layers_.back();
  const int64_t h = layer.hidden_size, d = layer.directions;
  const Atom t = {.symbol = layer.is_turned ? Symbols::kBackT : Symbols::kT};
  const Atom n = {.symbol = layer.is_sorted ? Symbols::kSortedN : Symbols::kN};
  const LayoutAxis directions = d == 1 ? LayoutAxis{} : LayoutAxis{{.size = d, .stride = h}};
  const LayoutAxis units = {{.size = h, .stride = 1}};
  FlowNode node;
  node.kind = FlowNode::Kind::kLayerY;
  node.layer = layers_.size() - 1;
  node.width = d * h;
  const absl::StatusOr<int> y = flows_.Add(node);
  if (!y.ok()) return y.status();
  layer.y = *y;
  absl::Status given = Give(call.node, 0,
                            Flow{*y,
                                 Layout(layout == 1 ? std::vector<LayoutAxis>{{n}, {t}, directions, units}
                                                    : std::vector<LayoutAxis>{{t}, directions, {n}, units}),
                                 data_type_});
  for (int output = 1; output <= 2 && given.ok(); ++output) {
    if (output >= call.node.output_size() || call.node.output(output).empty()) continue;
    MapOp join = {.kind = MapOpKind::kConcat, .inner = d * h};
    for (int64_t direction = 0; direction < d; ++direction) {
      FlowNode last = node;
      last.kind = output == 1 ? FlowNode::Kind::kFinalH : FlowNode::Kind::kFinalC;
      last.per_step = false;
      last.width = h;
      last.direction = direction;
      const absl::StatusOr<int> made = flows_.Add(last);
      if (!made.ok()) return made.status();
      join.in.push_back(*made);
    }
    const absl::StatusOr<int> state = d == 1 ? absl::StatusOr<int>(join.in[0]) : flows_.AddOp(std::move(join), d * h);
    if (!state.ok()) return state.status();
    given = Give(call.node, output,
                 Flow{*state,
                      Layout(layout == 1 ? std::vector<LayoutAxis>{{n}, directions, units}
                                         : std::vector<LayoutAxis>{directions, {n}, units}),
                      data_type_});
  }
  return given;
}

// A state of several layers is cut layer by layer, in their order.
absl::Status Lowering::CheckStates() {
  for (size_t input = 0; input < inputs_.size(); ++input) {
    const InputUse& use = inputs_[input];
    if (use.kind != InputUse::Kind::kState) continue;
    int64_t total = 0, at = 0;
    for (const size_t layer : use.layers) total += layers_[layer].directions;
    const auto& declared = graph_.input(static_cast<int>(input)).type().tensor_type().shape();
    const bool is_of_one = declared.dim_size() == 2;  // [N, H]
    const int64_t rows = is_of_one                                                    ? 1
                         : declared.dim_size() > 0 && declared.dim(0).has_dim_value() ? declared.dim(0).dim_value()
                                                                                      : total;
    for (size_t k = 0; k < use.layers.size(); ++k) {
      const LoweredLayer& layer = layers_[use.layers[k]];
      const int64_t end = std::min(use.parts[k].second < 0 ? use.parts[k].second + total : use.parts[k].second, total);
      const bool fits = use.parts[k].first == at && end == at + layer.directions && rows == total &&
                        layer.hidden_size == layers_[use.layers[0]].hidden_size &&
                        (use.layers.size() == 1 || !layer.rows_first);
      if (!fits) {
        Blame(use.takers[k]);
        return BadFile(absl::StrCat("the initial state of ", layer.label, " is not rows ", at, " to ",
                                    at + layer.directions - 1, " of graph input ",
                                    Quoted(graph_.input(static_cast<int>(input)).name()),
                                    "; one state of all layers is cut layer by layer, in their order"));
      }
      at = end;
    }
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
