// SPDX-License-Identifier: Apache-2.0
// The initial states of a request: whole, or layer by layer.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/op/stack.h"

namespace rnnserve {

// The input called `name`; null if it is absent and not required. `owner` goes into the text.
absl::StatusOr<const NamedTensor*> FindData(std::span<const NamedTensor> inputs, std::string_view name, bool required,
                                            std::string_view owner);

// Fills in plan.lengths from a tensor of int32 or int64; plan.rows and plan.steps are known.
absl::Status ReadLengths(const NamedTensor& input, std::string_view owner, RunPlan& plan);

// Fills in plan.outputs; plan.rows and plan.steps are known.
absl::Status PlanOutputs(const StackSpec& stack, std::span<const std::string> wanted, RunPlan& plan);

// Fills in plan.initial; plan.rows is known.
absl::Status ReadInitialStates(const StackSpec& stack, std::span<const NamedTensor> inputs, RunPlan& plan);

}  // namespace rnnserve
