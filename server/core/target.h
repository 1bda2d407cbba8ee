// SPDX-License-Identifier: Apache-2.0
// From what a call names to the model it means, with options and engine decided.
#pragma once

#include "absl/status/statusor.h"
#include "server/core/call.h"

namespace rnnserve {

// Finds or makes the model, merges options (call, else model, else the specification's defaults), and refuses weights
// next to a model that has its own.
absl::StatusOr<ResolvedModel> ResolveTarget(const InferCall& call, ModelStore& models);

// The same of a call that names this model and nothing else.
ResolvedModel ResolveLoaded(const LoadedModel& loaded);

}  // namespace rnnserve
