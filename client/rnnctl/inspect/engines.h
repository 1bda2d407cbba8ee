// SPDX-License-Identifier: Apache-2.0
// Which of this machine's engines run an operator, and how long they take for it. The engines are those built into the
// server; they run in this process, on one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/op/op_spec.h"

namespace rnnserve::rnnctl::inspect {

// How an operator is driven for a measurement: `steps` at a time, `rows` side by side.
struct Load {
  int64_t steps = 1;
  int64_t rows = 1;
  bool operator==(const Load&) const = default;
};

struct EngineAnswer {
  std::string engine;
  std::string refusal;              // the engine's own words; empty: it runs the operator
  std::vector<double> us_per_step;  // for each load measured: one time step of all rows, all directions
};

class Engines {
 public:
  Engines();

  // Of every engine, the quick ones first. An operator of two directions needs a yes for both.
  std::vector<EngineAnswer> Ask(const OpSpec& spec) const;
  // Ask(), with the times of those that say yes. The oracle is not timed: it serves as reference only.
  absl::StatusOr<std::vector<EngineAnswer>> Measure(const OpSpec& spec, std::span<const NamedTensor> weights,
                                                    std::span<const Load> loads) const;

 private:
  std::vector<std::unique_ptr<Engine>> engines_;
};

// The engines that `auto` chooses among: those that said yes, without the oracle if there is another.
std::vector<std::string> Candidates(std::span<const EngineAnswer> answers);
// The engine that took least time for load number `load`; empty if none was measured.
std::string Fastest(std::span<const EngineAnswer> answers, size_t load);

}  // namespace rnnserve::rnnctl::inspect
