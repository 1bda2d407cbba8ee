// SPDX-License-Identifier: Apache-2.0
// Engines whose runs take as long as a test says, on a clock that only they move.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "engine/engine.h"
#include "tests/engine/support/partial_programs.h"

namespace rnnserve {

struct FakeClock {
  absl::Duration now = absl::ZeroDuration();
};

class TimedEngine final : public Engine {
 public:
  // Of a run of so many steps of so many rows.
  using Cost = std::function<absl::Duration(const CellSpec& cell, int64_t rows, int64_t steps)>;

  TimedEngine(std::string name, FakeClock* clock, Cost costs)
      : cost(std::move(costs)), name_(std::move(name)), clock_(clock) {}

  std::string_view name() const override { return name_; }
  absl::Status Supports(const CellSpec& cell, const EngineOptions&) const override { return supports(cell); }
  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions&) const override {
    ++compiled;
    return std::make_shared<TimedProgram>(this, cell->spec());
  }

  Cost cost;
  std::function<absl::Status(const CellSpec&)> supports = [](const CellSpec&) { return absl::OkStatus(); };
  absl::Status runs = absl::OkStatus();
  bool waits = false;  // for a device
  mutable int compiled = 0;
  mutable int ran = 0;
  mutable bool was_alone = false;  // the last run

 private:
  class TimedProgram final : public StatelessProgram {
   public:
    TimedProgram(const TimedEngine* engine, const CellSpec& cell) : engine_(engine), cell_(cell) {}
    absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const override {
      engine_->clock_->now += engine_->cost(cell_, static_cast<int64_t>(slices.size()), slices[0].steps);
      ++engine_->ran;
      engine_->was_alone = workspace.is_alone;
      return engine_->runs;
    }
    int64_t packed_bytes() const override { return 4; }
    bool waits() const override { return engine_->waits; }

   private:
    const TimedEngine* const engine_;
    const CellSpec cell_;
  };

  const std::string name_;
  FakeClock* const clock_;
};

}  // namespace rnnserve
