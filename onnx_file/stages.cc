// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/stages.h"

#include "absl/strings/str_cat.h"
#include "engine/map/map.h"

namespace rnnserve {
namespace {

void AddMap(const MapUse& use, const char* kind, std::vector<Stage>& stages) {
  if (use.map == nullptr) return;
  const std::string what = Describe(*use.map);
  stages.push_back({.kind = kind,
                    .what = what.empty() ? "hands numbers on" : what,
                    .bytes = use.map->WeightBytes(),
                    .step_work = use.map->Work()});
}

Stage LayerStage(const OpSpec& spec) {
  const int64_t work =
      spec.directions() * GateCount(spec.kind) * spec.hidden_size * (spec.input_size + spec.hidden_size);
  return {.kind = "layer",
          .what = absl::StrCat(spec.op_type, "-", spec.version, " ", spec.input_size, " to ",
                               spec.directions() * spec.hidden_size,
                               spec.directions() == 2                  ? ", bidirectional"
                               : spec.direction == Direction::kReverse ? ", reverse"
                                                                       : ""),
          .bytes = work * static_cast<int64_t>(ByteSize(spec.data_type)),
          .step_work = work};
}

}  // namespace

std::vector<Stage> StagesOf(const OnnxInspection& file) {
  std::vector<Stage> stages;
  if (file.pipeline == nullptr || !file.loads.ok()) return stages;
  AddMap(file.pipeline->records, "record", stages);
  for (size_t k = 0; k < file.layers.size(); ++k) {
    AddMap(file.pipeline->maps[k], "map", stages);
    stages.push_back(LayerStage(file.layers[k]));
  }
  AddMap(file.pipeline->maps.back(), "map", stages);
  AddMap(file.pipeline->rows, "row", stages);
  return stages;
}

}  // namespace rnnserve
