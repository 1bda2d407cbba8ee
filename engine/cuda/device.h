// SPDX-License-Identifier: Apache-2.0
// The device: its memory under one budget, its state slots, its contexts, and whether it still works.
//
// Everything here outlives programs, states and workspaces (the ABI asks the host to destroy those first).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/cuda/copy_pool.h"
#include "engine/cuda/resident_plan.h"
#include "engine/plugin/engine_abi.h"

namespace rnnserve::cuda {

class Device;

// Device memory, counted against the budget. Where it does not fit, what lies idle elsewhere makes room, if it is
// needed.
class DeviceBuffer {
 public:
  enum class Room { kMake, kAsItIs };
  DeviceBuffer() = default;
  DeviceBuffer(Device& device, size_t bytes, Room room = Room::kMake);
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Copies host memory to the device and waits until it is there. (cudaMemcpy alone may return before: the contexts'
// streams would not wait for it.)
void CopyToDevice(void* to, const void* from, size_t bytes, const char* what);

// Page-locked host memory. Bounded by the contexts' own sizes, not by the device's budget.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class ExecutionContext;
class SlotPool;
struct SpentSlot;

class Device {
 public:
  explicit Device(const rnnserve_engine_options& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Makes the device current for the calling thread and refuses work once it has failed.
  void Enter() const;
  // What RNNSERVE_CUDA_PATH asks for: "", "general", "resident" or "cudnn" (for measurements and tests).
  const std::string& forced_path() const { return forced_path_; }
  // Bytes that a block's buffers stay below; RNNSERVE_CUDA_BLOCK_BYTES if it is set (likewise).
  int64_t block_bytes() const { return block_bytes_; }
  // Compute capability, 90 for 9.0.
  int capability() const { return capability_; }
  const ResidentLimits& resident_limits() const { return resident_limits_; }

  void Reserve(size_t bytes, DeviceBuffer::Room room);  // throws RESOURCE_EXHAUSTED above the budget
  void Release(size_t bytes);
  // Gives back to the device what idle contexts and pools hold. Never throws.
  void MakeRoom();
  int64_t memory_limit() const { return limit_; }

  SlotPool& Slots(size_t slot_bytes);
  // Slots that wait to be wiped, of all pools: see SpentSlots.
  int64_t spent() const { return spent_.load(); }
  void CountSpent(int64_t more) { spent_ += more; }
  void TakeSpent(size_t most, std::vector<SpentSlot>& to);

  // A stream with its handles and buffers, for one call at a time; see ContextLease. There are as many as keep the
  // device busy, and no more: each holds memory. Waits for one. The last one returned comes first: it is warm.
  std::unique_ptr<ExecutionContext> TakeContext();
  // Another one for a call that has one. Null unless one is free at once and leaves one for other calls (a call that
  // waited here would hold what the others wait for) and half of the memory is free.
  std::unique_ptr<ExecutionContext> TryTakeContext();
  void ReturnContext(std::unique_ptr<ExecutionContext> context);  // null: it has been destroyed

  // Shared by all contexts. RNNSERVE_CUDA_COPY_HELPERS sets the number of threads (for measurements and tests).
  CopyPool& copy_pool() { return copy_pool_; }

  // Bytes of x and y that a group has at least where a call is cut to overlap copies with computing;
  // RNNSERVE_CUDA_GROUP_BYTES if it is set.
  int64_t group_bytes() const { return group_bytes_; }

  // Takes the device out of service; the first reason is kept.
  void Fail(const std::string& reason);
  bool healthy() const { return healthy_.load(); }
  void Describe(rnnserve_device_info& info) const;

 private:
  bool TryReserve(size_t bytes);
  std::unique_ptr<ExecutionContext> TakeLane(std::unique_lock<std::mutex>& lock);

  int ordinal_ = 0;
  int capability_ = 0;
  ResidentLimits resident_limits_{};
  int64_t limit_ = 0;
  int64_t total_ = 0;
  std::string name_;
  std::string versions_;
  std::string forced_path_;
  int64_t block_bytes_ = 0;
  int64_t group_bytes_ = 0;
  CopyPool copy_pool_;
  std::atomic<int64_t> in_use_{0};
  std::atomic<int64_t> spent_{0};
  std::atomic<bool> healthy_{true};
  mutable std::mutex mutex_;  // guards what follows
  std::string failure_;
  std::map<size_t, std::unique_ptr<SlotPool>> pools_;
  std::vector<std::unique_ptr<ExecutionContext>> contexts_;  // idle
  int lanes_taken_ = 0;
  std::condition_variable lane_returned_;
};

}  // namespace rnnserve::cuda
