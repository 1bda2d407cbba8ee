// SPDX-License-Identifier: Apache-2.0
// An engine of FakePrograms: it runs any cell with I = H = 1 as a sum of X.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/server/batching/fake_program.h"

namespace rnnserve {

class FakeEngine final : public Engine {
 public:
  struct Behaviour {
    std::function<absl::Status(const CellSpec&)> supports = [](const CellSpec&) { return absl::OkStatus(); };
    // Called before each slice, on the worker.
    std::function<absl::Status()> before_slice = [] { return absl::OkStatus(); };
    std::function<absl::Status()> in_service = [] { return absl::OkStatus(); };
  };

  explicit FakeEngine(std::string name) : name_(std::move(name)) {}
  FakeEngine(std::string name, Behaviour behaviour) : name_(std::move(name)), behaviour_(std::move(behaviour)) {}

  std::string_view name() const override { return name_; }
  absl::Status Supports(const CellSpec& cell, const EngineOptions&) const override { return behaviour_.supports(cell); }
  absl::StatusOr<ProgramPtr> Compile(CellPtr, const EngineOptions&) const override {
    ++compiled;
    return std::make_shared<FakeProgram>(FakeProgram::Hooks{behaviour_.before_slice});
  }
  absl::Status InService() const override { return behaviour_.in_service(); }

  mutable std::atomic<int> compiled = 0;

 private:
  const std::string name_;
  const Behaviour behaviour_;
};

}  // namespace rnnserve
