// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/cpu_engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/cpu_program.h"
#include "engine/cpu/targets.h"

namespace rnnserve {
namespace {

using cpu::PadToLine;

// Blocks of few units are padded to a cache line of units: W of one unit and very many inputs would grow sixteenfold.
constexpr int64_t kMaxPadding = 4;
constexpr int64_t kMaxPaddedBytes = int64_t{64} << 20;

template <typename T>
absl::Status CheckPadding(const CellSpec& cell) {
  const auto padded = static_cast<int64_t>(PadToLine<T>(static_cast<size_t>(cell.hidden_size)));
  if (padded <= kMaxPadding * cell.hidden_size) return absl::OkStatus();
  const int64_t column_bytes = GateCount(cell.kind) * padded * static_cast<int64_t>(sizeof(T));
  if (cell.input_size <= kMaxPaddedBytes / column_bytes) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("hidden_size ", cell.hidden_size, " with ", cell.input_size,
                                               " inputs: it pads units to ", padded, ", and W would take more than ",
                                               kMaxPaddedBytes, " bytes"));
}

class CpuEngine : public Engine {
 public:
  explicit CpuEngine(std::shared_ptr<cpu::Helper> helper) : helper_(std::move(helper)) { cpu::LimitTargets(); }

  std::string_view name() const override { return "cpu"; }

  absl::Status Supports(const CellSpec& cell, const EngineOptions&) const override {
    return ComputeType(cell.data_type) == DataType::kDouble ? CheckPadding<double>(cell) : CheckPadding<float>(cell);
  }

  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions&) const override {
    if (ComputeType(cell->spec().data_type) == DataType::kDouble) return cpu::MakeCpuProgram<double>(*cell, helper_);
    return cpu::MakeCpuProgram<float>(*cell, helper_);
  }

 private:
  const std::shared_ptr<cpu::Helper> helper_;
};

}  // namespace

std::unique_ptr<Engine> MakeCpuEngine() { return std::make_unique<CpuEngine>(nullptr); }

std::unique_ptr<Engine> MakeCpuEngineWithHelper() {
  return std::make_unique<CpuEngine>(std::make_shared<cpu::Helper>());
}

}  // namespace rnnserve
