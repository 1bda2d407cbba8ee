// SPDX-License-Identifier: Apache-2.0
// Where states lie on the device.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "engine/cuda/device.h"
#include "engine/cuda/rows.h"

namespace rnnserve::cuda {

// Equal slots of device memory for states, cut from slabs: a session costs no cudaMalloc.
class SlotPool {
 public:
  SlotPool(Device& device, size_t slot_bytes) : device_(device), slot_bytes_(slot_bytes) {}
  void* Take();
  enum class Content { kAny, kSecret };
  // kSecret: no caller gets the slot before it has been wiped. Never throws.
  void Return(void* slot, Content content);

  // Moves up to `most` slots to be wiped into `to`, which has room for them.
  void TakeSpent(size_t most, std::vector<SpentSlot>& to);
  // Of one that TakeSpent has given away. Never throws.
  void Wiped(void* slot);
  void NotWiped(void* slot);
  // Gives unused slabs back to the device. Never throws.
  void Trim();

 private:
  void WipeNow();  // with mutex_ held

  Device& device_;
  const size_t slot_bytes_;
  std::mutex mutex_;                 // guards what follows
  std::vector<DeviceBuffer> slabs_;  // kept until others need the memory: sessions come back
  std::vector<std::byte*> free_;
  std::vector<std::byte*> spent_;  // to be wiped
  size_t slots_ = 0;               // of all slabs
};

// Slots that one call wipes on its stream, of all pools. What it has not wiped in the end waits for another call.
class SpentSlots {
 public:
  explicit SpentSlots(Device& device);
  ~SpentSlots();
  SpentSlots(const SpentSlots&) = delete;
  SpentSlots& operator=(const SpentSlots&) = delete;

  const std::vector<SpentSlot>& slots() const { return slots_; }
  void SetWiped() { wiped_ = true; }

 private:
  std::vector<SpentSlot> slots_;
  bool wiped_ = false;
};

}  // namespace rnnserve::cuda
