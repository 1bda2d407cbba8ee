// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/inlined.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

constexpr int kMostDepth = 32;
constexpr size_t kMostNodes = size_t{1} << 16;
constexpr size_t kMostBytes = size_t{1} << 26;  // of memory
constexpr size_t kMostPrefix = 256;             // names within names

using Naming = std::function<std::string(const std::string&)>;

bool IsDefault(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

std::string KeyOf(const std::string& domain, const std::string& name) {
  return absl::StrCat(IsDefault(domain) ? "" : domain, "\n", name);
}

int64_t DefaultOpset(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  const auto found = std::ranges::find_if(imports, [](const auto& import) { return IsDefault(import.domain()); });
  return found == imports.end() ? 0 : found->version();
}

class Inliner {
 public:
  explicit Inliner(onnx::ModelProto& model) : model_(model) {
    for (const onnx::FunctionProto& function : model.functions()) {
      if (IsPlain(function)) {
        functions_.emplace(KeyOf(function.domain(), function.name()), &function);
      }
    }
  }

  absl::Status Run() {
    onnx::GraphProto& graph = *model_.mutable_graph();
    const auto stands_for_others = [this](const onnx::NodeProto& node) {
      return functions_.contains(KeyOf(node.domain(), node.op_type())) || IsOnnxOp(node, "If");
    };
    if (std::ranges::none_of(graph.node(), stands_for_others)) return absl::OkStatus();
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    nodes.Swap(graph.mutable_node());
    for (const onnx::TensorProto& tensor : graph.initializer()) NoteCondition(tensor.name(), tensor);
    for (onnx::NodeProto& node : nodes) {
      if (absl::Status added = Add(std::move(node), 0); !added.ok()) return added;
    }
    for (auto& [key, function] : functions_) {
      if (called_.contains(key)) Remove(*function);
    }
    return absl::OkStatus();
  }

 private:
  // Defaults of attributes and overloads are of a newer format than what is read here.
  bool IsPlain(const onnx::FunctionProto& function) const {
    constexpr int kAttributeProto = 11, kOverload = 13;
    const auto& unknown = function.unknown_fields();
    for (int k = 0; k < unknown.field_count(); ++k) {
      if (unknown.field(k).number() == kAttributeProto || unknown.field(k).number() == kOverload) return false;
    }
    const int64_t opset = DefaultOpset(function.opset_import());
    return opset == 0 || opset == DefaultOpset(model_.opset_import());
  }

  // What calls come to, of all that is copied for them on the way too. False: too much.
  bool Spend(size_t nodes, size_t bytes) {
    nodes_ += nodes;
    bytes_ += bytes;
    return nodes_ <= kMostNodes && bytes_ <= kMostBytes;
  }

  static absl::Status TooMuch() {
    return BadFile(absl::StrCat("calls of functions come to more than ", kMostNodes, " nodes or ", kMostBytes,
                                " bytes; inline them: onnx.inliner.inline_local_functions"));
  }

  absl::Status Add(onnx::NodeProto node, int depth) {
    const auto found = functions_.find(KeyOf(node.domain(), node.op_type()));
    if (found != functions_.end()) {
      called_.insert(found->first);
      return Call(node, *found->second, depth);
    }
    if (const onnx::GraphProto* branch = TakenBranch(node)) return Splice(node, *branch, depth);
    if (const onnx::AttributeProto* value = FindAttribute(node, "value");
        IsOnnxOp(node, "Constant") && value != nullptr && node.output_size() == 1) {
      NoteCondition(node.output(0), value->t());
    }
    *model_.mutable_graph()->add_node() = std::move(node);
    return absl::OkStatus();
  }

  void NoteCondition(const std::string& name, const onnx::TensorProto& tensor) {
    if (const std::optional<bool> holds = BooleanOf(tensor)) conditions_.emplace(name, *holds);
  }

  // The branch that an If of a fixed condition takes; null: it is no such node.
  const onnx::GraphProto* TakenBranch(const onnx::NodeProto& node) const {
    if (!IsOnnxOp(node, "If") || node.input_size() != 1) return nullptr;
    const auto condition = conditions_.find(node.input(0));
    if (condition == conditions_.end()) return nullptr;
    const onnx::AttributeProto* branch = FindAttribute(node, condition->second ? "then_branch" : "else_branch");
    return branch == nullptr || branch->g().output_size() != node.output_size() ? nullptr : &branch->g();
  }

  std::string NewPrefix(const onnx::NodeProto& node) {
    const std::string& name = node.name().empty() ? node.op_type() : node.name();
    return absl::StrCat(name.size() > kMostPrefix ? "" : name, "/", ++prefixes_, "/");
  }

  absl::Status AddIdentity(const std::string& from, const std::string& to) {
    if (!Spend(1, from.size() + 2 * to.size())) return TooMuch();
    onnx::NodeProto node;
    node.set_op_type("Identity");
    node.set_name(to);
    node.add_input(from);
    node.add_output(to);
    return Add(std::move(node), 1);
  }

  // The nodes of `body`, which `node` stands for, by names of the graph.
  template <typename Prepare>
  absl::Status AddBody(const onnx::NodeProto& node, const google::protobuf::RepeatedPtrField<onnx::NodeProto>& body,
                       const Naming& naming, const std::string& prefix, int depth, const Prepare& prepare) {
    if (depth >= kMostDepth) {
      return BadFile(absl::StrCat("function ", Quoted(node.op_type()), " calls itself, or others too deep"));
    }
    for (const onnx::NodeProto& of_body : body) {
      if (!Spend(1, of_body.SpaceUsedLong() + prefix.size())) return TooMuch();
      onnx::NodeProto inner = of_body;
      if (!prepare(inner) || !Rename(naming, inner)) return TooMuch();
      inner.set_name(absl::StrCat(prefix, inner.name()));
      if (absl::Status added = Add(std::move(inner), depth + 1); !added.ok()) return added;
    }
    return absl::OkStatus();
  }

  // False: too much, as of the next.
  bool Rename(const Naming& naming, onnx::NodeProto& node) {
    const auto rename = [&](std::string& name) {
      name = naming(name);
      return Spend(0, name.size());
    };
    if (!std::ranges::all_of(*node.mutable_input(), rename)) return false;
    if (!std::ranges::all_of(*node.mutable_output(), rename)) return false;
    return std::ranges::all_of(*node.mutable_attribute(), [&](onnx::AttributeProto& attribute) {
      if (!attribute.has_g()) return true;
      onnx::GraphProto& graph = *attribute.mutable_g();
      graph.clear_value_info();
      const auto rename_its = [&](auto& named) { return rename(*named.mutable_name()); };
      return std::ranges::all_of(*graph.mutable_input(), rename_its) &&
             std::ranges::all_of(*graph.mutable_output(), rename_its) &&
             std::ranges::all_of(*graph.mutable_initializer(), rename_its) &&
             std::ranges::all_of(*graph.mutable_node(), [&](onnx::NodeProto& inner) { return Rename(naming, inner); });
    });
  }

  // Attributes that refer to those of the call; without one there is none. Those of the call itself are not looked
  // into.
  bool BindAttributes(const onnx::NodeProto& call, onnx::NodeProto& node) {
    auto attributes = std::move(*node.mutable_attribute());
    node.clear_attribute();
    for (onnx::AttributeProto& attribute : attributes) {
      if (!attribute.ref_attr_name().empty()) {
        const onnx::AttributeProto* bound = FindAttribute(call, attribute.ref_attr_name());
        if (bound == nullptr) continue;
        if (!Spend(0, bound->SpaceUsedLong())) return false;
        onnx::AttributeProto& made = *node.add_attribute() = *bound;
        made.set_name(attribute.name());
        continue;
      }
      for (int k = 0; attribute.has_g() && k < attribute.g().node_size(); ++k) {
        if (!BindAttributes(call, *attribute.mutable_g()->mutable_node(k))) return false;
      }
      *node.add_attribute() = std::move(attribute);
    }
    return true;
  }

  absl::Status Call(const onnx::NodeProto& node, const onnx::FunctionProto& function, int depth) {
    const std::string prefix = NewPrefix(node);
    std::unordered_map<std::string, std::string> names = {{"", ""}};
    for (int k = 0; k < function.input_size(); ++k) {
      names.emplace(function.input(k), k < node.input_size() ? node.input(k) : "");
    }
    const Naming naming = [&](const std::string& name) {
      const auto known = names.find(name);
      return known == names.end() ? prefix + name : known->second;
    };
    absl::Status added = AddBody(node, function.node(), naming, prefix, depth,
                                 [&](onnx::NodeProto& inner) { return BindAttributes(node, inner); });
    for (int k = 0; added.ok() && k < std::min(function.output_size(), node.output_size()); ++k) {
      if (!node.output(k).empty()) added = AddIdentity(naming(function.output(k)), node.output(k));
    }
    return added;
  }

  absl::Status Splice(const onnx::NodeProto& node, const onnx::GraphProto& branch, int depth) {
    const std::string prefix = NewPrefix(node);
    std::unordered_set<std::string> own;
    for (const onnx::TensorProto& tensor : branch.initializer()) own.insert(tensor.name());
    for (const onnx::NodeProto& inner : branch.node()) own.insert(inner.output().begin(), inner.output().end());
    own.erase("");
    const Naming naming = [&](const std::string& name) { return own.contains(name) ? prefix + name : name; };
    for (const onnx::TensorProto& tensor : branch.initializer()) {
      if (depth > 0 && !Spend(0, tensor.SpaceUsedLong())) return TooMuch();
      onnx::TensorProto& moved = *model_.mutable_graph()->add_initializer() = tensor;
      moved.set_name(naming(tensor.name()));
    }
    absl::Status added = AddBody(node, branch.node(), naming, prefix, depth, [](onnx::NodeProto&) { return true; });
    for (int k = 0; added.ok() && k < node.output_size(); ++k) {
      if (!node.output(k).empty()) added = AddIdentity(naming(branch.output(k).name()), node.output(k));
    }
    return added;
  }

  // Its nodes are in the graph now.
  void Remove(const onnx::FunctionProto& function) {
    auto& all = *model_.mutable_functions();
    for (int k = 0; k < all.size(); ++k) {
      if (&all[k] == &function) return all.DeleteSubrange(k, 1);
    }
  }

  onnx::ModelProto& model_;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::unordered_set<std::string> called_;
  std::unordered_map<std::string, bool> conditions_;
  int prefixes_ = 0;
  size_t nodes_ = 0, bytes_ = 0;
};

}  // namespace

absl::Status Inline(onnx::ModelProto& model) { return Inliner(model).Run(); }

}  // namespace rnnserve
