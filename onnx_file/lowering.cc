// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/lowering.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/float16.h"
#include "engine/op/stack.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/fold_call.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

constexpr int64_t kMadeAtLeast = int64_t{1} << 20;
constexpr int64_t kMadeForStored = 16;

constexpr std::string_view kQuantised =
    " is quantised: serve the file that it was made from; option weight_type = INT8 keeps its layers' weights as "
    "narrow";

bool IsQuantised(const onnx::NodeProto& node) {
  return absl::StrContains(node.op_type(), "Quantize") || absl::StrContains(node.op_type(), "Integer") ||
         absl::StrContains(node.op_type(), "NBits") || node.op_type().starts_with("QLinear");
}

// Whether a table may be looked up by what it gives as by what it takes.
bool OnlyMoves(const onnx::NodeProto& node) {
  return std::ranges::any_of(std::array{"Unsqueeze", "Reshape", "Cast", "Identity", "Transpose", "Squeeze"},
                             [&](const char* op_type) { return IsOnnxOp(node, op_type); });
}

}  // namespace

absl::Status Lowering::Run() {
  FindUses();
  inputs_.resize(static_cast<size_t>(graph_.input_size()));
  for (int k = 0; k < graph_.input_size(); ++k) input_numbers_.emplace(graph_.input(k).name(), static_cast<size_t>(k));
  // The layers' type decides what everything else is computed in.
  for (const onnx::NodeProto& node : graph_.node()) {
    if (!IsRecurrent(node) || node.input_size() < 2) continue;
    const absl::StatusOr<OnnxTensor> w = constants_.Value(*scope_, node.input(1));
    if (w.ok() && IsFloating(w->view.type)) data_type_ = w->view.type;
    break;
  }
  if (graph_.output_size() == 0) return BadFile("the graph has no outputs");
  if (std::ranges::none_of(graph_.node(), IsRecurrent)) return NoLayers();
  if (absl::Status layers = ResolveLayers(); !layers.ok()) return layers;
  for (const onnx::ValueInfoProto& output : graph_.output()) {
    if (absl::Status resolved = Resolve(output.name()); !resolved.ok()) return resolved;
    if (absl::Status checked = CheckOutput(output); !checked.ok()) return checked;
  }
  if (layers_.empty()) return NoLayers();
  TakeBeyondEnds();
  if (absl::Status masks = CheckMasks(); !masks.ok()) return masks;
  return CheckStates();
}

// Layers tell which axes are steps and rows: before masks, which nothing else tells it.
absl::Status Lowering::ResolveLayers() {
  const auto is_of_masks = [](const onnx::NodeProto& node) {
    return std::ranges::any_of(std::array{"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal",
                                          "ScatterElements", "GatherElements", "GatherND"},
                               [&](const char* op_type) { return IsOnnxOp(node, op_type); });
  };
  const auto is_lengths = [&](const onnx::ValueInfoProto& input) {
    const auto& tensor = input.type().tensor_type();
    return tensor.has_shape() && tensor.shape().dim_size() == 1 &&
           !IsFloating(static_cast<DataType>(tensor.elem_type())) && !LooksUp(input.name());
  };
  if (std::ranges::none_of(graph_.node(), is_of_masks) && std::ranges::none_of(graph_.input(), is_lengths)) {
    return absl::OkStatus();
  }
  std::vector<std::string> waiting;
  for (const onnx::ValueInfoProto& output : graph_.output()) waiting.push_back(output.name());
  std::unordered_set<const onnx::NodeProto*> needed;
  while (!waiting.empty()) {
    const Scope::Definition* definition = scope_->Find(waiting.back());
    waiting.pop_back();
    if (definition == nullptr || definition->node == nullptr || !needed.insert(definition->node).second) continue;
    for (const std::string& input : definition->node->input()) {
      if (!input.empty()) waiting.push_back(input);
    }
  }
  for (const onnx::NodeProto& node : graph_.node()) {
    if (!needed.contains(&node) || !IsRecurrent(node)) continue;
    const auto named = std::ranges::find_if(node.output(), [](const std::string& name) { return !name.empty(); });
    if (named == node.output().end()) continue;
    if (absl::Status resolved = Resolve(*named); !resolved.ok()) return resolved;
  }
  return absl::OkStatus();
}

