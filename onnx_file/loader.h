// SPDX-License-Identifier: Apache-2.0
// An ONNX file with one recurrent node (LSTM, GRU, RNN) or a chain of them, as operators with their weights.
//
// A node's inputs are known by position, whatever they are called. W, R, B, P are initializers, Constant nodes or
// external data inside the model's folder, or computed from those alone. X, sequence_lens, initial_h, initial_c come
// with each request, so they are graph inputs or absent; an initial state that the file fixes to zeros means absent,
// one that it fixes to anything else is refused. All layers take the same sequence_lens. Initial states of several
// layers are graph inputs of their own, or one that is sliced layer by layer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/map/pipeline.h"
#include "engine/op/file_names.h"
#include "engine/op/operator.h"
#include "engine/tensor.h"
#include "onnx_file/folder.h"

namespace rnnserve {

struct OnnxLimits {
  int64_t file_bytes = (int64_t{1} << 31) - 1;  // of model.onnx; protobuf reads no more
  int64_t tensor_bytes = int64_t{16} << 30;     // of all weights together
};

struct OnnxOperator {
  std::string label = {};                            // its node
  OperatorDef op;                                    // with the file's opset
  std::vector<NamedTensor> weights;                  // named W, R, B, P; not yet checked against the operator
  std::vector<std::shared_ptr<const void>> storage;  // what the weights point into
};

struct OnnxStack {
  std::vector<OnnxOperator> layers;  // at least one; not yet checked against each other
  bool batch_first = false;          // the file turns X from [N, T, I] to the first layer's [T, N, I]
  // What else the file computes, and what it calls its tensors; null: the layers are all there is.
  PipelinePtr pipeline = nullptr;
  // What it calls its tensors, without a pipeline; null: as the operators do. One bare node has none.
  FileNamesPtr file_names = nullptr;
};

// Reads file `name` of `folder`. NOT_FOUND if it is missing; every other error is FAILED_PRECONDITION and says what is
// wrong with the file.
absl::StatusOr<OnnxStack> LoadOnnx(const Folder& folder, const OnnxLimits& limits = {},
                                   const std::string& name = "model.onnx");

// The same of a file's bytes, with all data inside.
absl::StatusOr<OnnxStack> LoadOnnxBytes(std::string_view bytes, const OnnxLimits& limits = {});

}  // namespace rnnserve
