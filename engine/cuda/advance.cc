// SPDX-License-Identifier: Apache-2.0
// Program::Advance: sorts the slices and cuts them into groups.
#include <algorithm>

#include "engine/cuda/group.h"

namespace rnnserve::cuda {

int64_t Program::BytesPerRow() const {
  const auto data = static_cast<int64_t>(ElementBytes(cell_.data_type));
  const auto run = static_cast<int64_t>(ElementBytes(run_type_));
  const auto compute = static_cast<int64_t>(ElementBytes(compute_type()));
  const int64_t gates = 2 * GateCount(cell_.kind) * cell_.hidden_size * compute;
  return (cell_.input_size + cell_.hidden_size) * (data + run) + gates + 4 * cell_.hidden_size * run + 64;
}

void Program::Advance(std::span<const rnnserve_slice> slices) const {
  if (slices.empty()) return;
  std::vector<const rnnserve_slice*> sorted;
  sorted.reserve(slices.size());
  for (const rnnserve_slice& slice : slices) sorted.push_back(&slice);
  const auto longer = [](const rnnserve_slice* a, const rnnserve_slice* b) { return a->steps > b->steps; };
  if (!std::is_sorted(sorted.begin(), sorted.end(), longer)) std::stable_sort(sorted.begin(), sorted.end(), longer);

  const int64_t rows_a_block = std::clamp<int64_t>(device_.block_bytes() / BytesPerRow(), 1, int64_t{1} << 22);
  SpentSlots spent(device_);  // goes after the lease, which waits until nothing writes to them any more
  const ContextLease lease(device_);
  for (size_t first = 0; first < sorted.size();) {
    const size_t count = std::min(sorted.size() - first, static_cast<size_t>(rows_a_block));
    Group group(*this, lease.context(), std::span(sorted).subspan(first, count),
                std::max<int64_t>(1, rows_a_block / static_cast<int64_t>(count)),
                first == 0 ? std::span(spent.slots()) : std::span<const SpentSlot>());
    while (group.more()) {
      group.Start();
      group.Finish();
    }
    first += count;
  }
  spent.SetWiped();
  for (const rnnserve_slice& slice : slices) {
    StateHandle* after = Handle(slice.after);
    after->where = StateHandle::Where::kDevice;
    after->WipeHost();
  }
}

}  // namespace rnnserve::cuda
