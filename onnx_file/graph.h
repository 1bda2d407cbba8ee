// SPDX-License-Identifier: Apache-2.0
// The recurrent nodes of an ONNX graph as one chain, and where their inputs come from.
//
// Exporters put nodes around them that compute no numbers: PyTorch makes zero initial states by Shape, Gather, Concat
// and Expand or ConstantOfShape, or slices one of all layers; casts the lengths; takes the axis D out of Y by Squeeze,
// or Transpose and Reshape; turns X and Y where the batch comes first; and joins the final states by Concat. These are
// looked through or left out: the model is the operators, with the operators' own inputs and outputs.
#pragma once

#include <onnx/onnx_pb.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_file/axes.h"
#include "onnx_file/constants.h"
#include "onnx_file/scope.h"
#include "onnx_file/tensor.h"

namespace rnnserve {

// Points into the graph it was made from, and to `constants`.
class OnnxGraph {
 public:
  struct Layer {
    const onnx::NodeProto* node = nullptr;
    std::string label;
    int64_t directions = 1;
    int64_t layout = 0;
  };

  // Refuses graphs without a recurrent node, with any that is no link of one chain, and with any other node that
  // computes numbers.
  static absl::StatusOr<OnnxGraph> Create(const onnx::GraphProto& graph, Constants& constants);

  // In the order of the chain.
  const std::vector<Layer>& layers() const { return layers_; }

  // [first, end) of the first axis; negative numbers count from its end.
  struct Rows {
    int64_t first = 0;
    int64_t end = 0;
  };
  struct Source {
    std::string name;                 // after looking through nodes that pass it on
    std::optional<OnnxTensor> value;  // the file fixes it (of an initial state: every element of it)
    bool zeros = false;               // an initial state that the graph makes of zeros
    bool turned = false;              // X: a graph input with its first two axes in the other order
    std::optional<Rows> rows = {};    // an initial state: this part of a graph input

    bool is_request_input() const { return !name.empty() && !value && !zeros; }
  };
  // Where a layer's input `index` comes from; an empty name if it is absent. Weights always have a value. X is that of
  // the first layer.
  absl::StatusOr<Source> Input(size_t layer, size_t index) const;

 private:
  // What has come out of a layer, arranged or not.
  struct Given {
    enum class Kind { kY, kFinalH, kFinalC } kind = Kind::kY;
    size_t first_layer = 0, last_layer = 0;  // several: final states joined
    std::optional<Axes> axes = {};           // of Y, as long as they are known
    std::string obstacle = {};               // else why not
  };

  explicit OnnxGraph(Constants& constants) : constants_(&constants) {}
  absl::Status AddNode(const onnx::NodeProto& node, int index);
  absl::Status AddLayer(const onnx::NodeProto& node, const std::string& label);
  absl::Status CheckLink(const Layer& layer) const;
  absl::Status AddBystander(const onnx::NodeProto& node, const std::string& label);
  // What a node makes of outputs of layers; nullopt if it computes with them.
  std::optional<Given> Arranged(const onnx::NodeProto& node, const std::string& label) const;
  std::optional<Given> Joined(const onnx::NodeProto& node) const;
  absl::Status CheckOutputs() const;

  absl::StatusOr<Source> Fixed(size_t index, Source source) const;
  absl::StatusOr<Source> TurnedX(const Layer& layer, Source source) const;
  absl::Status Narrow(const Layer& layer, const onnx::NodeProto& node, Source& source) const;
  absl::Status Computed(const Layer& layer, size_t index, const onnx::NodeProto& by) const;
  // A list that `node` takes as attribute or as input.
  absl::StatusOr<std::optional<std::vector<int64_t>>> Ints(const onnx::NodeProto& node, std::string_view name,
                                                           size_t index) const;

  Constants* constants_;
  std::unique_ptr<const Scope> scope_;
  std::vector<Layer> layers_;
  std::unordered_map<std::string, Given> given_;
};

}  // namespace rnnserve
