// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/cpu_engine.h"

#include "engine/cpu/cpu_program.h"

namespace rnnserve {
namespace {

class CpuEngine : public Engine {
 public:
  std::string_view name() const override { return "cpu"; }

  absl::Status Supports(const CellSpec&, const EngineOptions&) const override { return absl::OkStatus(); }

  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions&) const override {
    if (ComputeType(cell->spec().data_type) == DataType::kDouble) return cpu::MakeCpuProgram<double>(*cell);
    return cpu::MakeCpuProgram<float>(*cell);
  }
};

}  // namespace

std::unique_ptr<Engine> MakeCpuEngine() { return std::make_unique<CpuEngine>(); }

}  // namespace rnnserve
