// SPDX-License-Identifier: Apache-2.0
// A model: an operator with its weights, ready to be compiled for any engine. Immutable.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/op/op_spec.h"
#include "server/models/weak_table.h"

namespace rnnserve {

// Options as a request or a model states them; what is absent is decided further down.
struct OptionalOptions {
  std::optional<bool> clip_cell_input = {};
  std::optional<EmptyRowState> empty_row_state = {};
  std::optional<bool> deterministic = {};
  std::optional<bool> allow_reduced_precision = {};
};

// `first` where it speaks, else `second`.
OptionalOptions Merge(const OptionalOptions& first, const OptionalOptions& second);

// Cells by key, so that equal cells of different models are one object.
using CellTable = WeakTable<const Cell>;

class Model {
 public:
  // Copies the weights. The operator and weights have passed ResolveOperator. With `shared`, cells that are in the
  // table are used instead of equal new ones.
  static absl::StatusOr<std::shared_ptr<const Model>> Create(OperatorDef op, OpSpec spec,
                                                             std::span<const NamedTensor> weights,
                                                             std::string fingerprint, CellTable* shared = nullptr);

  const OperatorDef& op() const { return op_; }
  const OpSpec& spec() const { return spec_; }
  // SHA-256 over canonical operator and weights, 64 hexadecimal digits.
  const std::string& fingerprint() const { return fingerprint_; }
  // One cell a direction, for either reading of clip_cell_input (which matters only for LSTM with clip).
  const std::vector<CellPtr>& cells(bool clip_cell_input) const;
  // Bytes of the distinct cells it holds.
  int64_t weight_bytes() const { return weight_bytes_; }

 private:
  Model() = default;
  OperatorDef op_;
  OpSpec spec_;
  std::string fingerprint_;
  std::vector<CellPtr> cells_;              // clip_cell_input = true
  std::vector<CellPtr> cells_unclipped_c_;  // the same objects unless the reading matters
  int64_t weight_bytes_ = 0;
};

using ModelPtr = std::shared_ptr<const Model>;

// SHA-256 over spec.CanonicalText() and the weight tensors in the order W, R, B, P, 64 hexadecimal digits; the same in
// every process.
std::string Fingerprint(const OpSpec& spec, std::span<const NamedTensor> weights);

}  // namespace rnnserve