absl::Status Lowering::NoLayers() const {
  const auto has = [&](std::string_view op_type) {
    return std::ranges::any_of(graph_.node(), [&](const onnx::NodeProto& node) { return IsOnnxOp(node, op_type); });
  };
  const std::string what = absl::StrCat("the graph has no LSTM, GRU or RNN node that its outputs need (it has ",
                                        graph_.node_size(), " nodes)");
  for (const onnx::NodeProto& node : graph_.node()) {
    if (IsQuantised(node))
      return BadFile(absl::StrCat(what, ": ", node.op_type(), " ", Quoted(node.name()), View(kQuantised)));
  }
  const auto is_call = [&](const onnx::NodeProto& node) { return !IsOnnxOp(node, node.op_type()); };
  if (const auto call = std::ranges::find_if(graph_.node(), is_call); call != graph_.node().end()) {
    return BadFile(absl::StrCat(what, ": ", NodeLabel(*call, static_cast<int>(call - graph_.node().begin())),
                                " may be one, or call a function that holds them; where the file has its function, "
                                "onnx.inliner.inline_local_functions puts its nodes into the graph"));
  }
  if (has("If")) {
    return BadFile(absl::StrCat(what,
                                ": it has an If, in whose branches they may lie; `rnnctl inspect` shows them, and "
                                "`rnnctl extract` writes them as a model of their own"));
  }
  if (has("Loop") || has("Scan")) {
    return BadFile(absl::StrCat(what,
                                ": its recurrence is a Loop or Scan of single operators; of PyTorch, export it with "
                                "dynamo=False; of Keras (tf2onnx writes GRU and SimpleRNN so), take its weights with "
                                "rnnserve.convert"));
  }
  return BadFile(absl::StrCat(what,
                              "; if the model has a recurrent layer, this export is unrolled: export it with "
                              "dynamo=False (PyTorch: torch.onnx.export(..., dynamo=False) keeps nn.RNN, nn.GRU and "
                              "nn.LSTM as one node; nn.LSTMCell and nn.GRUCell never are one: give their weights to "
                              "an nn.LSTM or nn.GRU)"));
}

absl::Status Lowering::CheckOutput(const onnx::ValueInfoProto& output) {
  const auto refuse = [&](const std::string& text) {
    Blame({.output = output.name()});
    return BadFile(
        absl::StrCat("graph output ", Quoted(output.name()), " ", text, "; drop it from the file's outputs"));
  };
  const Flow* flow = std::get_if<Flow>(&values_.at(output.name()));
  if (flow == nullptr) return refuse("is not computed from what a request brings step by step");
  if (std::ranges::find(outputs_, output.name(), &Output::name) != outputs_.end()) return refuse("comes twice");
  if (flow->type == kBoolean) return refuse("is of booleans; cast it to numbers");
  if (counted_.contains(flow->node)) {
    return refuse("is of integers that are computed as numbers, which are exact below 2^24 alone; cast it to FLOAT");
  }
  absl::StatusOr<Flow> canonical = flows_.Canonical(*flow);
  if (!canonical.ok()) return refuse(std::string(canonical.status().message()));
  outputs_.push_back({output.name(), *std::move(canonical)});
  return absl::OkStatus();
}

// Depth first on a stack of its own: a hostile chain is as long as the file.
absl::Status Lowering::Resolve(const std::string& name) {
  std::vector<std::string> waiting = {name};
  while (!waiting.empty()) {
    const std::string next = waiting.back();
    if (values_.contains(next)) {
      waiting.pop_back();
      continue;
    }
    const Scope::Definition* definition = scope_->Find(next);
    if (definition == nullptr) return BadFile(absl::StrCat(Quoted(next), " is defined by nothing in the graph"));
    if (definition->is_input()) {
      values_.emplace(next, GraphInput{input_numbers_.at(next)});
    } else if (definition->tensor != nullptr || IsOnnxOp(*definition->node, "Constant")) {
      values_.emplace(next, Fixed{});
    } else if (const std::optional<std::string> index = WrappedIndex(*definition->node)) {
      if (const auto found = values_.find(*index); found != values_.end()) {
        values_.emplace(next, found->second);
      } else if (!open_.insert(definition->node).second) {
        return BadFile(absl::StrCat(Quoted(next), " is computed from itself: the graph has a cycle"));
      } else {
        waiting.push_back(*index);
      }
    } else {
      const onnx::NodeProto& node = *definition->node;
      bool is_ready = true;
      // The last one first, so that the first is read first: of a masked mean the sum, which tells the mask its axes.
      for (int k = node.input_size() - 1; k >= 0; --k) {
        const std::string& input = node.input(k);
        if (input.empty() || values_.contains(input)) continue;
        const Scope::Definition* source = scope_->Find(input);
        if (source != nullptr && source->node != nullptr && open_.contains(source->node)) {
          return BadFile(absl::StrCat(scope_->Label(node, definition->node_index), " takes ", Quoted(input),
                                      ", which is computed from it: the graph has a cycle"));
        }
        waiting.push_back(input);
        is_ready = false;
      }
      if (!is_ready) {
        open_.insert(&node);
        continue;
      }
      open_.erase(&node);
      if (absl::Status evaluated = Evaluate(*definition); !evaluated.ok()) {
        obstacle_.node = &node;
        obstacle_.label = scope_->Label(node, definition->node_index);
        return evaluated;
      }
      wanted_features_.clear();
      if (!values_.contains(next)) {
        Blame({.node = &node});
        return BadFile(absl::StrCat("output ", Quoted(next), " of ", scope_->Label(node, definition->node_index),
                                    " is not supported"));
      }
    }
  }
  return absl::OkStatus();
}

