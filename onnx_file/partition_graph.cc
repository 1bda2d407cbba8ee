// SPDX-License-Identifier: Apache-2.0
// The graph of a Partition: which node takes what of which, and what lies on the boundaries.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/node.h"
#include "onnx_file/partition.h"
#include "onnx_file/value_types.h"

namespace rnnserve {
namespace {

constexpr std::string_view kRandomOps[] = {"RandomNormal",      "RandomUniform", "RandomNormalLike",
                                           "RandomUniformLike", "Bernoulli",     "Multinomial"};

void AddCaptured(const onnx::GraphProto& graph, std::vector<std::string>& uses) {
  std::unordered_set<std::string> own;
  for (const auto& tensor : graph.initializer()) own.insert(tensor.name());
  for (const auto& input : graph.input()) own.insert(input.name());
  for (const auto& node : graph.node()) own.insert(node.output().begin(), node.output().end());
  const auto add = [&](const std::string& name) {
    if (!name.empty() && !own.contains(name)) uses.push_back(name);
  };
  for (const auto& node : graph.node()) std::ranges::for_each(UsedNames(node), add);
  for (const auto& output : graph.output()) add(output.name());  // a branch may hand on what lies around it
}

// 0: as the file says, if it does.
void SetShape(onnx::ValueInfoProto& info, int32_t type, const std::vector<int64_t>& shape) {
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  auto& dims = *tensor.mutable_shape()->mutable_dim();
  if (static_cast<size_t>(dims.size()) != shape.size()) dims.Clear();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    auto& dim = static_cast<size_t>(dims.size()) == axis ? *dims.Add() : dims[static_cast<int>(axis)];
    if (shape[axis] > 0) dim.set_dim_value(shape[axis]);
  }
}

}  // namespace

std::vector<std::string> UsedNames(const onnx::NodeProto& node) {
  std::vector<std::string> uses;
  std::ranges::copy_if(node.input(), std::back_inserter(uses), [](const std::string& name) { return !name.empty(); });
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) AddCaptured(attribute.g(), uses);
    for (const onnx::GraphProto& graph : attribute.graphs()) AddCaptured(graph, uses);
  }
  return uses;
}

absl::StatusOr<Partition> Partition::Create(const File& file, const std::vector<int>& layers, Lowering::Ends ends) {
  Partition made(file, ends);
  absl::StatusOr<std::unique_ptr<const Scope>> scope = Scope::Create(file.graph);
  if (!scope.ok()) return scope.status();
  made.scope_ = *std::move(scope);
  if (absl::Status indexed = made.Index(layers); !indexed.ok()) return indexed;
  return made;
}

absl::Status Partition::Index(const std::vector<int>& layers) {
  for (int k = 0; k < graph_.input_size(); ++k) input_order_.emplace(graph_.input(k).name(), k);
  for (const auto* infos : {&graph_.value_info(), &graph_.output(), &graph_.input()}) {
    for (const onnx::ValueInfoProto& info : *infos) infos_[info.name()] = &info;
  }
  types_ = ValueTypes(graph_);
  nodes_.resize(static_cast<size_t>(graph_.node_size()));
  for (int k = 0; k < graph_.node_size(); ++k) {
    at(k).proto = &graph_.node(k);
    at(k).uses = UsedNames(graph_.node(k));
    if (IsRecurrent(graph_.node(k))) {
      for (const std::string& name : at(k).uses) recurrent_takers_[name].push_back(k);
      const auto& inputs = graph_.node(k).input();
      if (inputs.size() > static_cast<int>(kLengthsInput)) lengths_.insert(inputs[kLengthsInput]);
    }
    for (const std::string& output : graph_.node(k).output()) makers_.emplace(output, k);
  }
  makers_.erase("");
  lengths_.erase("");
  for (const onnx::NodeProto& node : graph_.node()) {
    const bool is_cast = IsOnnxOp(node, "Cast") && node.input_size() == 1 && node.output_size() == 1;
    if (is_cast && lengths_.contains(node.output(0))) lengths_.insert(node.input(0));
  }
  for (int k = 0; k < graph_.node_size(); ++k) {
    for (const std::string& name : at(k).uses) {
      if (scope_->Find(name) == nullptr) {
        return BadFile(absl::StrCat(Label(k), " takes ", Quoted(name), ", which nothing in the graph defines"));
      }
      const int maker = MakerNode(name);
      if (maker < 0) continue;
      at(k).makers.push_back(maker);
      at(maker).takers.push_back(k);
    }
  }
  for (const onnx::ValueInfoProto& output : graph_.output()) {
    if (MakerNode(output.name()) < 0) {
      return BadFile(absl::StrCat("graph output ", Quoted(output.name()), " is computed by no node; drop it"));
    }
    outputs_.insert(output.name());
  }
  Trim();
  for (const int layer : layers) {
    if (at(layer).is_needed) layers_.insert(layer);
  }
  if (layers_.empty()) {
    return BadFile(layers.size() == 1
                       ? absl::StrCat(Label(layers[0]), " computes nothing that the graph's outputs need")
                       : "has no LSTM, GRU or RNN node that its outputs need");
  }
  const absl::StatusOr<std::vector<int>> sorted = Sorted();
  if (!sorted.ok()) return sorted.status();
  for (const int k : *sorted) {
    Node& node = at(k);
    const auto is_open = [this](const std::string& name) { return scope_->Find(name)->is_input(); };
    node.is_constant = !IsRecurrent(*node.proto) && !IsOnnxOp(*node.proto, kRandomOps) &&
                       (!node.uses.empty() || IsOnnxOp(*node.proto, "Constant")) &&
                       std::ranges::none_of(node.uses, is_open) &&
                       std::ranges::all_of(node.makers, [this](int maker) { return at(maker).is_constant; });
    node.has_layer =
        IsRecurrent(*node.proto) || std::ranges::any_of(node.makers, [this](int maker) { return at(maker).has_layer; });
  }
  for (Node& node : nodes_) node.is_constant |= IsCastOfLengths(*node.proto);
  for (auto k = sorted->rbegin(); k != sorted->rend(); ++k) {
    at(*k).feeds_layer =
        IsLayer(*k) || std::ranges::any_of(at(*k).takers, [this](int taker) { return at(taker).feeds_layer; });
  }
  return absl::OkStatus();
}

