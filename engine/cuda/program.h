// SPDX-License-Identifier: Apache-2.0
// A cell on the device: its weights, the ways to run it, and what trials have found for each shape.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "engine/cuda/cudnn_path.h"
#include "engine/cuda/general_path.h"
#include "engine/cuda/slot_pool.h"

namespace rnnserve::cuda {

// h and c of one sequence. Imports wait on the host and travel with the next Advance; what Advance wrote stays on the
// device until it is exported.
class StateHandle {
 public:
  StateHandle(Device& device, size_t slot_bytes) : pool_(device.Slots(slot_bytes)), slot_(pool_.Take()) {}
  ~StateHandle() { pool_.Return(slot_, secret_ ? SlotPool::Content::kSecret : SlotPool::Content::kAny); }
  StateHandle(const StateHandle&) = delete;
  StateHandle& operator=(const StateHandle&) = delete;

  enum class Where { kZero, kHost, kDevice };
  Where where = Where::kZero;
  std::vector<std::byte> host;  // of the compute type: h, then c
  void* slot() const { return slot_; }

  // What a session has known must not lie in free memory, neither here nor on the device.
  void Wipe() {
    WipeHost();
    if (where == Where::kDevice) secret_ = true;
  }
  void WipeHost() {
    std::fill(host.begin(), host.end(), std::byte{0});
    host.clear();
  }

 private:
  SlotPool& pool_;
  void* slot_;
  bool secret_ = false;  // the slot holds what was to be wiped
};

class Program {
 public:
  // Throws UNIMPLEMENTED where the device can't run the cell at all.
  static void CheckSupported(const rnnserve_cell& cell);

  Program(Device& device, const rnnserve_cell& cell, const rnnserve_weights& weights);

  Device& device() const { return device_; }
  int64_t bytes() const;
  std::unique_ptr<StateHandle> NewState() const { return std::make_unique<StateHandle>(device_, state_bytes()); }
  void Import(StateHandle& state, int type, const void* h, const void* c) const;
  void Export(const StateHandle& state, int type, void* h, void* c) const;
  void Advance(std::span<const rnnserve_slice> slices) const;

 private:
  enum class Way { kGeneral, kResident, kStandard, kSmallH };
  using ShapeKey = std::tuple<int, int, bool>;  // powers of two of rows and steps; whether lengths are equal

  class Group;       // slices that run together: group.h
  class GroupQueue;  // the groups of a call: group_queue.h
  size_t OverlappingGroups(std::span<const rnnserve_slice* const> sorted) const;
  void Compute(const Work& work) const;
  Way Choose(const Work& work, const ShapeKey& key) const;
  std::optional<Way> After(Way refused) const;
  bool MayRun(Way way, const Block& block) const;
  void Run(Way way, const Work& work) const;
  int64_t BytesPerRow() const;

  int compute_type() const { return ComputeType(cell_.data_type); }
  bool lstm() const { return cell_.kind == RNNSERVE_LSTM; }
  size_t state_elements() const { return static_cast<size_t>(cell_.hidden_size) * (lstm() ? 2 : 1); }
  size_t state_bytes() const { return state_elements() * ElementBytes(compute_type()); }

  Device& device_;
  rnnserve_cell cell_;
  int run_type_;  // of packed x, y, h, c: the compute type, or the data type where h may be rounded to it
  std::unique_ptr<GeneralPath> general_;
  std::unique_ptr<CudnnPath> cudnn_;
  mutable std::mutex mutex_;  // guards what follows
  mutable std::map<ShapeKey, Way> ways_;
};

}  // namespace rnnserve::cuda
