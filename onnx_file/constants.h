// SPDX-License-Identifier: Apache-2.0
// The values that an ONNX file fixes: initializers, and what foldable nodes (fold.h) compute from them alone.
//
//   Constants constants(folder, limits);
//   absl::StatusOr<OnnxTensor> w = constants.Value(scope, "onnx::LSTM_12");
//
// Nothing is read or computed before it is asked for, and nothing twice. What a hostile file can make of few bytes is
// bounded: all computed values together take at most 1 MiB and eight times the stored bytes they come from.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_file/folder.h"
#include "onnx_file/scope.h"
#include "onnx_file/tensor.h"

namespace rnnserve {

// Of one file, whose scopes outlive this. Values stay valid as long as the parsed model and each value's `storage` do.
class Constants {
 public:
  // `folder` (for external data; null: there can be none) outlives this. `max_bytes`: of all values together.
  Constants(const Folder* folder, int64_t max_bytes) : folder_(folder), max_bytes_(max_bytes) {}

  // The value of `name` as seen from `scope`. NOT_FOUND if the file does not fix it; every other error is about the
  // file. Texts continue a sentence that begins with the name: "is a graph input", "is computed by node 7 (...), which
  // ...".
  absl::StatusOr<OnnxTensor> Value(const Scope& scope, const std::string& name);
  // A tensor without a name, such as the value of ConstantOfShape.
  absl::StatusOr<OnnxTensor> Stored(const onnx::TensorProto& tensor);
  // Of what has been read so far.
  int64_t stored_bytes() const { return stored_bytes_; }

 private:
  using Result = absl::StatusOr<OnnxTensor>;
  using Definition = Scope::Definition;

  // Computes `wanted` and what it needs, and leaves the outcome in results_.
  void Resolve(const Definition& wanted);
  // Puts the inputs without a result on top of `waiting`. An error: this one has no value.
  absl::Status AddInputs(const Definition& definition, std::vector<const Definition*>& waiting) const;
  Result Evaluate(const Definition& definition);
  // How many more bytes may be allocated for computed values.
  int64_t Allowance() const;

  const Folder* const folder_;
  const int64_t max_bytes_;
  int64_t stored_bytes_ = 0;
  int64_t computed_bytes_ = 0;
  std::unordered_set<const Definition*> open_;  // begun, and waiting for their inputs
  std::unordered_map<const Definition*, Result> results_;
};

}  // namespace rnnserve