// A part takes one input of lengths, in whatever types its nodes take them: each part casts for itself.
bool Partition::IsCastOfLengths(const onnx::NodeProto& node) const {
  if (!IsOnnxOp(node, "Cast") || node.input_size() != 1) return false;
  const auto input = input_order_.find(node.input(0));
  const auto is_list = [](const onnx::TypeProto::Tensor& type) {
    return type.has_shape() && type.shape().dim_size() == 1 && !IsFloating(static_cast<DataType>(type.elem_type()));
  };
  const onnx::AttributeProto* to = FindAttribute(node, "to");
  return input != input_order_.end() && is_list(graph_.input(input->second).type().tensor_type()) && to != nullptr &&
         (to->i() == onnx::TensorProto::INT32 || to->i() == onnx::TensorProto::INT64);
}

// Makers before takers.
absl::StatusOr<std::vector<int>> Partition::Sorted() const {
  std::vector<size_t> missing(nodes_.size());
  std::vector<int> sorted;
  for (size_t k = 0; k < nodes_.size(); ++k) {
    missing[k] = nodes_[k].makers.size();
    if (missing[k] == 0) sorted.push_back(static_cast<int>(k));
  }
  for (size_t k = 0; k < sorted.size(); ++k) {
    for (const int taker : at(sorted[k]).takers) {
      if (--missing[static_cast<size_t>(taker)] == 0) sorted.push_back(taker);
    }
  }
  if (sorted.size() == nodes_.size()) return sorted;
  const auto left = std::ranges::find_if(missing, [](size_t count) { return count > 0; });
  return BadFile(
      absl::StrCat(Label(static_cast<int>(left - missing.begin())), " is computed from itself: the graph has a cycle"));
}

std::string Partition::Label(int node) const { return scope_->Label(graph_.node(node), node); }

int Partition::MakerNode(const std::string& name) const {
  const auto found = makers_.find(name);
  return found == makers_.end() ? -1 : found->second;
}

// Marks what the graph's outputs need.
void Partition::Trim() {
  std::vector<int> waiting;
  for (Node& node : nodes_) node.is_needed = false;
  for (const std::string& output : outputs_) waiting.push_back(MakerNode(output));
  while (!waiting.empty()) {
    const int next = waiting.back();
    waiting.pop_back();
    if (std::exchange(at(next).is_needed, true)) continue;
    waiting.insert(waiting.end(), at(next).makers.begin(), at(next).makers.end());
  }
}

