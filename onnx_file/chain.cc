// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/chain.h"

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/stack.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/flattened.h"
#include "onnx_file/loader.h"
#include "onnx_file/node.h"
#include "onnx_file/partition.h"
#include "onnx_file/scope.h"
#include "onnx_file/tensor.h"
#include "onnx_file/writing.h"

namespace rnnserve {
namespace {

// What lies behind one node's X, as far as the nodes wanted.
struct Walk {
  Walk(const InspectedNode* of, int place) : node(of), index(place) {}
  const InspectedNode* node;
  int index;                   // in the graph
  std::set<int> between;       // nodes of the graph, in the order of their run
  std::set<std::string> kept;  // initializers
  std::vector<size_t> from;    // the nodes wanted whose outputs it takes
  std::string outside;         // a graph input that it takes as well; empty: none
};

class ChainFinder {
 public:
  ChainFinder(const onnx::GraphProto& graph, const Scope& scope, const Folder& folder)
      : graph_(graph), scope_(scope), folder_(folder) {}

  absl::Status Add(const InspectedNode& node, int index) {
    if (!by_index_.emplace(index, walks_.size()).second) {
      return BadFile(absl::StrCat(ChainLabel(node), " is named twice; each layer of a stack is a node of its own"));
    }
    walks_.emplace_back(&node, index);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<ChainLink>> Find() {
    for (Walk& walk : walks_) {
      if (absl::Status walked = Back(walk); !walked.ok()) return walked;
    }
    absl::StatusOr<std::vector<const Walk*>> order = Order();
    if (!order.ok()) return order.status();
    x_ = graph_.node((*order)[0]->index).input(0);
    std::vector<ChainLink> chain;
    for (size_t k = 0; k < order->size(); ++k) {
      Walk again((*order)[k]->node, (*order)[k]->index);  // which ends at the first node's X, too
      if (absl::Status walked = k == 0 ? absl::OkStatus() : Back(again); !walked.ok()) return walked;
      absl::StatusOr<ChainLink> link = Link(again, k == 0);
      if (!link.ok()) return link.status();
      if (k == 0) link->x_shape = ShapeOfX();
      link->y = k + 1 == order->size() ? "Y" : Inside(graph_.node((*order)[k]->index).output(0));
      chain.push_back(*std::move(link));
    }
    return chain;
  }

 private:
  // From X back to the nodes wanted, and to the first one's X once that is known.
  absl::Status Back(Walk& walk) const {
    std::vector<std::string> waiting = {graph_.node(walk.index).input(0)};
    std::unordered_set<std::string> seen;
    while (!waiting.empty()) {
      const std::string name = std::move(waiting.back());
      waiting.pop_back();
      if (!seen.insert(name).second || name == x_) continue;
      const Scope::Definition* definition = scope_.Find(name);
      if (definition == nullptr) return BadFile(absl::StrCat(Quoted(name), " is defined by nothing in the graph"));
      if (definition->is_input()) walk.outside = name;
      if (definition->tensor != nullptr) walk.kept.insert(name);
      if (definition->node == nullptr) continue;
      if (const auto wanted = by_index_.find(definition->node_index); wanted != by_index_.end()) {
        if (definition->output != 0) {
          return BadFile(absl::StrCat(ChainLabel(*walk.node), " takes a final state of ",
                                      ChainLabel(*walks_[wanted->second].node),
                                      "; a layer of a stack takes the Y of the one before"));
        }
        if (std::ranges::find(walk.from, wanted->second) == walk.from.end()) walk.from.push_back(wanted->second);
        continue;
      }
      if (IsRecurrent(*definition->node)) {
        if (walk.outside.empty()) walk.outside = scope_.Label(*definition->node, definition->node_index);
        continue;
      }
      walk.between.insert(definition->node_index);
      std::ranges::move(UsedNames(*definition->node), std::back_inserter(waiting));
    }
    if (walk.from.size() < 2) return absl::OkStatus();
    return BadFile(absl::StrCat(ChainLabel(*walk.node), " takes what ", ChainLabel(*walks_[walk.from[0]].node), " and ",
                                ChainLabel(*walks_[walk.from[1]].node), " give; a stack is one chain"));
  }

  absl::StatusOr<std::vector<const Walk*>> Order() const {
    std::vector<const Walk*> order, next(walks_.size(), nullptr);
    for (const Walk& walk : walks_) {
      const std::string label = ChainLabel(*walk.node);
      if (walk.from.empty()) {
        if (!order.empty()) {
          return BadFile(absl::StrCat(label, " and ", ChainLabel(*order[0]->node),
                                      " do not feed one another: neither takes what another of the nodes named gives. ",
                                      "Name the nodes between them as well, or extract each by itself"));
        }
        order.push_back(&walk);
        continue;
      }
      const Walk*& taker = next[walk.from[0]];
      if (taker != nullptr) {
        return BadFile(absl::StrCat(label, " and ", ChainLabel(*taker->node), " both take what ",
                                    ChainLabel(*walks_[walk.from[0]].node), " gives; a stack is one chain"));
      }
      taker = &walk;
    }
    while (!order.empty() && order.size() < walks_.size()) {
      order.push_back(next[static_cast<size_t>(order.back() - walks_.data())]);
      if (order.back() == nullptr) order.clear();
    }
    if (order.empty()) return BadFile("the nodes named feed one another in a circle; ONNX's graphs have none");
    return order;
  }

  absl::StatusOr<ChainLink> Link(const Walk& walk, bool is_first) const {
    const onnx::NodeProto& node = graph_.node(walk.index);
    ChainLink link = {.node = walk.node,
                      .before = {},
                      .stored = {},
                      .x = is_first ? "X" : Inside(node.input(0)),
                      .y = {},
                      .x_shape = {}};
    if (is_first) return link;
    if (!walk.outside.empty()) {
      return BadFile(absl::StrCat(ChainLabel(*walk.node), " takes not only what ",
                                  ChainLabel(*walks_[walk.from[0]].node), " gives, but what ", Quoted(walk.outside),
                                  " does as well; `rnnctl split` serves such a graph with what is around the layers"));
    }
    for (const std::string& name : walk.kept) {
      const absl::StatusOr<OnnxTensor> value =
          ReadOnnxTensor(*scope_.Find(name)->tensor, &folder_, OnnxLimits{}.tensor_bytes);
      if (!value.ok()) return BadFile(absl::StrCat(Quoted(name), " ", value.status().message()));
      Store({Inside(name), value->view}, link.stored.emplace_back());
    }
    for (const int index : walk.between) {
      onnx::NodeProto& copy = link.before.emplace_back(graph_.node(index));
      for (auto* names : {copy.mutable_input(), copy.mutable_output()}) {
        for (std::string& name : *names) name = Inside(name);
      }
    }
    return link;
  }

  Shape ShapeOfX() const {
    for (const auto* infos : {&graph_.input(), &graph_.value_info()}) {
      const auto info = std::ranges::find(*infos, x_, &onnx::ValueInfoProto::name);
      if (info == infos->end()) continue;
      Shape shape;
      for (const auto& dim : info->type().tensor_type().shape().dim()) shape.push_back(dim.dim_value());
      return std::ranges::all_of(shape, [](int64_t size) { return size > 0; }) ? shape : Shape();
    }
    return {};
  }

  std::string Inside(const std::string& name) const {
    return name.empty() ? "" : name == x_ ? "X" : absl::StrCat("between/", name);
  }

  const onnx::GraphProto& graph_;
  const Scope& scope_;
  const Folder& folder_;
  std::vector<Walk> walks_;
  std::unordered_map<int, size_t> by_index_;
  std::string x_;  // the first node's; empty: not known yet
};

}  // namespace

std::string ChainLabel(const InspectedNode& node) {
  return absl::StrCat(node.op.op_type, " ",
                      node.name.empty() ? absl::StrCat("number ", node.number) : Quoted(node.name));
}

absl::StatusOr<std::vector<ChainLink>> ChainOf(const OnnxInspection& inspection, const Folder& folder,
                                               std::span<const InspectedNode* const> nodes) {
  if (nodes.size() > kMaxLayers) return BadFile(absl::StrCat("a stack has at most ", kMaxLayers, " layers"));
  for (const InspectedNode* node : nodes) {
    if (!node->status.ok()) {
      return BadFile(absl::StrCat(ChainLabel(*node), ": ", std::string(node->status.message())));
    }
    if (node->places != nodes[0]->places) {
      return BadFile(absl::StrCat(ChainLabel(*nodes[0]), " and ", ChainLabel(*node),
                                  " lie in different graphs of the file; extract each by itself"));
    }
  }
  const auto& model = *static_cast<const onnx::ModelProto*>(inspection.storage.get());
  int index = 0;
  const onnx::GraphProto graph = Flattened(model.graph(), nodes[0], index);
  const absl::StatusOr<std::unique_ptr<const Scope>> scope = Scope::Create(graph);
  if (!scope.ok()) return scope.status();
  ChainFinder finder(graph, **scope, folder);
  for (const InspectedNode* node : nodes) {
    if (absl::Status added = finder.Add(*node, index - nodes[0]->index + node->index); !added.ok()) return added;
  }
  return finder.Find();
}

}  // namespace rnnserve
