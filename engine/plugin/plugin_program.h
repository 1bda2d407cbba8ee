// SPDX-License-Identifier: Apache-2.0
// Programs, states and workspaces of a plugin.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/plugin/open_engine.h"

namespace rnnserve::plugin {

rnnserve_cell ToAbi(const CellSpec& spec, const EngineOptions& options);

// Keeps nothing of the cell: the plugin reads the weights during this call only.
absl::StatusOr<ProgramPtr> MakePluginProgram(std::shared_ptr<const OpenEngine> engine, const Cell& cell,
                                             const EngineOptions& options);

}  // namespace rnnserve::plugin
