// SPDX-License-Identifier: Apache-2.0
// How the threads of a launch share rows and units: its sizes, and what one thread takes. The tests walk all threads.
#pragma once

#include <cstdint>

#include "engine/cuda/host_device.h"
#include "engine/cuda/rows.h"

namespace rnnserve::cuda {

constexpr int kThreads = 256;  // of a block
constexpr int64_t kMostBlocks = 65535;

// Blocks for `work` pieces of which a block takes `a_block` at a time; at least one, and some go round again.
inline int Blocks(int64_t work, int64_t a_block) {
  const int64_t blocks = (work + a_block - 1) / a_block;
  return static_cast<int>(blocks < kMostBlocks ? (blocks > 0 ? blocks : 1) : kMostBlocks);
}

// Threads of a block share a row where rows are wide, and split into more rows where they are narrow.
struct RowThreads {
  int across;  // threads a row
  int down;    // rows a block
};
inline RowThreads RowThreadsOf(int64_t width) {
  int across = 1;
  while (across < kThreads && across < width) across *= 2;
  return {across, kThreads / across};
}

// Where a thread stands in its launch.
struct ThreadPosition {
  int64_t block, blocks;
  int64_t x, across;
  int64_t y, down;
};
RNNSERVE_HOST_DEVICE int64_t FirstRow(const ThreadPosition& at) { return at.block * at.down + at.y; }
RNNSERVE_HOST_DEVICE int64_t RowStep(const ThreadPosition& at) { return at.blocks * at.down; }
RNNSERVE_HOST_DEVICE RowShare RowShareOf(const ThreadPosition& at) { return {at.x, at.across}; }
// Of launches with one thread a unit.
RNNSERVE_HOST_DEVICE int64_t FirstUnit(const ThreadPosition& at) { return at.block * at.across + at.x; }
RNNSERVE_HOST_DEVICE int64_t UnitStep(const ThreadPosition& at) { return at.blocks * at.across; }

}  // namespace rnnserve::cuda
