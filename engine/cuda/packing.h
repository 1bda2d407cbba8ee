// SPDX-License-Identifier: Apache-2.0
// Where rows lie. Three orders meet here:
//
//   host     the caller's x and y: one walk a slice, any stride, any sign
//   staged   slices one after the other in pinned memory, each in the order of its host memory (one copy a slice where
//            its steps are adjacent), read and written through Walks
//   packed   by step, longest slices first, no padding: row offsets[t] + r is step t of slice r. What the products and
//            cuDNN's SEQ_MAJOR_PACKED see; with equal lengths it is the plain [T, N, *]
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cuda/host_device.h"
#include "engine/cuda/row_copies.h"

namespace rnnserve::cuda {

// Elements from the start of the staging area to a slice's step 0 of the block, and from step to step. base < 0: no
// such walk (an output that was not asked for).
struct Walk {
  int64_t base;
  int64_t stride;
};

// The step of a packed row: the last t with offsets[t] <= row. `offsets` ascends strictly, offsets[0] = 0.
RNNSERVE_HOST_DEVICE int StepOfRow(const int64_t* offsets, int steps, int64_t row) {
  int low = 0;
  int high = steps - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (offsets[middle] <= row) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Element offset in the staging area of a packed row's first element, or -1.
RNNSERVE_HOST_DEVICE int64_t StagedOffset(const Walk* walks, const int64_t* offsets, int steps, int64_t row) {
  const int t = StepOfRow(offsets, steps, row);
  const Walk& walk = walks[row - offsets[t]];
  return walk.base < 0 ? -1 : walk.base + t * walk.stride;
}

// Some consecutive steps of slices sorted by falling length.
struct Block {
  int64_t first_step = 0;
  int steps = 0;       // of the longest slice in the block
  int active = 0;      // slices with a step in it; they are the first ones
  int continuing = 0;  // slices that go on after it
  int64_t rows = 0;    // packed rows: the sum of the lengths
  bool uniform = true;
  std::vector<int32_t> lengths;  // in the block, `active` of them
  std::vector<int64_t> offsets;  // of packed rows, `steps` of them
};

inline Block MakeBlock(std::span<const int64_t> sorted_steps, int64_t first_step, int64_t max_steps) {
  Block block;
  block.first_step = first_step;
  for (const int64_t steps : sorted_steps) {
    if (steps <= first_step) break;
    block.lengths.push_back(static_cast<int32_t>(std::min(steps - first_step, max_steps)));
    if (steps > first_step + max_steps) ++block.continuing;
  }
  block.active = static_cast<int>(block.lengths.size());
  if (block.active == 0) return block;
  block.steps = block.lengths.front();
  block.uniform = block.lengths.back() == block.steps;
  block.offsets.reserve(static_cast<size_t>(block.steps));
  int alive = block.active;
  for (int t = 0; t < block.steps; ++t) {
    while (block.lengths[static_cast<size_t>(alive - 1)] <= t) --alive;
    block.offsets.push_back(block.rows);
    block.rows += alive;
  }
  return block;
}

// Active slices at step t of the block.
inline int ActiveAt(const Block& block, int t) {
  const int64_t end = t + 1 < block.steps ? block.offsets[static_cast<size_t>(t + 1)] : block.rows;
  return static_cast<int>(end - block.offsets[static_cast<size_t>(t)]);
}

// How `length` steps starting at host address `at` (of their first step) lie when staged at byte `target` of the
// staging area: adjacent steps keep their memory order, others are laid out one by one.
struct Staging {
  Walk walk;              // in elements
  std::ptrdiff_t lowest;  // bytes from `at` to the lowest address, if contiguous
  bool contiguous;
};

inline Staging PlanStaging(std::ptrdiff_t stride_bytes, int64_t length, int64_t width, size_t element_bytes,
                           int64_t target_element) {
  const auto row_bytes = static_cast<std::ptrdiff_t>(static_cast<size_t>(width) * element_bytes);
  if (length > 1 && stride_bytes == -row_bytes) {
    return {{target_element + (length - 1) * width, -width}, -row_bytes * (length - 1), true};
  }
  return {{target_element, width}, 0, length == 1 || stride_bytes == row_bytes};
}

inline RowCopy StageIn(const Staging& plan, const std::byte* at, std::ptrdiff_t stride_bytes, int64_t length,
                       size_t row_bytes, std::byte* target) {
  const auto adjacent = static_cast<std::ptrdiff_t>(row_bytes);
  if (plan.contiguous) return {at + plan.lowest, adjacent, target, adjacent, row_bytes, length};
  return {at, stride_bytes, target, adjacent, row_bytes, length};
}

inline RowCopy StageOut(const Staging& plan, std::byte* at, std::ptrdiff_t stride_bytes, int64_t length,
                        size_t row_bytes, const std::byte* source) {
  const auto adjacent = static_cast<std::ptrdiff_t>(row_bytes);
  if (plan.contiguous) return {source, adjacent, at + plan.lowest, adjacent, row_bytes, length};
  return {source, adjacent, at, stride_bytes, row_bytes, length};
}

}  // namespace rnnserve::cuda
