// SPDX-License-Identifier: Apache-2.0
// How a resident launch (resident.h) shares the hidden units of a cell. Plain C++, tested everywhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rnnserve::cuda {

// What of a device bounds a resident launch.
struct ResidentLimits {
  int processors;       // each runs one block of threads
  size_t shared_bytes;  // of a block of threads; 0: the device cannot launch so
};

// How the hidden units are shared. units == 0: the cell does not fit.
struct ResidentPlan {
  int units = 0;       // hidden units of a block of threads
  int blocks = 0;      // of threads
  int tile_rows = 0;   // rows that a warp takes at a time: 1 or 8
  int stage_rows = 0;  // rows of h that lie in a stage of shared memory at a time
  int stages = 0;      // 2 where there are more rows: one is copied while another is computed with
  size_t shared_bytes = 0;
};

constexpr int kResidentWarps = 16;

// `gates` of the cell, 1, 3 or 4; `rows`: sequences of the block.
inline ResidentPlan PlanResident(const ResidentLimits& limits, int gates, int64_t hidden, int64_t rows) {
  constexpr int64_t kMostHidden = 4096;  // far above what fits: no product below overflows
  if (hidden % 4 != 0 || hidden > kMostHidden || limits.processors < 1) return {};  // rows are read 16 bytes at a time
  const int width = static_cast<int>(hidden);
  const int granule = gates == 1 ? 4 : 1;  // a tile has four columns: the gates of a unit, or four units
  ResidentPlan plan;
  plan.tile_rows = rows <= 2 ? 1 : 8;
  // A few units a block at least: fewer blocks find each other sooner.
  plan.units = std::max({(width + limits.processors - 1) / limits.processors, plan.tile_rows == 1 ? 4 : 2, granule});
  plan.units = std::min((plan.units + granule - 1) / granule * granule, width);
  plan.blocks = (width + plan.units - 1) / plan.units;
  // So many that each warp has a tile, if they fit.
  const int wanted = std::max(1, kResidentWarps * granule / plan.units);
  const int row_tiles = static_cast<int>((std::min<int64_t>(rows, 1 << 20) + plan.tile_rows - 1) / plan.tile_rows);
  const size_t row_bytes = static_cast<size_t>(width) * sizeof(float);
  const auto set_stages = [&](int tiles) {
    plan.stage_rows = std::min(tiles, row_tiles) * plan.tile_rows;
    plan.stages = row_tiles > tiles ? 2 : 1;
    plan.shared_bytes = (static_cast<size_t>(plan.units) * static_cast<size_t>(gates) +
                         static_cast<size_t>(plan.stages) * static_cast<size_t>(plan.stage_rows)) *
                        row_bytes;
  };
  for (int tiles = wanted; tiles > 0; tiles /= 2) {
    set_stages(tiles);
    if (plan.shared_bytes <= limits.shared_bytes) return plan;
  }
  return {};
}

}  // namespace rnnserve::cuda
