// SPDX-License-Identifier: Apache-2.0
#include "server/models/model.h"

#include <cmath>
#include <set>
#include <utility>

#include "engine/map/map_program.h"

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

std::vector<ProgramPtr> MapPrograms(const Pipeline& pipeline, bool deterministic) {
  std::vector<ProgramPtr> programs;
  const auto add = [&](const MapUse& use) {
    const EngineOptions options = {.deterministic = deterministic};
    programs.push_back(use.map == nullptr ? nullptr : CompileMap(use.map, options));
  };
  for (const MapUse& use : pipeline.maps) add(use);
  add(pipeline.rows);
  add(pipeline.records);
  return programs;
}

}  // namespace

absl::StatusOr<ModelPtr> Model::Create(StackSpec stack, std::span<const LayerView> layers, std::string fingerprint,
                                       CellTable* shared) {
  std::shared_ptr<Model> model(new Model());
  std::set<CellPtr> distinct;
  for (size_t k = 0; k < layers.size(); ++k) {
    const OpSpec& spec = stack.layers[k];
    absl::StatusOr<std::vector<CellPtr>> clipped = SharedCells(spec, layers[k].tensors, true, shared);
    if (!clipped.ok()) return clipped.status();
    absl::StatusOr<std::vector<CellPtr>> unclipped = clipped;
    if (ClipReadingMatters(spec)) unclipped = SharedCells(spec, layers[k].tensors, false, shared);
    if (!unclipped.ok()) return unclipped.status();
    distinct.insert(clipped->begin(), clipped->end());
    distinct.insert(unclipped->begin(), unclipped->end());
    model->layers_.push_back({layers[k].op, *std::move(clipped), *std::move(unclipped)});
  }
  if (stack.pipeline != nullptr) {
    model->maps_ = MapPrograms(*stack.pipeline, false);
    model->deterministic_maps_ = MapPrograms(*stack.pipeline, true);
    for (const ProgramPtr& program : model->maps_)
      model->weight_bytes_ += program == nullptr ? 0 : program->packed_bytes();
  }
  model->stack_ = std::move(stack);
  model->fingerprint_ = std::move(fingerprint);
  model->distinct_cells_.assign(distinct.begin(), distinct.end());
  for (const CellPtr& cell : model->distinct_cells_) model->weight_bytes_ += cell->weight_bytes();
  return model;
}

}  // namespace rnnserve
