// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/slice_plan.h"

#include <algorithm>

namespace rnnserve::cpu {

void SlicePlan::Sort(std::span<const SequenceSlice> slices, size_t share, size_t of) {
  rows_.clear();
  for (const SequenceSlice& slice : slices) rows_.push_back(&slice);
  const auto longer = [](const SequenceSlice* a, const SequenceSlice* b) { return a->steps > b->steps; };
  if (rows_.size() > 1) std::stable_sort(rows_.begin(), rows_.end(), longer);
  if (of > 1) {
    size_t kept = 0;
    for (size_t row = share; row < rows_.size(); row += of) rows_[kept++] = rows_[row];
    rows_.resize(kept);
  }
  groups_.clear();
  size_t first = 0;
  for (size_t left = (rows_.size() + kGroupRows - 1) / kGroupRows; left > 0; --left) {
    const size_t count = (rows_.size() - first + left - 1) / left;
    groups_.push_back({first, count});
    first += count;
  }
}

bool SlicePlan::Plan(const RowGroup& group, int64_t first_step, size_t limit, Stretch& stretch) const {
  stretch.first_step = first_step;
  stretch.active.clear();
  stretch.total = 0;
  size_t active = group.count;
  for (int64_t step = first_step;; ++step) {
    while (active > 0 && rows_[group.first + active - 1]->steps <= step) --active;
    if (active == 0 || (stretch.total > 0 && stretch.total + active > limit)) break;
    stretch.active.push_back(active);
    stretch.total += active;
  }
  return stretch.total > 0;
}

}  // namespace rnnserve::cpu
