// SPDX-License-Identifier: Apache-2.0
// In which order the steps of a batch run: rows longest first, so that those still active at a step are always the
// first ones; rows in groups, time in stretches, so that scratch memory has a bound whatever the batch.
//
//   plan.Sort(slices);
//   for (const RowGroup& group : plan.Groups())
//     for (int64_t step = 0; plan.Plan(group, step, limit, stretch); step += stretch.active.size()) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cpu/panel_sums.h"
#include "engine/sequence.h"

namespace rnnserve::cpu {

// Sorted rows `first` .. `first + count`.
struct RowGroup {
  size_t first = 0;
  size_t count = 0;
};

// Consecutive steps of a group: at step `first_step + k` its first `active[k]` rows run.
struct Stretch {
  int64_t first_step = 0;
  std::vector<size_t> active;
  size_t total = 0;  // sum of `active`
};

class SlicePlan {
 public:
  // Keeps pointers into `slices`. With `of` plans each takes its `share` of the rows, long and short ones alike.
  void Sort(std::span<const SequenceSlice> slices, size_t share = 0, size_t of = 1);

  std::span<const SequenceSlice* const> rows() const { return rows_; }

  // The rows in groups of nearly equal size, at most kGroupRows each.
  std::span<const RowGroup> Groups() const { return groups_; }

  // Sets `stretch` to the steps from `first_step` on whose active rows sum up to at most `limit`, at least one step.
  // False where no row of the group is that long.
  bool Plan(const RowGroup& group, int64_t first_step, size_t limit, Stretch& stretch) const;

  // take(x, k) of the k-th input of a stretch, step by step. False, and no further, where one of them returns false.
  template <typename Take>
  bool ForInputs(const RowGroup& group, const Stretch& stretch, const Take& take) const {
    size_t k = 0;
    int64_t step = stretch.first_step;
    for (const size_t active : stretch.active) {
      for (const SequenceSlice* row : rows().subspan(group.first, active)) {
        if (!take(row->x + step * row->x_stride, k++)) return false;
      }
      ++step;
    }
    return true;
  }

 private:
  std::vector<const SequenceSlice*> rows_;
  std::vector<RowGroup> groups_;
};

}  // namespace rnnserve::cpu
