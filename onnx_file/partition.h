// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph a server can serve, and which come before and after them. All of them begin as served. Then
// the graph of the served ones is lowered (lowering.h), and whatever is in the way leaves: with all that it is computed
// from if a layer needs it (before), else with all that is computed from it (after). Nodes that constants alone go
// into, and casts of lengths, belong to every part that takes their values.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_file/constants.h"
#include "onnx_file/lowering.h"
#include "onnx_file/scope.h"

namespace rnnserve {

// Names that a node takes, those that the graphs in its attributes take from outside among them; no empty ones.
std::vector<std::string> UsedNames(const onnx::NodeProto& node);

class Partition {
 public:
  enum class Part : uint8_t { kBefore, kServed, kAfter };
  struct Boundary {
    std::vector<const onnx::NodeProto*> nodes;           // in the file's order, constants among them
    std::vector<const onnx::TensorProto*> initializers;  // that the nodes take
    std::vector<std::string> inputs, outputs;            // in the file's order
  };

  struct File {
    const onnx::GraphProto& graph;
    int64_t opset = 0;
    const Folder& folder;  // of external data
    int64_t tensor_bytes = 0;
  };
  // `layers`: nodes that must be served, of those that the graph's outputs need. Points into `file`.
  static absl::StatusOr<Partition> Create(const File& file, const std::vector<int>& layers, Lowering::Ends ends);

  // Lets go of nodes until the rest can be served.
  absl::Status Run();
  // Lets go of all that no layer needs to be reached through: what is served then is little more than the layers.
  absl::Status KeepLayersAlone();

  Boundary BoundaryOf(Part part) const;
  // The part that computes `name`; nullopt: the caller brings it.
  std::optional<Part> MakerOf(const std::string& name) const;
  bool IsGraphOutput(const std::string& name) const { return outputs_.contains(name); }
  // What is known about a value: name, type and shape; no type where the file does not tell.
  onnx::ValueInfoProto Describe(const std::string& name) const;
  // The nodes that could not be served, each with the reason; those left out that stand behind another one of them.
  std::vector<std::string> InTheWay() const;
  // The nodes that give graph outputs and stand behind no layer and before none.
  std::vector<std::string> BesideLayers() const;

 private:
  struct Node {
    const onnx::NodeProto* proto = nullptr;
    std::vector<std::string> uses;
    std::vector<int> makers, takers;
    Part part = Part::kServed;
    bool is_constant = false;  // or as good as one: every part that takes it computes it
    bool feeds_layer = false;  // a layer that must be served needs it
    bool has_layer = false;    // it is computed from a recurrent node
    bool is_needed = true;     // a graph output needs it
  };

  Partition(const File& file, Lowering::Ends ends)
      : file_(file),
        graph_(file.graph),
        ends_(ends),
        constants_(std::make_unique<Constants>(&file.folder, file.tensor_bytes)) {}
  absl::Status Index(const std::vector<int>& layers);
  bool IsCastOfLengths(const onnx::NodeProto& node) const;
  absl::StatusOr<std::vector<int>> Sorted() const;
  Node& at(int node) { return nodes_[static_cast<size_t>(node)]; }
  const Node& at(int node) const { return nodes_[static_cast<size_t>(node)]; }
  std::string Label(int node) const;
  bool IsLayer(int node) const { return layers_.contains(node); }
  // -1: none does.
  int MakerNode(const std::string& name) const;
  // By what it gives; -1: it gives nothing.
  int NodeOf(const onnx::NodeProto& node) const;

  void Trim();
  // Moves what the served part should not have although it could; whether it moved anything.
  bool Tidy();
  absl::Status MoveUnknown();
  // `tells`: the reason is one for InTheWay().
  absl::Status Move(int node, const std::string& reason, bool tells = true);
  absl::Status MoveBefore(int node, const std::string& reason, bool tells = true);
  void MoveAfter(int node);
  absl::Status Remove(const Obstacle& obstacle, const absl::Status& status);
  // It is computed from what has been cut off, from such an operator of that: what made the cut has been told.
  bool IsBehindCut(int node, const char* op_type = nullptr) const;
  // OK: all that is served can be. `zeros`: initial states that the graph makes of zeros.
  absl::Status Lower(Obstacle& obstacle, std::vector<std::string>& zeros) const;
  // Layers start at zeros by themselves. Whether there were such states.
  bool DropStates(const std::vector<std::string>& zeros);

  File file_;
  const onnx::GraphProto& graph_;
  Lowering::Ends ends_;
  std::unique_ptr<Constants> constants_;
  std::unique_ptr<const Scope> scope_;
  std::vector<Node> nodes_;
  std::deque<onnx::NodeProto> changed_;  // layers without the states that are zeros
  std::unordered_set<int> layers_;
  std::unordered_map<std::string, int> makers_;
  std::unordered_map<std::string, const onnx::ValueInfoProto*> infos_;
  std::unordered_map<std::string, int> input_order_;
  std::unordered_map<std::string, std::vector<int>> recurrent_takers_;
  std::unordered_set<std::string> lengths_;  // what layers take as such, also by a Cast
  std::unordered_set<std::string> outputs_;
  std::vector<std::pair<int, std::string>> in_the_way_;  // node, reason
  std::unordered_map<std::string, int32_t> types_;
};

}  // namespace rnnserve
