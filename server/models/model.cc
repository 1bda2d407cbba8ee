// SPDX-License-Identifier: Apache-2.0
#include "server/models/model.h"

#include <cmath>
#include <set>
#include <utility>

namespace rnnserve {
namespace {

absl::StatusOr<std::vector<CellPtr>> SharedCells(const OpSpec& spec, std::span<const NamedTensor> weights,
                                                 bool clip_cell_input, CellTable* shared) {
  RunOptions options;
  options.clip_cell_input = clip_cell_input;
  absl::StatusOr<std::vector<CellPtr>> cells = MakeCells(spec, weights, options);
  if (!cells.ok() || shared == nullptr) return cells;
  for (CellPtr& cell : *cells) cell = shared->Share(cell->key(), cell);
  return cells;
}

bool ClipReadingMatters(const OpSpec& spec) {
  return spec.dialect == Dialect::kOnnx && spec.kind == CellKind::kLstm && std::isfinite(spec.clip);
}

}  // namespace

OptionalOptions Merge(const OptionalOptions& first, const OptionalOptions& second) {
  OptionalOptions merged = first;
  if (!merged.clip_cell_input) merged.clip_cell_input = second.clip_cell_input;
  if (!merged.empty_row_state) merged.empty_row_state = second.empty_row_state;
  if (!merged.deterministic) merged.deterministic = second.deterministic;
  if (!merged.allow_reduced_precision) merged.allow_reduced_precision = second.allow_reduced_precision;
  return merged;
}

absl::StatusOr<ModelPtr> Model::Create(OperatorDef op, OpSpec spec, std::span<const NamedTensor> weights,
                                       std::string fingerprint, CellTable* shared) {
  absl::StatusOr<std::vector<CellPtr>> cells = SharedCells(spec, weights, true, shared);
  if (!cells.ok()) return cells.status();
  absl::StatusOr<std::vector<CellPtr>> unclipped = cells;
  if (ClipReadingMatters(spec)) unclipped = SharedCells(spec, weights, false, shared);
  if (!unclipped.ok()) return unclipped.status();

  std::shared_ptr<Model> model(new Model());
  model->op_ = std::move(op);
  model->spec_ = std::move(spec);
  model->fingerprint_ = std::move(fingerprint);
  model->cells_ = *std::move(cells);
  model->cells_unclipped_c_ = *std::move(unclipped);
  std::set<CellPtr> distinct(model->cells_.begin(), model->cells_.end());
  distinct.insert(model->cells_unclipped_c_.begin(), model->cells_unclipped_c_.end());
  for (const CellPtr& cell : distinct) model->weight_bytes_ += cell->weight_bytes();
  return model;
}

const std::vector<CellPtr>& Model::cells(bool clip_cell_input) const {
  return clip_cell_input ? cells_ : cells_unclipped_c_;
}

}  // namespace rnnserve