std::optional<int64_t> Lowering::FixedInteger(const std::string& name) {
  const absl::StatusOr<OnnxTensor> value = constants_.Value(*scope_, name);
  if (!value.ok() || IsFloating(value->view.type) || NumElements(value->view.shape) != 1) return std::nullopt;
  return IntAt(value->view, 0);
}

bool Lowering::IsZero(const std::string& name) {
  const absl::StatusOr<OnnxTensor> value = constants_.Value(*scope_, name);
  return value.ok() && NumElements(value->view.shape) == 1 && AllZero(value->view.data);
}

const onnx::NodeProto* Lowering::MadeBy(const std::string& name, const char* op_type, int inputs) const {
  const Scope::Definition* made = scope_->Find(name);
  if (made == nullptr || made->node == nullptr) return nullptr;
  return IsOnnxOp(*made->node, op_type) && made->node->input_size() == inputs ? made->node : nullptr;
}

std::optional<std::string> Lowering::WrappedIndex(const onnx::NodeProto& node) {
  if (node.output_size() != 1 || otherwise_used_.contains(node.output(0))) return std::nullopt;
  // The input itself where there is no Cast.
  const auto before_cast = [&](const std::string& name) {
    const onnx::NodeProto* cast = MadeBy(name, "Cast", 1);
    return cast == nullptr ? name : cast->input(0);
  };
  std::string x, is_negative;
  const onnx::NodeProto* sum = nullptr;
  if (IsOnnxOp(node, "Where") && node.input_size() == 3) {  // x < 0 ? x + entries : x
    x = node.input(2);
    is_negative = node.input(0);
    sum = MadeBy(node.input(1), "Add", 2);
  } else if (IsOnnxOp(node, "Add") && node.input_size() == 2) {  // (x < 0) * (x + entries) + x * !(x < 0), of tf2onnx
    const onnx::NodeProto *wrapped = MadeBy(node.input(0), "Mul", 2), *kept = MadeBy(node.input(1), "Mul", 2);
    const onnx::NodeProto* negated = kept == nullptr ? nullptr : MadeBy(before_cast(kept->input(1)), "Not", 1);
    if (wrapped == nullptr || negated == nullptr) return std::nullopt;
    x = kept->input(0);
    is_negative = before_cast(wrapped->input(0));
    if (negated->input(0) != is_negative) return std::nullopt;
    sum = MadeBy(wrapped->input(1), "Add", 2);
  }
  const onnx::NodeProto* less = sum == nullptr ? nullptr : MadeBy(is_negative, "Less", 2);
  if (less == nullptr || sum->input(0) != x || !IsZero(less->input(1))) return std::nullopt;
  if (less->input(0) != x && before_cast(less->input(0)) != x) return std::nullopt;
  const std::optional<int64_t> entries = FixedInteger(sum->input(1));
  if (!entries) return std::nullopt;
  wrapped_.emplace(node.output(0), *entries);
  return x;
}

