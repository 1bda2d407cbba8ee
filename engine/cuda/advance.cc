// SPDX-License-Identifier: Apache-2.0
// Program::Advance: sorts the slices and cuts them into groups.
#include <algorithm>

#include "engine/cuda/group_queue.h"

namespace rnnserve::cuda {
namespace {

// A call is cut to overlap copies with computing where this holds. Steps follow each other: each group repeats the
// latency of all of them.
constexpr int64_t kFewSteps = 4;
// A product of fewer rows takes as long: reading the weights is what it waits for.
constexpr size_t kLeastSlices = 128;
// More overlap little more, and each costs its launches.
constexpr size_t kMostGroups = 4;

}  // namespace

int64_t Program::BytesPerRow() const {
  const auto data = static_cast<int64_t>(ElementBytes(cell_.data_type));
  const auto run = static_cast<int64_t>(ElementBytes(run_type_));
  const auto compute = static_cast<int64_t>(ElementBytes(compute_type()));
  const int64_t gates = 2 * GateCount(cell_.kind) * cell_.hidden_size * compute;
  return (cell_.input_size + cell_.hidden_size) * (data + run) + gates + 4 * cell_.hidden_size * run + 64;
}

// How many groups of about equally many slices overlap well. 1: none.
size_t Program::OverlappingGroups(std::span<const rnnserve_slice* const> sorted) const {
  if (sorted.front()->steps > kFewSteps) return 1;
  int64_t rows = 0;
  for (const rnnserve_slice* slice : sorted) rows += slice->steps;
  const int64_t bytes =
      rows * (cell_.input_size + cell_.hidden_size) * static_cast<int64_t>(ElementBytes(cell_.data_type));
  const size_t groups =
      std::min({kMostGroups, sorted.size() / kLeastSlices, static_cast<size_t>(bytes / device_.group_bytes())});
  return std::max<size_t>(1, groups);
}

void Program::Advance(std::span<const rnnserve_slice> slices) const {
  if (slices.empty()) return;
  std::vector<const rnnserve_slice*> sorted;
  sorted.reserve(slices.size());
  for (const rnnserve_slice& slice : slices) sorted.push_back(&slice);
  const auto longer = [](const rnnserve_slice* a, const rnnserve_slice* b) { return a->steps > b->steps; };
  if (!std::is_sorted(sorted.begin(), sorted.end(), longer)) std::stable_sort(sorted.begin(), sorted.end(), longer);

  const int64_t rows_a_block = std::clamp<int64_t>(device_.block_bytes() / BytesPerRow(), 1, int64_t{1} << 22);
  auto most_slices = static_cast<size_t>(rows_a_block);
  const size_t overlapping = rows_a_block >= kFewSteps ? OverlappingGroups(sorted) : 1;
  if (overlapping > 1) {  // each one block
    most_slices = std::min((sorted.size() + overlapping - 1) / overlapping,
                           static_cast<size_t>(rows_a_block / sorted.front()->steps));
  }
  SpentSlots spent(device_);  // goes after the queue, which waits until nothing writes to them any more
  GroupQueue queue(*this, overlapping > 1);
  for (size_t first = 0; first < sorted.size();) {
    const size_t count = std::min(sorted.size() - first, most_slices);
    queue.Run(std::span(sorted).subspan(first, count), std::max<int64_t>(1, rows_a_block / static_cast<int64_t>(count)),
              first == 0 ? std::span(spent.slots()) : std::span<const SpentSlot>());
    first += count;
  }
  queue.FinishAll();
  spent.SetWiped();
  for (const rnnserve_slice& slice : slices) {
    StateHandle* after = Handle(slice.after);
    after->where = StateHandle::Where::kDevice;
    after->WipeHost();
  }
}

}  // namespace rnnserve::cuda
