// SPDX-License-Identifier: Apache-2.0
// Which engine runs a model's cells.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/engine.h"

namespace rnnserve {

// Whether `name` leaves the choice to the server.
inline bool IsAutoEngine(std::string_view name) { return name.empty() || name == "auto"; }

// OK for "", "auto" and the names of `engines`; else INVALID_ARGUMENT, field `engine`, with their names.
absl::Status CheckEngineName(std::span<const Engine* const> engines, std::string_view name);

// OK, or the engine's own reason not to run one of them.
inline absl::Status SupportsAll(const Engine& engine, std::span<const CellPtr> cells, const EngineOptions& options) {
  for (const CellPtr& cell : cells) {
    if (absl::Status status = engine.Supports(cell->spec(), options); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// The engine called `name`, or its own reason not to run these cells, with its code (UNIMPLEMENTED; UNAVAILABLE if it
// is out of service). For "" and "auto" the first that supports every cell, or all reasons.
absl::StatusOr<const Engine*> ChooseEngine(std::span<const Engine* const> engines, std::string_view name,
                                           std::span<const CellPtr> cells, const EngineOptions& options);

}  // namespace rnnserve
