// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/cpu_engine.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/cpu_program.h"
#include "engine/cpu/targets.h"
#include "engine/cpu/tile_product.h"

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

template <typename T>
bool AllFinite(const std::vector<T>& weights, T largest) {
  return std::all_of(weights.begin(), weights.end(), [&](T weight) { return std::fabs(weight) <= largest; });
}

// A NaN or an infinity would become a number in int8, and large weights infinite in float16.
absl::Status CheckWeights(const Cell& cell, WeightType type) {
  if (type == WeightType::kAsGiven) return absl::OkStatus();
  // What still rounds to a finite number.
  const float largest = type == WeightType::kFloat16 ? 65519 : 0x1.feffffp127F;
  for (const auto& [name, weights] : {std::pair("W", &cell.weights_f32().w), std::pair("R", &cell.weights_f32().r)}) {
    if (AllFinite(*weights, largest)) continue;
    const std::string_view kind = WeightTypeName(type);
    return absl::InvalidArgumentError(absl::StrCat(name, " has NaN, an infinity or a weight above ", largest,
                                                   ", which weight_type ", absl::string_view(kind.data(), kind.size()),
                                                   " cannot keep: choose another weight_type, or AS_GIVEN"));
  }
  return absl::OkStatus();
}

class CpuEngine : public Engine {
 public:
  explicit CpuEngine(std::shared_ptr<cpu::Helper> helper) : helper_(std::move(helper)) { cpu::LimitTargets(); }

  std::string_view name() const override { return "cpu"; }

  absl::Status Supports(const CellSpec& cell, const EngineOptions& options) const override {
    if (ComputeType(cell.data_type) != DataType::kDouble) return CheckPadding<float>(cell);
    if (options.weights != WeightType::kAsGiven) {
      return absl::UnimplementedError("tensors are float64, whose weights it keeps as given only (weight_type)");
    }
    return CheckPadding<double>(cell);
  }

  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions& options) const override {
    if (absl::Status status = CheckWeights(*cell, options.weights); !status.ok()) return status;
    if (ComputeType(cell->spec().data_type) == DataType::kDouble) {
      return cpu::MakeCpuProgram<double>(*cell, WeightType::kAsGiven, helper_);
    }
    return cpu::MakeCpuProgram<float>(*cell, {options.weights, cpu::HasTiles() && !options.deterministic}, helper_);
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