Partition::Boundary Partition::BoundaryOf(Part part) const {
  const auto is_of = [part](const Node& node) { return node.is_needed && !node.is_constant && node.part == part; };
  std::vector<int> waiting;
  std::unordered_set<std::string> wanted;  // outside
  for (int k = 0; k < graph_.node_size(); ++k) {
    const Node& node = at(k);
    const bool is_constant_output =
        part == Part::kAfter && node.is_constant && node.is_needed &&
        std::ranges::any_of(node.proto->output(), [this](const std::string& name) { return outputs_.contains(name); });
    if (is_of(node) || is_constant_output) waiting.push_back(k);
    if (!is_of(node) && node.is_needed) wanted.insert(node.uses.begin(), node.uses.end());
  }
  std::set<int> inside;
  std::set<std::pair<int, std::string>> inputs;
  std::set<std::tuple<int, int, std::string>> outputs;
  std::set<std::string> stored;
  while (!waiting.empty()) {
    const int k = waiting.back();
    waiting.pop_back();
    if (!inside.insert(k).second) continue;
    for (const std::string& name : at(k).uses) {
      const int maker = MakerNode(name);
      if (maker >= 0 && at(maker).is_constant) {
        waiting.push_back(maker);
      } else if (maker >= 0) {
        if (at(maker).part != part) inputs.insert({maker, name});
      } else if (scope_->Find(name)->tensor != nullptr) {
        stored.insert(name);
      } else {
        inputs.insert({input_order_.at(name) - graph_.input_size(), name});
      }
    }
    for (int output = 0; output < at(k).proto->output_size(); ++output) {
      const std::string& name = at(k).proto->output(output);
      const bool is_graphs = outputs_.contains(name) && (part == Part::kAfter || !at(k).is_constant);
      if (!name.empty() && (is_graphs || (!at(k).is_constant && wanted.contains(name))))
        outputs.insert({k, output, name});
    }
  }
  Boundary made;
  for (const int k : inside) made.nodes.push_back(at(k).proto);
  for (const std::string& name : stored) made.initializers.push_back(scope_->Find(name)->tensor);
  for (const auto& [order, name] : inputs) made.inputs.push_back(name);
  for (const auto& [maker, output, name] : outputs) made.outputs.push_back(name);
  return made;
}

std::optional<Partition::Part> Partition::MakerOf(const std::string& name) const {
  const int maker = MakerNode(name);
  if (maker < 0) return std::nullopt;
  return at(maker).is_constant ? Part::kAfter : at(maker).part;
}

onnx::ValueInfoProto Partition::Describe(const std::string& name) const {
  onnx::ValueInfoProto info;
  if (const auto found = infos_.find(name); found != infos_.end()) info = *found->second;
  info.set_name(name);
  if (const auto type = types_.find(name);
      type != types_.end() && info.type().value_case() == info.type().VALUE_NOT_SET) {
    info.mutable_type()->mutable_tensor_type()->set_elem_type(type->second);
  }
  const auto& shape = info.type().tensor_type().shape();
  if (lengths_.contains(name)) {
    const int32_t type = info.type().tensor_type().elem_type();
    SetShape(info, type == 0 ? onnx::TensorProto::INT32 : type, {0});
    return info;
  }
  if (shape.dim_size() == 3 && shape.dim(2).dim_value() > 0) return info;
  // What a layer takes has the operator's axes.
  const auto takers = recurrent_takers_.find(name);
  if (takers == recurrent_takers_.end()) return info;
  for (const int taker : takers->second) {
    const onnx::NodeProto& node = *at(taker).proto;
    const auto& taken = node.input();
    const auto index = static_cast<size_t>(std::ranges::find(taken, name) - taken.begin());
    if (at(taker).part != Part::kServed || taken.size() < 3 || IsWeightInput(index)) continue;
    const absl::StatusOr<OnnxTensor> w = constants_->Value(*scope_, taken[1]), r = constants_->Value(*scope_, taken[2]);
    if (!w.ok() || !r.ok() || w->view.shape.size() != 3 || r->view.shape.size() != 3) continue;
    const onnx::AttributeProto* layout = FindAttribute(node, "layout");
    const int64_t directions = w->view.shape[0], hidden_size = r->view.shape[2];
    const auto type = static_cast<int32_t>(w->view.type);
    if (index == 0) {
      SetShape(info, type, {0, 0, w->view.shape[2]});
    } else if (IsStateInput(index)) {
      const bool rows_first = layout != nullptr && layout->i() == 1;
      SetShape(info, type, {rows_first ? 0 : directions, rows_first ? directions : 0, hidden_size});
    }
    break;
  }
  return info;
}

}  // namespace rnnserve
