// SPDX-License-Identifier: Apache-2.0
// A program that adds: h := h + x[0], y := h, for a cell with I = H = 1 in float32. It notes every slice and lets a
// test stop it in the middle of one.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace rnnserve {

struct FakeState final : State {
  float h = 0;
};

class FakeProgram final : public Program {
 public:
  struct Hooks {
    std::function<absl::Status()> before_slice = [] { return absl::OkStatus(); };
    bool waits = false;
    // Called first, with the rows of the slice; may throw what allocations throw.
    std::function<void(size_t rows)> allocate = [](size_t) {};
    std::function<std::unique_ptr<Workspace>()> make_workspace = [] { return std::make_unique<Workspace>(); };
  };
  FakeProgram() = default;
  explicit FakeProgram(Hooks hooks) : hooks_(std::move(hooks)) {}

  std::unique_ptr<State> NewState() const override { return std::make_unique<FakeState>(); }

  void ImportState(DataType, const std::byte* h, const std::byte*, State& state) const override {
    float value = 0;
    if (h != nullptr) std::memcpy(&value, h, sizeof(value));
    static_cast<FakeState&>(state).h = value;
  }

  void ExportState(const State& state, DataType, std::byte* h, std::byte*) const override {
    if (h != nullptr) std::memcpy(h, &static_cast<const FakeState&>(state).h, sizeof(float));
  }

  std::unique_ptr<Workspace> NewWorkspace() const override { return hooks_.make_workspace(); }

  absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const override {
    hooks_.allocate(slices.size());
    {
      std::lock_guard lock(mutex_);
      slice_rows_.push_back(slices.size());
      was_alone_ = workspace.is_alone;
    }
    const absl::Status status = hooks_.before_slice();
    if (!status.ok()) return status;
    for (const SequenceSlice& slice : slices) Run(slice);
    return absl::OkStatus();
  }

  bool waits() const override { return hooks_.waits; }
  int64_t packed_bytes() const override { return 4; }

  // Sequences of each slice so far.
  std::vector<size_t> slice_rows() const {
    std::lock_guard lock(mutex_);
    return slice_rows_;
  }
  // Workspace::is_alone of the last slice.
  bool was_alone() const {
    std::lock_guard lock(mutex_);
    return was_alone_;
  }

 private:
  static void Run(const SequenceSlice& slice) {
    float h = slice.before == nullptr ? 0 : static_cast<const FakeState*>(slice.before)->h;
    for (int64_t t = 0; t < slice.steps; ++t) {
      float x = 0;
      std::memcpy(&x, slice.x + slice.x_stride * t, sizeof(x));
      h += x;
      if (slice.y != nullptr) std::memcpy(slice.y + slice.y_stride * t, &h, sizeof(h));
    }
    static_cast<FakeState*>(slice.after)->h = h;
  }

  const Hooks hooks_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  mutable std::vector<size_t> slice_rows_;
  mutable bool was_alone_ = false;
};

}  // namespace rnnserve
