// SPDX-License-Identifier: Apache-2.0
// What an ONNX file holds: every recurrent node, wherever it lies, with its weights as far as the file fixes them, and
// what keeps it from being a model of its own.
//
//   absl::StatusOr<OnnxInspection> found = InspectOnnx(folder, "silero_vad.onnx");
//   for (const InspectedNode& node : found->nodes) { if (node.status.ok()) ... ExtractOnnx(*found, node) ... }
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/op/op_spec.h"
#include "onnx_file/folder.h"
#include "onnx_file/loader.h"

namespace rnnserve {

// An input that comes with each request: X, sequence_lens, initial_h, initial_c.
struct InspectedInput {
  std::string name;
  std::string source;     // where it comes from in this file, for people: graph input "x"; computed by node 3 (...)
  bool is_zeros = false;  // an initial state that the file fixes to zeros: the same as none
  std::string remark;     // what a caller of the extracted node has to mind; may be empty
};

struct InspectedNode {
  int number = 0;    // 1, 2, ... in the order of the file
  std::string name;  // as in the file: may be empty, may be repeated
  std::vector<std::string>
      path;  // of the graphs it lies in, outermost first: "If_0.then_branch"; empty: the main graph
  // The same as places: number of the node in its graph, and which of its attributes.
  std::vector<std::pair<int, std::string>> places;
  int index = 0;  // in the innermost graph
  OperatorDef op;
  std::vector<InspectedInput> inputs;                // those the node has
  std::vector<NamedTensor> weights;                  // W, R, B, P, computed where the graph computes them
  std::vector<std::shared_ptr<const void>> storage;  // what the weights point into
  std::vector<std::string> computed_weights;         // names of those that the graph computes from constants
  // OK if the node can be a model of its own; else why not, and what to do about it.
  absl::Status status;
  std::optional<OpSpec> spec;  // if status is OK
};

struct OnnxInspection {
  int64_t file_bytes = 0;
  int64_t opset = 0;
  int64_t ir_version = 0;
  std::string producer;
  int64_t node_count = 0;  // of all graphs
  std::vector<InspectedNode> nodes;
  std::shared_ptr<const void> storage;  // the parsed file, an onnx::ModelProto
  // Whether the server loads the file as it is; else why not.
  absl::Status loads;
  // What a whole model does around its layers, and the layers as it runs them; null: layers alone, or none.
  PipelinePtr pipeline = nullptr;
  // If it loads: what requests bring and get.
  std::vector<TensorSignature> inputs, outputs;
  std::vector<OpSpec> layers;
};

absl::StatusOr<OnnxInspection> InspectOnnx(const Folder& folder, const std::string& name,
                                           const OnnxLimits& limits = {});

// An ONNX file of this node alone, which the server loads: weights stored, every other input a graph input of the
// operator's name, initial states of zeros left out. Only for nodes with an OK status.
absl::StatusOr<std::string> ExtractOnnx(const OnnxInspection& inspection, const InspectedNode& node);

// The same of several nodes that feed one another, in whatever order they come: one file, which the server loads as a
// stack, with what lies between them; `folder` is the file's. States are called initial_h.0, Y_h.0, ... by layer.
// FAILED_PRECONDITION, with the node, where they are no chain.
absl::StatusOr<std::string> ExtractOnnx(const OnnxInspection& inspection, const Folder& folder,
                                        std::span<const InspectedNode* const> nodes);

}  // namespace rnnserve
