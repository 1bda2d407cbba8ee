// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/coverage/coverage_columns.h"

#include <utility>

#include "engine/cpu/cpu_engine.h"
#include "engine/cuda/predicate.h"
#include "engine/onednn/onednn_engine.h"
#include "engine/onednn/predicate.h"
#include "engine/plugin/plugin_engine.h"
#include "engine/plugin/plugin_program.h"
#include "engine/reference/reference_engine.h"

namespace rnnserve {
namespace {

struct Type {
  const char* name;
  DataType type;
  double tolerance;
};
constexpr Type kTypes[] = {{"float32", DataType::kFloat, 1e-5},
                           {"float64", DataType::kDouble, 1e-12},
                           {"float16", DataType::kFloat16, 2e-3},
                           {"bfloat16", DataType::kBFloat16, 1e-2}};

std::vector<CoverageColumn> ColumnsOf(const std::string& name, std::unique_ptr<Engine> (*make)()) {
  const std::shared_ptr<const Engine> engine = make();
  std::vector<CoverageColumn> columns;
  for (const auto& [type_name, type, tolerance] : kTypes) {
    columns.push_back({.engine = name, .type = type_name, .data_type = type, .tolerance = tolerance, .make = make});
    columns.back().supports = [engine](const CellSpec& cell, const EngineOptions& options) {
      return engine->Supports(cell, options);
    };
  }
  return columns;
}

// Its answer for bfloat16 depends on the CPU; the document's must not.
std::vector<CoverageColumn> OneDnnColumns() {
  std::vector<CoverageColumn> columns = ColumnsOf("onednn", &MakeOneDnnEngine);
  columns.push_back(columns.back());
  columns.back().type = "bfloat16 *";
  columns.back().reduced_precision = true;
  columns.back().tolerance = 3e-2;
  for (CoverageColumn& column : columns) {
    column.supports = [](const CellSpec& cell, const EngineOptions& options) {
      return onednn::CheckCell(cell, options, true);
    };
  }
  return columns;
}

#ifdef FAKE_CUDA_PLUGIN
std::unique_ptr<Engine> MakeCudaOnFakeDevice() { return plugin::PluginEngine::Load(FAKE_CUDA_PLUGIN, {}).value(); }
#else
constexpr std::unique_ptr<Engine> (*MakeCudaOnFakeDevice)() = nullptr;
#endif

absl::Status Unless(const std::string& refusal) {
  return refusal.empty() ? absl::OkStatus() : absl::UnimplementedError(refusal);
}

// The plugin's own answers, which need no device; and what of it cuDNN computes, in whatever type.
std::vector<CoverageColumn> CudaColumns() {
  std::vector<CoverageColumn> columns;
  for (const auto& [type_name, type, tolerance] : kTypes) {
    columns.push_back({.engine = "cuda", .type = type_name, .data_type = type, .tolerance = tolerance});
    columns.back().make = MakeCudaOnFakeDevice;
    columns.back().supports = [](const CellSpec& cell, const EngineOptions& options) {
      if (absl::Status weights = CheckWeightsAsGiven(options); !weights.ok()) return weights;
      return Unless(cuda::EngineRefusal(plugin::ToAbi(cell, options)));
    };
  }
  columns.push_back({.engine = "cuda", .type = "by cuDNN"});
  columns.back().supports = [](const CellSpec& cell, const EngineOptions& options) {
    if (absl::Status weights = CheckWeightsAsGiven(options); !weights.ok()) return weights;
    const rnnserve_cell raw = plugin::ToAbi(cell, options);
    const std::string refusal = cuda::EngineRefusal(raw);
    return Unless(refusal.empty() ? cuda::CudnnRefusal(raw) : refusal);
  };
  return columns;
}

}  // namespace

EngineOptions CoverageColumn::OptionsOf(const CoverageCase& row) const {
  EngineOptions options = row.engine_options;
  options.allow_reduced_precision |= reduced_precision;
  return options;
}

std::vector<CoverageColumn> CoverageColumns() {
  std::vector<CoverageColumn> columns;
  for (std::vector<CoverageColumn>& of :
       std::vector<std::vector<CoverageColumn>>{ColumnsOf("cpu", &MakeCpuEngine), OneDnnColumns(), CudaColumns(),
                                                ColumnsOf("reference", &MakeReferenceEngine)}) {
    for (CoverageColumn& column : of) columns.push_back(std::move(column));
  }
  return columns;
}

absl::Status CoverageAnswer(const CoverageCase& row, const CoverageColumn& column) {
  const std::vector<OwnedTensor> inputs = row.InputsOf(column.data_type);
  const std::vector<NamedTensor> views = Views(inputs);
  const absl::StatusOr<OpSpec> spec = ResolveOperator(row.def, views);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<std::vector<CellPtr>> cells = MakeCells(*spec, views, row.options);
  if (!cells.ok()) return cells.status();
  for (const CellPtr& cell : *cells) {
    if (absl::Status can = column.supports(cell->spec(), column.OptionsOf(row)); !can.ok()) return can;
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
