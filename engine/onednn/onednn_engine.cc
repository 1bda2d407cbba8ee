// SPDX-License-Identifier: Apache-2.0
#include "engine/onednn/onednn_engine.h"

#include <utility>

#include "engine/onednn/onednn_program.h"
#include "engine/onednn/predicate.h"
#include "engine/onednn/recurrence.h"

namespace rnnserve {
namespace {

class OneDnnEngine : public Engine {
 public:
  std::string_view name() const override { return "onednn"; }

  absl::Status Supports(const CellSpec& cell, const EngineOptions& options) const override {
    return onednn::CheckCell(cell, options, has_bfloat16_);
  }

  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions& options) const override {
    if (absl::Status can = Supports(cell->spec(), options); !can.ok()) return can;
    return onednn::MakeOneDnnProgram(std::move(cell));
  }

 private:
  const bool has_bfloat16_ = onednn::CpuMultipliesBFloat16();
};

}  // namespace

std::unique_ptr<Engine> MakeOneDnnEngine() { return std::make_unique<OneDnnEngine>(); }

}  // namespace rnnserve
