// SPDX-License-Identifier: Apache-2.0
#include "engine/onednn/call_plan.h"

#include <algorithm>
#include <bit>

namespace rnnserve::onednn {
namespace {

// What inputs, outputs and scratchpad of a call may take together, unless one step takes more.
constexpr int64_t kCallBytes = int64_t{1} << 20;

// Values of oneDNN's scratchpad a row, step and unit, as measured.
int64_t ScratchpadValues(CellKind kind) { return kind == CellKind::kLstm ? 13 : kind == CellKind::kGru ? 24 : 9; }

}  // namespace

size_t RowsOfCall(size_t rows) {
  const size_t grain = rows <= 16 ? 1 : rows <= 32 ? 2 : 4;
  return (rows + grain - 1) / grain * grain;
}

int64_t StepsOfCall(const CellSpec& cell, size_t rows, int64_t left) {
  const int64_t values = cell.input_size + cell.hidden_size * (ScratchpadValues(cell.kind) + 1);
  const int64_t limit = kCallBytes / (static_cast<int64_t>(rows * sizeof(float)) * values);
  const int64_t steps = std::max<int64_t>(1, std::min({left, limit, kMostSteps}));
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(steps)));
}

}  // namespace rnnserve::onednn
