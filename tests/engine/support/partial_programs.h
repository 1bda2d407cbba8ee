// SPDX-License-Identifier: Apache-2.0
// Programs of which a test writes what matters to it.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "engine/engine.h"

namespace rnnserve {

// Everything but Advance is the program's behind it.
class WrappedProgram : public Program {
 public:
  explicit WrappedProgram(ProgramPtr target) : target_(std::move(target)) {}
  std::unique_ptr<State> NewState() const override { return target_->NewState(); }
  void ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const override {
    target_->ImportState(type, h, c, state);
  }
  void ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const override {
    target_->ExportState(state, type, h, c);
  }
  std::unique_ptr<Workspace> NewWorkspace() const override { return target_->NewWorkspace(); }
  int64_t packed_bytes() const override { return target_->packed_bytes(); }

 protected:
  const ProgramPtr target_;
};

// States hold nothing, and Advance does nothing.
class StatelessProgram : public Program {
 public:
  std::unique_ptr<State> NewState() const override { return std::make_unique<State>(); }
  void ImportState(DataType, const std::byte*, const std::byte*, State&) const override {}
  void ExportState(const State&, DataType, std::byte*, std::byte*) const override {}
  std::unique_ptr<Workspace> NewWorkspace() const override { return std::make_unique<Workspace>(); }
  absl::Status Advance(std::span<const SequenceSlice>, Workspace&) const override { return absl::OkStatus(); }
};

}  // namespace rnnserve
