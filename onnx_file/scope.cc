// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/scope.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/node.h"

namespace rnnserve {

absl::StatusOr<std::unique_ptr<const Scope>> Scope::Create(const onnx::GraphProto& graph, const Scope* outer,
                                                           std::string place) {
  auto made = std::unique_ptr<Scope>(new Scope());
  made->graph_ = &graph;
  made->outer_ = outer;
  made->place_ = std::move(place);
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (made->definitions_.emplace(tensor.name(), Definition{.scope = made.get(), .tensor = &tensor}).second) continue;
    return absl::FailedPreconditionError(absl::StrCat("the graph defines ", Quoted(tensor.name()), " twice"));
  }
  for (const onnx::ValueInfoProto& input : graph.input()) {
    made->definitions_.emplace(input.name(), Definition{.scope = made.get()});
  }
  for (int k = 0; k < graph.node_size(); ++k) {
    const onnx::NodeProto& node = graph.node(k);
    for (int output = 0; output < node.output_size(); ++output) {
      if (node.output(output).empty()) continue;
      const Definition definition{.scope = made.get(), .node = &node, .node_index = k, .output = output};
      if (made->definitions_.emplace(node.output(output), definition).second) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(made->Label(node, k), " defines ", Quoted(node.output(output)), " again"));
    }
  }
  return made;
}

const Scope::Definition* Scope::Find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer_) {
    const auto found = scope->definitions_.find(name);
    if (found != scope->definitions_.end()) return &found->second;
  }
  return nullptr;
}

std::string Scope::Label(const onnx::NodeProto& node, int index) const {
  const std::string label = NodeLabel(node, index);
  return place_.empty() ? label : absl::StrCat(label, " of ", place_);
}

}  // namespace rnnserve
