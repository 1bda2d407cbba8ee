// SPDX-License-Identifier: Apache-2.0
// Programs of the cpu engine: a packed W, the cell's recurrent step, and the walk over slices. T is the compute type.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/recycled.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/faster_way.h"
#include "engine/cpu/helper.h"
#include "engine/cpu/slice_plan.h"
#include "engine/engine.h"

namespace rnnserve::cpu {

template <typename T>
struct CpuState : public State, public Recycled {
  std::vector<T, RecycledAllocator<T>>
      values;  // h, and c of an LSTM behind it: one block, since sessions keep them by the hundred thousand
};

// What a thread needs for the rows it runs.
template <typename T>
struct CpuScratch {
  SlicePlan plan;
  Stretch stretch;
  // A row per row of the plan. Steps alternate between the two of h: after k of them a row has its h in h[k % 2].
  AlignedBuffer<T> h[2];
  AlignedBuffer<T> c;
  AlignedBuffer<T> x;        // a row per active row and step of a stretch, unless tiles take them from the callers
  AlignedBuffer<T> inputs;   // a row of each of these
  AlignedBuffer<T> scratch;  // a row per row of a group
  // Of x, h and scratch, where Prepare has another form of them.
  AlignedBuffer<std::byte> prepared_x, prepared_h, prepared_scratch;
  bool backwards = false;  // in which order the last step read the weights
  bool by_tiles = false;   // whether products do that may: in parts, or of one row of bfloat16

  size_t bytes() const {
    return (h[0].size() + h[1].size() + c.size() + x.size() + inputs.size() + scratch.size()) * sizeof(T) +
           prepared_x.size() + prepared_h.size() + prepared_scratch.size();
  }
};

template <typename T>
struct CpuWorkspace : public Workspace {
  // The second: of the helper, where rows are halved.
  CpuScratch<T> scratch[2];
  // Whether tiles are faster. In parts: of 1, 2 and 4 rows, whose inputs alone may go by parts, of 8, 16, 32, 64 and
  // more rows; of bfloat16: of one row. One step and more, alone and shared.
  TilesWay tiles[7][2][2];
  // Whether the helper took part in the last run that was shared: it sleeps between small ones that come seldom.
  bool was_helped = true;

  size_t bytes() const { return scratch[0].bytes() + scratch[1].bytes(); }
};

// Keeps nothing of the cell but its packed weights. `helper` may be null.
template <typename T>
ProgramPtr MakeCpuProgram(const Cell& cell, WeightForm weights, std::shared_ptr<Helper> helper);

}  // namespace rnnserve::cpu
