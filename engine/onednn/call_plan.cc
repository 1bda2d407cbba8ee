// SPDX-License-Identifier: Apache-2.0
#include "engine/onednn/call_plan.h"

#include <algorithm>
#include <bit>

namespace rnnserve::onednn {
namespace {

// What inputs, outputs and scratchpad of a call may take together, unless one step takes more.
constexpr int64_t kCallBytes = int64_t{4} << 20;

}  // namespace

std::vector<size_t> RowCalls(CellKind kind, size_t rows) {
  std::vector<size_t> calls;
  if (kind == CellKind::kGru) {
    // From 16 rows on each number of rows has a packing of the weights of its own: two of them must do.
    for (const size_t size : {kGroupRows, size_t{16}}) {
      for (; rows >= size; rows -= size) calls.push_back(size);
    }
    if (rows > 0) calls.push_back(rows);
    return calls;
  }
  const size_t tile = rows <= 16 ? 1 : rows <= 32 ? 4 : 8;
  return {(rows + tile - 1) / tile * tile};
}

int64_t StepsOfCall(const CellSpec& cell, size_t rows, int64_t left) {
  // Measured: a GRU's scratchpad takes 22 times H a row and step, an LSTM's 9 times.
  const int64_t values = cell.input_size + cell.hidden_size * (cell.kind == CellKind::kGru ? 23 : 10);
  const int64_t limit = kCallBytes / (static_cast<int64_t>(rows * sizeof(float)) * values);
  const int64_t steps = std::max<int64_t>(1, std::min({left, limit, kMostSteps}));
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(steps)));
}

}  // namespace rnnserve::onednn
