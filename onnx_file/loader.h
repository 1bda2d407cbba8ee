// SPDX-License-Identifier: Apache-2.0
// An ONNX file with one recurrent node (LSTM, GRU, RNN), as an operator with its weights.
//
// The node's inputs are known by position, whatever they are called. W, R, B, P are initializers, Constant nodes or
// external data inside the model's folder; Identity nodes are looked through; any other node is refused. X,
// sequence_lens, initial_h, initial_c come with each request, so they are graph inputs or absent; an initial state that
// the file fixes to zeros means absent, one that it fixes to anything else is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/op/operator.h"
#include "engine/tensor.h"
#include "onnx_file/folder.h"

namespace rnnserve {

struct OnnxLimits {
  int64_t file_bytes = (int64_t{1} << 31) - 1;  // of model.onnx; protobuf reads no more
  int64_t tensor_bytes = int64_t{16} << 30;     // of all weights together
};

struct OnnxOperator {
  OperatorDef op;                                    // with the file's opset
  std::vector<NamedTensor> weights;                  // named W, R, B, P; not yet checked against the operator
  std::vector<std::shared_ptr<const void>> storage;  // what the weights point into
};

// Reads file `name` of `folder`. NOT_FOUND if it is missing; every other error is FAILED_PRECONDITION and says what is
// wrong with the file.
absl::StatusOr<OnnxOperator> LoadOnnx(const Folder& folder, const OnnxLimits& limits = {},
                                      const std::string& name = "model.onnx");

}  // namespace rnnserve
