// SPDX-License-Identifier: Apache-2.0
// Creating a recurrent primitive: the one place that differs between oneDNN 2 (operation descriptors) and 3 (none).
#pragma once

#include <cstdint>

#include "dnnl.hpp"
#include "engine/cell.h"

namespace rnnserve::onednn {

using Memory = dnnl::memory;

// A primitive for `steps` steps of `rows` rows, left to right, and how its arguments lie in memory.
//
//   x, y      [steps, rows, I or H]     of the data type
//   h, c      [1, 1, rows, H]           h of the data type, c float32; c empty unless the cell is an LSTM
//   bias      [1, 1, gates, H]          float32; four rows for a GRU with linear_before_reset
//   peephole  [1, 1, 3, H]              float32; empty unless the cell has one
//   w, r      [1, 1, I or H, G, H]      of the data type, in the layout that was asked for
struct Recurrence {
  dnnl::primitive primitive;
  Memory::desc x, y, h, c, w, r, bias, peephole, scratchpad;
};

enum class WeightLayout {
  kFastest,  // what oneDNN chooses for this shape; another shape may get another one
  kPlain,    // the same for all shapes
};

// Call it under a OneThreadTeam. Throws dnnl::error.
Recurrence MakeRecurrence(const dnnl::engine& engine, const CellSpec& cell, int64_t rows, int64_t steps,
                          WeightLayout layout);

Memory::data_type OneDnnType(DataType type);

// Gates in a bias: G, and one more for linear_before_reset.
int64_t BiasGates(const CellSpec& cell);

// Whether bfloat16 products run on the CPU's own instructions (and ONEDNN_MAX_CPU_ISA lets them).
bool CpuMultipliesBFloat16();

}  // namespace rnnserve::onednn
