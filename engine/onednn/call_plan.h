// SPDX-License-Identifier: Apache-2.0
// How a batch is cut into calls of a primitive. A primitive is made for a number of rows and of steps, which costs
// milliseconds, so both come from small sets, and steps are covered by several calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cell.h"

namespace rnnserve::onednn {

// Rows that run together at most.
constexpr size_t kGroupRows = 64;
// Rows that a call may have beyond those asked for: within the kernels' own tiles.
constexpr size_t kMostPadding = 3;
// Steps of a call at most.
constexpr int64_t kMostSteps = 32;

// Rows of the call for `rows` rows (1 .. kGroupRows): as many, or up to kMostPadding more.
size_t RowsOfCall(size_t rows);

// Steps of the next call where `left` steps are left: a power of two, at most `left`, kMostSteps, and what keeps the
// call's memory within a second-level cache. Shorter calls cost next to nothing, larger memory up to a tenth.
int64_t StepsOfCall(const CellSpec& cell, size_t rows, int64_t left);

}  // namespace rnnserve::onednn
