// SPDX-License-Identifier: Apache-2.0
// A whole operator through an engine, the way the server does it: resolve, cells, plan, sequences, states, advance,
// export.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/op/stack.h"
#include "tests/engine/support/owned_tensor.h"

namespace rnnserve {

struct RunSettings {
  RunOptions options;
  EngineOptions engine_options;
  int64_t steps_per_slice = 0;       // cuts sequences; 0: whole
  bool one_sequence_a_call = false;  // no batches
  bool carry_exported = false;       // between slices the state leaves and comes back in the compute type
};

using OutputMap = std::map<std::string, OwnedTensor>;

// Every status of the way is passed on: refusals, and UNIMPLEMENTED where the engine does not support the cell.
absl::StatusOr<OutputMap> RunOperator(const Engine& engine, const OperatorDef& op, std::span<const OwnedTensor> inputs,
                                      std::span<const std::string> wanted = {}, const RunSettings& settings = {});

// Whether the engine takes all cells of the operator; refusals of the operator itself are passed on.
absl::Status SupportsOperator(const Engine& engine, const OperatorDef& op, std::span<const OwnedTensor> inputs,
                              const EngineOptions& options);

}  // namespace rnnserve
