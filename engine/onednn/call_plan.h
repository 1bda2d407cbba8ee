// SPDX-License-Identifier: Apache-2.0
// How a batch is cut into calls of a primitive. A primitive is made for a number of rows and of steps, which costs
// milliseconds, so both come from small sets; rows and steps are covered by several calls where they are not in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cell.h"

namespace rnnserve::onednn {

// Rows that run together at most.
constexpr size_t kGroupRows = 64;
// Rows that a call may have beyond those asked for. They never exceed the kernels' own tiles.
constexpr size_t kMostPadding = 7;
// Steps of a call at most.
constexpr int64_t kMostSteps = 64;

// Rows of the calls that cover `rows` rows (1 .. kGroupRows), largest first. Only the last may have more rows than are
// left, at most kMostPadding more.
std::vector<size_t> RowCalls(CellKind kind, size_t rows);

// Steps of the next call where `left` steps are left: a power of two, at most `left`, kMostSteps, and what keeps
// oneDNN's scratchpad for `rows` rows small.
int64_t StepsOfCall(const CellSpec& cell, size_t rows, int64_t left);

}  // namespace rnnserve::onednn
