// SPDX-License-Identifier: Apache-2.0
// A model: a stack of operators with their weights, ready to be compiled for any engine. Immutable, but that it
// remembers its last plans.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/op/stack.h"
#include "server/models/known_plans.h"
#include "server/models/weak_table.h"

namespace rnnserve {

// Cells by key, so that equal cells of different models are one object.
using CellTable = WeakTable<const Cell>;

// One layer of a model.
struct ModelLayer {
  OperatorDef op;
  std::vector<CellPtr> clipped;    // one cell a direction; clip_cell_input = true
  std::vector<CellPtr> unclipped;  // the same objects unless the reading matters (LSTM with clip)

  const std::vector<CellPtr>& cells(bool clip_cell_input) const { return clip_cell_input ? clipped : unclipped; }
};

class Model {
 public:
  // Copies the weights. The layers have passed ResolveStack, which gave `stack`. With `shared`, cells that are in the
  // table are used instead of equal new ones.
  static absl::StatusOr<std::shared_ptr<const Model>> Create(StackSpec stack, std::span<const LayerView> layers,
                                                             std::string fingerprint, CellTable* shared = nullptr);

  const StackSpec& stack() const { return stack_; }
  // In the order of stack().layers.
  const std::vector<ModelLayer>& layers() const { return layers_; }
  // The programs of a pipeline's maps, the last one that of `rows`; null where there is no map. No pipeline: empty.
  const std::vector<ProgramPtr>& map_programs(bool deterministic) const {
    return deterministic ? deterministic_maps_ : maps_;
  }
  // SHA-256 over canonical operators and weights, 64 hexadecimal digits.
  const std::string& fingerprint() const { return fingerprint_; }
  // The distinct cells it holds, for both readings of clip_cell_input.
  const std::vector<CellPtr>& distinct_cells() const { return distinct_cells_; }
  // Bytes of the distinct cells.
  int64_t weight_bytes() const { return weight_bytes_; }
  KnownPlans& plans() const { return plans_; }

 private:
  Model() = default;
  StackSpec stack_;
  std::vector<ModelLayer> layers_;
  std::vector<ProgramPtr> maps_, deterministic_maps_;
  std::string fingerprint_;
  std::vector<CellPtr> distinct_cells_;
  int64_t weight_bytes_ = 0;
  mutable KnownPlans plans_;
};

using ModelPtr = std::shared_ptr<const Model>;

// 64 hexadecimal digits, the same in every process. Of one layer: SHA-256 over its CanonicalText() and the weight
// tensors in the order W, R, B, P. Of several, or one whose X has other axes: SHA-256 over the layers' fingerprints.
std::string Fingerprint(const StackSpec& stack, std::span<const LayerView> layers);

}  // namespace rnnserve