absl::Status Lowering::Evaluate(const Scope::Definition& definition) {
  const onnx::NodeProto& node = *definition.node;
  if (!done_.insert(&node).second) return absl::OkStatus();
  Call call = {node, scope_->Label(node, definition.node_index), {}};
  bool all_fixed = node.input_size() > 0;
  for (const std::string& input : node.input()) {
    call.inputs.push_back(input.empty() ? nullptr : &values_.at(input));
    all_fixed &= input.empty() || std::holds_alternative<Fixed>(values_.at(input));
  }
  if (IsRecurrent(node)) return Layer(call);
  const bool repeats = IsOnnxOp(node, "Expand") || IsOnnxOp(node, "Tile");
  const bool is_state = repeats && !constants_.Value(*scope_, node.output(0)).ok();  // which no constant is made of
  if (all_fixed && !IsOnnxOp(node, "ConstantOfShape") && !is_state) {
    for (const std::string& output : node.output()) values_.emplace(output, Fixed{});
    return absl::OkStatus();
  }
  const Handler handler = HandlerOf(node);
  if (handler == nullptr) return Unsupported(call);
  if (!Has(call, 0)) return BadFile(absl::StrCat(call.label, " has no input 0"));
  const int first = static_cast<int>(flows_.nodes().size());
  Result result = (this->*handler)(call);
  if (!result.ok()) {
    return BadFile(absl::StrCat(call.label, " ", result.status().message()));
  }
  for (int made = first; made < static_cast<int>(flows_.nodes().size()); ++made) {
    if (flows_.at(made).kind == FlowNode::Kind::kOverTime) end_makers_[made] = {.node = &node, .label = call.label};
  }
  if (!IsOnnxOp(node, "Cast") && Computes(first)) result = InItsType(call, *std::move(result));
  if (!result.ok()) return BadFile(absl::StrCat(call.label, " ", result.status().message()));
  if (const auto wrapped = wrapped_.find(node.input(0)); wrapped != wrapped_.end() && OnlyMoves(node)) {
    wrapped_.emplace(node.output(0), wrapped->second);
  }
  return Give(node, 0, *std::move(result));
}

bool Lowering::Knows(const onnx::NodeProto& node) { return IsRecurrent(node) || HandlerOf(node) != nullptr; }

bool Lowering::IsZeros(const std::string& name) const {
  const auto found = values_.find(name);
  return found != values_.end() && std::holds_alternative<Zeros>(found->second);
}

absl::Status Lowering::Unsupported(const Call& call) const {
  if (IsQuantised(call.node)) return BadFile(absl::StrCat(call.label, View(kQuantised)));
  const bool loops = std::ranges::any_of(
      graph_.node(), [](const onnx::NodeProto& node) { return IsOnnxOp(node, "Loop") || IsOnnxOp(node, "Scan"); });
  if (IsOnnxOp(call.node, "If")) {
    return BadFile(absl::StrCat(call.label,
                                " chooses a branch by what is not fixed in the file, and a served model has one: fix "
                                "its condition and simplify the file (onnxsim), or `rnnctl split` leaves it to "
                                "onnxruntime"));
  }
  return BadFile(absl::StrCat(
      call.label,
      " is an operator that a served model cannot have; before, between and after the LSTM, GRU and RNN nodes "
      "a file may compute what looks at one step alone (Gather, MatMul, Gemm, Add, Softmax, LayerNormalization, TopK, "
      "...) "
      "and end sequences by their last step or a mean or maximum over time. ",
      call.node.domain().empty() || call.node.domain() == "ai.onnx"
          ? ""
          : "If it calls a function of the file, onnx.inliner.inline_local_functions puts the function's nodes in its "
            "place. ",
      loops ? "The file has a Loop or Scan: a recurrent layer may have been exported as one (tf2onnx does so for "
              "Keras' GRU and "
              "SimpleRNN; take its weights with rnnserve.convert), or Keras' TimeDistributed (leave it out: Dense "
              "computes each step by itself). "
            : "",
      IsOnnxOp(call.node, "Size") ? "PyTorch writes torch.tile so with dynamo=False; x.repeat(...) is the same. " : "",
      "`rnnctl split` cuts the file there: it writes what is served as a model of its own, and what comes before and "
      "after it as files for onnxruntime"));
}

