// SPDX-License-Identifier: Apache-2.0
// From what a call names to the model it means, with options and engine decided.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/core/core.h"

namespace rnnserve {

struct Target {
  ModelPtr model;
  RunOptions run_options;
  EngineOptions engine_options;
  std::string engine;                   // "": the server's default; "auto": whichever is fastest here
  std::string label;                    // what its work is counted under: the model's name
  std::optional<int64_t> version = {};  // of a model that was named
};

// Finds or makes the model, merges options (call, else model, else the specification's defaults), and refuses weights
// next to a model that has its own.
absl::StatusOr<Target> ResolveTarget(const InferCall& call, ModelStore& models);

}  // namespace rnnserve
