// SPDX-License-Identifier: Apache-2.0
// An engine for cells of one float32 input that counts how often each x has been computed, and that a test can stop in
// front of a certain x. The numbers are those of the engine behind it.
#pragma once

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "tests/engine/support/partial_programs.h"

namespace rnnserve {

class WatchedEngine final : public Engine {
 public:
  explicit WatchedEngine(std::unique_ptr<Engine> target) : target_(std::move(target)) {}

  std::string_view name() const override { return "watched"; }
  absl::Status Supports(const CellSpec& cell, const EngineOptions& options) const override {
    return target_->Supports(cell, options);
  }
  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions& options) const override {
    absl::StatusOr<ProgramPtr> program = target_->Compile(std::move(cell), options);
    if (!program.ok()) return program;
    return std::make_shared<WatchedProgram>(this, *std::move(program));
  }

  // How often a step with this x has been computed.
  int computed(float x) const {
    const std::lock_guard lock(mutex_);
    const auto found = computed_.find(x);
    return found == computed_.end() ? 0 : found->second;
  }
  std::unordered_map<float, int> computed() const {
    const std::lock_guard lock(mutex_);
    return computed_;
  }
  int64_t steps() const {
    const std::lock_guard lock(mutex_);
    return steps_;
  }
  // Slices of more than one sequence.
  int64_t shared_slices() const {
    const std::lock_guard lock(mutex_);
    return shared_slices_;
  }

  // The next slice with this x stops before it is computed, until Release. Without x: every slice.
  void HoldAt(std::optional<float> x) {
    const std::lock_guard lock(mutex_);
    holding_ = true;
    held_ = x;
    stopped_ = 0;
  }
  // Waits until so many slices have been stopped.
  void AwaitHeld(int slices = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ >= slices; });
  }
  bool is_held() const {
    const std::lock_guard lock(mutex_);
    return stopped_ > 0;
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    holding_ = false;
    changed_.notify_all();
  }

 private:
  class WatchedProgram final : public WrappedProgram {
   public:
    WatchedProgram(const WatchedEngine* engine, ProgramPtr target)
        : WrappedProgram(std::move(target)), engine_(engine) {}
    absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const override {
      engine_->Watch(slices);
      return target_->Advance(slices, workspace);
    }

   private:
    const WatchedEngine* const engine_;
  };

  void Watch(std::span<const SequenceSlice> slices) const {
    std::vector<float> values;
    for (const SequenceSlice& slice : slices) {
      for (int64_t t = 0; t < slice.steps; ++t) {
        std::memcpy(&values.emplace_back(), slice.x + slice.x_stride * t, sizeof(float));
      }
    }
    std::unique_lock lock(mutex_);
    const auto is_wanted = [&] {
      if (!held_) return true;
      for (const float x : values) {
        if (x == *held_) return true;
      }
      return false;
    };
    if (holding_ && is_wanted()) {
      ++stopped_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !holding_; });
    }
    for (const float x : values) ++computed_[x];
    steps_ += static_cast<int64_t>(values.size());
    if (slices.size() > 1) ++shared_slices_;
  }

  const std::unique_ptr<Engine> target_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Guarded by mutex_.
  mutable std::unordered_map<float, int> computed_;
  mutable int64_t steps_ = 0;
  mutable int64_t shared_slices_ = 0;
  mutable int stopped_ = 0;
  bool holding_ = false;
  std::optional<float> held_;
};

}  // namespace rnnserve
