// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/slot_pool.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace rnnserve::cuda {
namespace {

constexpr size_t kSlabBytes = size_t{1} << 20;
// Slots that one call wipes at most: their addresses travel with its inputs.
constexpr size_t kMostWiped = 1024;

}  // namespace

void* SlotPool::Take() {
  std::unique_lock lock(mutex_);
  if (free_.empty()) {
    const size_t count = std::max<size_t>(1, kSlabBytes / slot_bytes_);
    lock.unlock();  // where there is no room for it, all pools are trimmed
    DeviceBuffer slab(device_, slot_bytes_ * count);
    lock.lock();
    free_.reserve(slots_ + count);  // Return never allocates
    spent_.reserve(slots_ + count);
    slabs_.push_back(std::move(slab));
    slots_ += count;
    for (size_t k = count; k-- > 0;) free_.push_back(slabs_.back().data() + k * slot_bytes_);
  }
  void* slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotPool::Return(void* slot, Content content) {
  std::lock_guard lock(mutex_);
  if (content == Content::kAny) {
    free_.push_back(static_cast<std::byte*>(slot));
  } else {
    spent_.push_back(static_cast<std::byte*>(slot));
    device_.CountSpent(1);
  }
}

void SlotPool::TakeSpent(size_t most, std::vector<SpentSlot>& to) {
  std::lock_guard lock(mutex_);
  for (; most > 0 && !spent_.empty(); --most) {
    to.push_back({spent_.back(), slot_bytes_, this});
    spent_.pop_back();
    device_.CountSpent(-1);
  }
}
void SlotPool::Wiped(void* slot) { Return(slot, Content::kAny); }
void SlotPool::NotWiped(void* slot) { Return(slot, Content::kSecret); }

void SlotPool::WipeNow() {
  if (spent_.empty()) return;
  cudaError_t done = cudaSuccess;
  for (std::byte* const slot : spent_) {
    if (done == cudaSuccess) done = cudaMemsetAsync(slot, 0, slot_bytes_, cudaStreamLegacy);
  }
  if (done == cudaSuccess) done = cudaStreamSynchronize(cudaStreamLegacy);
  if (done != cudaSuccess) return;  // the next call on the device meets the same
  free_.insert(free_.end(), spent_.begin(), spent_.end());
  device_.CountSpent(-static_cast<int64_t>(spent_.size()));
  spent_.clear();
}

void SlotPool::Trim() {
  std::lock_guard lock(mutex_);
  WipeNow();
  std::ranges::sort(free_, std::less<>());
  std::erase_if(slabs_, [&](const DeviceBuffer& slab) {
    const auto first = std::ranges::lower_bound(free_, slab.data(), std::less<>());
    const auto last = std::ranges::lower_bound(free_, slab.data() + slab.size(), std::less<>());
    const auto count = static_cast<size_t>(last - first);
    if (count * slot_bytes_ != slab.size()) return false;
    free_.erase(first, last);
    slots_ -= count;
    return true;
  });
}

SpentSlots::SpentSlots(Device& device) {
  const int64_t waiting = device.spent();
  if (waiting <= 0) return;
  const size_t most = std::min(static_cast<size_t>(waiting), kMostWiped);
  slots_.reserve(most);
  device.TakeSpent(most, slots_);
}
SpentSlots::~SpentSlots() {
  for (const SpentSlot& slot : slots_) wiped_ ? slot.pool->Wiped(slot.at) : slot.pool->NotWiped(slot.at);
}

}  // namespace rnnserve::cuda
