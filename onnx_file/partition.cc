// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/partition.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/node.h"
#include "onnx_file/pipeline_maker.h"

namespace rnnserve {
namespace {

// Nodes lowered, over all rounds, before the cut is taken close to the layers.
constexpr int64_t kMaxWork = 400'000;

// A graph of nodes and tensors that others own, which stay in their place: weights may be large.
class BorrowedGraph {
 public:
  ~BorrowedGraph() {
    while (graph.node_size() > 0) (void)graph.mutable_node()->UnsafeArenaReleaseLast();
    while (graph.initializer_size() > 0) (void)graph.mutable_initializer()->UnsafeArenaReleaseLast();
  }
  BorrowedGraph() = default;
  BorrowedGraph(const BorrowedGraph&) = delete;
  BorrowedGraph& operator=(const BorrowedGraph&) = delete;

  void Add(const onnx::NodeProto& node) {
    graph.mutable_node()->UnsafeArenaAddAllocated(const_cast<onnx::NodeProto*>(&node));
  }
  void Add(const onnx::TensorProto& tensor) {
    graph.mutable_initializer()->UnsafeArenaAddAllocated(const_cast<onnx::TensorProto*>(&tensor));
  }

  onnx::GraphProto graph;
};

}  // namespace

absl::Status Partition::Run() {
  if (absl::Status moved = MoveUnknown(); !moved.ok()) return moved;
  int64_t work = 0;
  bool is_close = false;
  while (true) {
    Trim();
    const bool tidied = Tidy();
    work += static_cast<int64_t>(nodes_.size());
    if (work > kMaxWork) {
      if (is_close) return BadFile("has too many nodes in the way to find out which part can be served");
      if (absl::Status cut = KeepLayersAlone(); !cut.ok()) return cut;
      is_close = true;
      work = 0;
      continue;
    }
    if (tidied) continue;
    Obstacle obstacle;
    std::vector<std::string> zeros;
    if (absl::Status lowered = Lower(obstacle, zeros); !lowered.ok()) {
      if (absl::Status removed = Remove(obstacle, lowered); !removed.ok()) return removed;
    } else if (!DropStates(zeros)) {
      return absl::OkStatus();
    }
  }
}

// From the layers outwards, so that each reason stands for all that goes along.
absl::Status Partition::MoveUnknown() {
  const auto leaves = [this](int k, bool before) {
    return !at(k).is_constant && at(k).is_needed && at(k).part == Part::kServed && at(k).feeds_layer == before &&
           !Lowering::Knows(graph_.node(k));
  };
  const auto reason = [this](int k) { return absl::StrCat(Label(k), " is an operator that no served model has"); };
  for (int k = graph_.node_size() - 1; k >= 0; --k) {
    if (!leaves(k, true)) continue;
    if (absl::Status moved = Move(k, reason(k)); !moved.ok()) return moved;
  }
  for (int k = 0; k < graph_.node_size(); ++k) {
    if (!leaves(k, false)) continue;
    if (absl::Status moved = Move(k, reason(k)); !moved.ok()) return moved;
  }
  return absl::OkStatus();
}

absl::Status Partition::KeepLayersAlone() {
  for (int k = graph_.node_size() - 1; k >= 0; --k) {
    if (at(k).is_constant || at(k).part != Part::kServed || IsLayer(k)) continue;
    if (!at(k).feeds_layer) {
      MoveAfter(k);
    } else if (!at(k).has_layer) {
      if (absl::Status moved = MoveBefore(k, ""); !moved.ok()) return moved;
    }
  }
  Trim();
  return absl::OkStatus();
}

bool Partition::Tidy() {
  bool moved = false;
  // What no layer has to do with is nothing to send to a server and back.
  const Boundary served = BoundaryOf(Part::kServed);
  for (const std::string& name : served.outputs) {
    const int maker = MakerNode(name);
    if (at(maker).has_layer || at(maker).feeds_layer || at(maker).part != Part::kServed) continue;
    MoveAfter(maker);
    moved = true;
  }
  // No request sends a tensor for its sizes alone.
  std::unordered_set<std::string> for_sizes(served.inputs.begin(), served.inputs.end());
  const auto is_served = [](const Node& node) {
    return node.part == Part::kServed && node.is_needed && !node.is_constant;
  };
  for (const Node& node : nodes_) {
    if (!is_served(node) || IsOnnxOp(*node.proto, "Shape")) continue;
    for (const std::string& name : node.uses) for_sizes.erase(name);
  }
  for (int k = 0; k < graph_.node_size() && !for_sizes.empty(); ++k) {
    if (!is_served(at(k)) || at(k).uses.empty() || !for_sizes.contains(at(k).uses[0])) continue;
    if (at(k).feeds_layer) {
      at(k).part = Part::kBefore;
    } else {
      MoveAfter(k);
    }
    moved = true;
  }
  return moved;
}

absl::Status Partition::Move(int node, const std::string& reason, bool tells) {
  if (IsLayer(node)) {
    for (int k = 0; k < graph_.node_size(); ++k) {  // another one may be what it cannot be served beside
      const bool leaves = IsRecurrent(*at(k).proto) && at(k).part == Part::kServed && at(k).is_needed && !IsLayer(k);
      if (leaves) return Move(k, reason, tells);
    }
    return BadFile(layers_.size() == 1 ? reason
                                       : absl::StrCat(reason,
                                                      "; --node names another LSTM, GRU or RNN node to serve, which "
                                                      "leaves this one to onnxruntime"));
  }
  if (at(node).feeds_layer) return MoveBefore(node, reason, tells);
  if (tells && !reason.empty()) in_the_way_.emplace_back(node, reason);
  MoveAfter(node);
  return absl::OkStatus();
}

absl::Status Partition::MoveBefore(int node, const std::string& reason, bool tells) {
  std::vector<int> waiting = {node};
  std::unordered_set<int> seen;
  while (!waiting.empty()) {
    const int next = waiting.back();
    waiting.pop_back();
    if (at(next).is_constant || at(next).part == Part::kBefore || !seen.insert(next).second) continue;
    if (IsLayer(next)) {
      return BadFile(absl::StrCat(reason, ", and lies between ", Label(next),
                                  " and another layer; --node names the one of them to serve, which leaves the "
                                  "other to onnxruntime"));
    }
    waiting.insert(waiting.end(), at(next).makers.begin(), at(next).makers.end());
  }
  for (const int next : seen) at(next).part = Part::kBefore;
  if (tells && !reason.empty()) in_the_way_.emplace_back(node, reason);
  return absl::OkStatus();
}

void Partition::MoveAfter(int node) {
  std::vector<int> waiting = {node};
  while (!waiting.empty()) {
    const int next = waiting.back();
    waiting.pop_back();
    if (at(next).part == Part::kAfter) continue;
    at(next).part = Part::kAfter;
    waiting.insert(waiting.end(), at(next).takers.begin(), at(next).takers.end());
  }
}

std::vector<std::string> Partition::InTheWay() const {
  std::vector<bool> is_behind(nodes_.size());
  std::vector<int> waiting;
  const auto go_on = [&](int k) {
    const auto& next = at(k).feeds_layer ? at(k).makers : at(k).takers;
    std::ranges::copy_if(next, std::back_inserter(waiting), [&](int other) {
      return !is_behind[static_cast<size_t>(other)] && at(other).part == at(k).part;
    });
  };
  for (const auto& [node, reason] : in_the_way_) go_on(node);
  while (!waiting.empty()) {
    const int next = waiting.back();
    waiting.pop_back();
    if (is_behind[static_cast<size_t>(next)]) continue;
    is_behind[static_cast<size_t>(next)] = true;
    go_on(next);
  }
  std::vector<std::string> reasons;
  for (const auto& [node, reason] : in_the_way_) {
    if (!is_behind[static_cast<size_t>(node)]) reasons.push_back(reason);
  }
  return reasons;
}

std::vector<std::string> Partition::BesideLayers() const {
  std::vector<std::string> reasons;
  for (int k = 0; k < graph_.node_size(); ++k) {
    const Node& node = at(k);
    if (node.is_constant || node.has_layer || node.feeds_layer || node.part != Part::kAfter ||
        std::ranges::none_of(node.proto->output(), [this](const std::string& name) { return IsGraphOutput(name); })) {
      continue;
    }
    reasons.push_back(absl::StrCat(Label(k), " computes a graph output of what no layer has to do with"));
  }
  return reasons;
}

int Partition::NodeOf(const onnx::NodeProto& node) const {
  const auto named = std::ranges::find_if(node.output(), [](const std::string& name) { return !name.empty(); });
  return named == node.output().end() ? -1 : MakerNode(*named);
}

bool Partition::IsBehindCut(int node, const char* op_type) const {
  std::vector<int> waiting = {node};
  std::unordered_set<int> seen;
  while (!waiting.empty()) {
    const int next = waiting.back();
    waiting.pop_back();
    for (const int maker : at(next).makers) {
      if (at(maker).is_constant || IsRecurrent(*at(maker).proto) || !seen.insert(maker).second) continue;
      if (at(maker).part == Part::kBefore && (op_type == nullptr || IsOnnxOp(*at(maker).proto, op_type))) {
        return true;
      }
      waiting.push_back(maker);
    }
  }
  return false;
}

absl::Status Partition::Remove(const Obstacle& obstacle, const absl::Status& status) {
  const std::string reason(status.message());
  const auto is_served = [this](int node) {
    return node >= 0 && !at(node).is_constant && at(node).part == Part::kServed;
  };
  if (obstacle.node != nullptr) {
    const int node = NodeOf(*obstacle.node);
    if (node >= 0 && at(node).is_constant) {  // of which no part is cut off: what takes it leaves
      std::vector<int> waiting = {node}, takers;
      std::unordered_set<int> seen;
      while (!waiting.empty()) {
        const int next = waiting.back();
        waiting.pop_back();
        for (const int taker : at(next).takers) {
          if (!seen.insert(taker).second) continue;
          if (at(taker).is_constant) waiting.push_back(taker);
          if (is_served(taker)) takers.push_back(taker);
        }
      }
      for (const int taker : takers) {
        if (absl::Status moved = Move(taker, reason, taker == takers.front()); !moved.ok()) return moved;
      }
      return takers.empty() ? status : absl::OkStatus();
    }
    if (!is_served(node)) return status;
    const int maker = obstacle.input.empty() ? -1 : MakerNode(obstacle.input);
    // Axes and shapes that do not fit are no reason of their own where another one has made the cut.
    if (is_served(maker)) {
      absl::Status moved = MoveBefore(maker, reason, !IsBehindCut(maker));
      if (moved.ok() || IsLayer(node)) return moved;  // else this layer can leave
    }
    return Move(node, reason, !IsBehindCut(node, obstacle.takes_unknown_shape ? nullptr : "Shape"));
  }
  if (!obstacle.output.empty()) {
    const int maker = MakerNode(obstacle.output);
    return is_served(maker) ? Move(maker, reason, IsGraphOutput(obstacle.output)) : status;  // else an edge of a cut
  }
  bool moved = false;
  for (int k = 0; k < graph_.node_size() && !obstacle.graph_input.empty(); ++k) {
    const auto takes = [&](int node) { return std::ranges::count(at(node).uses, obstacle.graph_input) > 0; };
    const auto is_cast = [&](int maker) { return at(maker).is_constant && takes(maker); };
    if (!is_served(k) || !(takes(k) || std::ranges::any_of(at(k).makers, is_cast))) continue;
    if (absl::Status left = Move(k, reason); !left.ok()) return left;
    moved = true;
  }
  return moved ? absl::OkStatus() : status;
}

absl::Status Partition::Lower(Obstacle& obstacle, std::vector<std::string>& zeros) const {
  const Boundary served = BoundaryOf(Part::kServed);
  BorrowedGraph probe;
  for (const onnx::NodeProto* node : served.nodes) probe.Add(*node);
  for (const onnx::TensorProto* tensor : served.initializers) probe.Add(*tensor);
  for (const std::string& name : served.inputs) *probe.graph.add_input() = Describe(name);
  for (const std::string& name : served.outputs) probe.graph.add_output()->set_name(name);
  Constants constants(&file_.folder, file_.tensor_bytes);  // which knows values by their place in the probe
  absl::Status status;
  const std::unique_ptr<Lowering> reading = Lowering::Read(probe.graph, constants, file_.opset, ends_, status);
  Lowering& lowered = *reading;
  if (status.ok() && !lowered.layers().empty()) {
    for (const onnx::NodeProto* node : served.nodes) {
      for (int index = 5; IsRecurrent(*node) && index <= 6 && index < node->input_size(); ++index) {
        if (lowered.IsZeros(node->input(index))) zeros.push_back(node->input(index));
      }
    }
    DataType type = DataType::kFloat;
    for (const LoweredLayer& layer : lowered.layers()) {
      for (const NamedTensor& weight : layer.op.weights) type = weight.tensor.type;
    }
    if (zeros.empty()) status = MakePipeline(lowered, type).status();
  }
  obstacle = lowered.obstacle();
  const auto of_file = [&](const absl::Status& refused) {  // with nodes as the file numbers them
    std::vector<std::pair<std::string, std::string>> labels;
    for (size_t k = 0; k < served.nodes.size(); ++k) {
      const int node = NodeOf(*served.nodes[k]);
      labels.emplace_back(scope_->Label(*served.nodes[k], static_cast<int>(k)), node < 0 ? "" : Label(node));
    }
    return BadFile(absl::StrReplaceAll(refused.message(), labels));
  };
  if (!status.ok()) return of_file(status);
  obstacle = lowered.OtherBeyondEnds([this](const std::string& name) {
    return std::ranges::any_of(at(MakerNode(name)).takers, [&](int taker) {
      return at(taker).part == Part::kAfter && at(taker).is_needed && std::ranges::count(at(taker).uses, name) > 0;
    });
  });
  if (!obstacle.graph_input.empty()) {
    return BadFile(absl::StrCat("what takes the lengths ", Quoted(obstacle.graph_input),
                                " goes with what looks along time, which sees all steps of a row"));
  }
  if (obstacle.output.empty()) return status;
  return BadFile(absl::StrCat(Quoted(obstacle.output), " is not zero beyond the ends of rows, as an answer is"));
}

bool Partition::DropStates(const std::vector<std::string>& zeros) {
  if (zeros.empty()) return false;
  for (Node& node : nodes_) {
    if (!IsRecurrent(*node.proto) || node.part != Part::kServed) continue;
    onnx::NodeProto& changed = changed_.emplace_back(*node.proto);
    for (int index = 5; index <= 6 && index < changed.input_size(); ++index) {
      if (std::ranges::find(zeros, changed.input(index)) != zeros.end()) changed.set_input(index, "");
    }
    node.proto = &changed;
    node.uses = UsedNames(changed);
    node.makers.clear();
    for (const std::string& name : node.uses) {
      if (const int maker = MakerNode(name); maker >= 0) node.makers.push_back(maker);
    }
  }
  return true;
}

}  // namespace rnnserve