absl::Status Lowering::Give(const onnx::NodeProto& node, int output, GraphValue value) {
  if (output < node.output_size() && !node.output(output).empty()) {
    values_.emplace(node.output(output), std::move(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<OnnxTensor> Lowering::Value(const Call& call, size_t index) {
  const std::string& name = call.node.input(static_cast<int>(index));
  if (!IsFixed(call, index)) return BadFile(absl::StrCat("takes ", Quoted(name), ", which the file does not fix"));
  absl::StatusOr<OnnxTensor> value = constants_.Value(*scope_, name);
  if (!value.ok()) return BadFile(absl::StrCat("takes ", Quoted(name), ", which ", value.status().message()));
  return value;
}

absl::StatusOr<std::optional<std::vector<int64_t>>> Lowering::Ints(const Call& call, std::string_view name,
                                                                   size_t index, size_t most) {
  const bool is_input = FindAttribute(call.node, name) == nullptr && Has(call, index);
  const auto* sizes = is_input ? std::get_if<Sizes>(call.inputs[index]) : nullptr;
  if (sizes != nullptr && std::ranges::all_of(sizes->list, &Size::is_constant)) {  // of features, computed
    std::vector<int64_t> list;
    for (const Size& size : sizes->list) list.push_back(size.factor);
    return list;
  }
  std::vector<OnnxTensor> values(index + 1);
  std::vector<const OnnxTensor*> inputs(index + 1, nullptr);
  if (is_input) {
    absl::StatusOr<OnnxTensor> value = Value(call, index);
    if (!value.ok()) return value.status();
    values[index] = *std::move(value);
    inputs[index] = &values[index];
  }
  int64_t no_bytes = 0;
  return FoldCall{call.node, inputs, no_bytes}.Ints(name, index, most);
}

absl::StatusOr<Sizes> Lowering::SizesOf(const Call& call, size_t index) {
  if (!Has(call, index)) return BadFile(absl::StrCat("has no input ", index));
  if (const auto* sizes = std::get_if<Sizes>(call.inputs[index])) return *sizes;
  if (!IsFixed(call, index)) {
    return BadFile(absl::StrCat("takes ", Quoted(call.node.input(static_cast<int>(index))),
                                ", which is neither sizes nor fixed in the file"));
  }
  const absl::StatusOr<OnnxTensor> value = Value(call, index);
  if (!value.ok()) return value.status();
  const TensorView& view = value->view;
  const size_t count = ByteSize(view.type) == 0 ? 0 : view.data.size() / ByteSize(view.type);
  if (IsFloating(view.type) || view.shape.size() > 1 || count > kMaxRank) {
    return BadFile(
        absl::StrCat("takes ", Quoted(call.node.input(static_cast<int>(index))), ", which is no list of sizes"));
  }
  Sizes sizes = {.list = {}, .is_scalar = view.shape.empty()};
  for (size_t k = 0; k < count; ++k) sizes.list.emplace_back(IntAt(view, static_cast<int64_t>(k)));
  return sizes;
}

absl::StatusOr<Flow> Lowering::FlowOf(const Call& call, size_t index) {
  if (!Has(call, index)) return BadFile(absl::StrCat("has no input ", index));
  if (const auto* flow = std::get_if<Flow>(call.inputs[index])) return *flow;
  if (const auto* input = std::get_if<GraphInput>(call.inputs[index])) return AsSteps(input->input);
  if (std::holds_alternative<RepeatedRows>(*call.inputs[index])) {
    return BadFile("takes numbers that the file fixes and repeats over rows or steps, which only a layer starts from");
  }
  return BadFile(absl::StrCat("takes ", Quoted(call.node.input(static_cast<int>(index))),
                              ", which is no number of a step (but sizes, a part of a state, or fixed in the file)"));
}

int64_t Lowering::IntOf(const Call& call, std::string_view name, int64_t otherwise) const {
  const onnx::AttributeProto* attribute = FindAttribute(call.node, name);
  return attribute == nullptr ? otherwise : attribute->i();
}

double Lowering::FloatOf(const Call& call, std::string_view name, double otherwise) const {
  const onnx::AttributeProto* attribute = FindAttribute(call.node, name);
  return attribute == nullptr ? otherwise : static_cast<double>(attribute->f());
}

absl::StatusOr<std::vector<double>> Lowering::Doubles(const OnnxTensor& tensor, std::string_view what) {
  const TensorView& view = tensor.view;
  const size_t count = ByteSize(view.type) == 0 ? 0 : view.data.size() / ByteSize(view.type);
  const int64_t allowed = kMadeAtLeast + kMadeForStored * constants_.stored_bytes();
  made_bytes_ += static_cast<int64_t>(count * sizeof(double));
  if (made_bytes_ > allowed) {
    return BadFile(absl::StrCat("needs more memory for its ", View(what), " than what the file stores explains"));
  }
  std::vector<double> values(count);
  if (IsFloating(view.type)) {
    ConvertElements(view.type, view.data.data(), DataType::kDouble, reinterpret_cast<std::byte*>(values.data()), count);
  } else {
    for (size_t k = 0; k < count; ++k) values[k] = static_cast<double>(IntAt(view, static_cast<int64_t>(k)));
  }
  return values;
}

absl::StatusOr<MapNumbersPtr> Lowering::Numbers(const std::vector<double>& values) {
  auto numbers = std::make_shared<MapNumbers>();
  if (data_type_ == DataType::kDouble) {
    numbers->f64 = values;
  } else {
    numbers->f32.assign(values.begin(), values.end());
  }
  return numbers;
}

}  // namespace rnnserve
