// SPDX-License-Identifier: Apache-2.0
// The initial states of a request: whole, or layer by layer.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/op/stack.h"

namespace rnnserve {

// Of tensors by a file's names, in texts.
inline constexpr std::string_view kFileOwner = "this model";

// The input called `name`; null if it is absent and not required. `owner` goes into the text.
absl::StatusOr<const NamedTensor*> FindData(std::span<const NamedTensor> inputs, std::string_view name, bool required,
                                            std::string_view owner);

// Fills in plan.lengths from a tensor of int32 or int64; plan.rows and plan.steps are known.
absl::Status ReadLengths(const NamedTensor& input, std::string_view owner, RunPlan& plan);

// Fills in plan.outputs; plan.rows and plan.steps are known.
absl::Status PlanOutputs(const StackSpec& stack, std::span<const std::string> wanted, RunPlan& plan);

// Fills in plan.initial; plan.rows is known.
absl::Status ReadInitialStates(const StackSpec& stack, std::span<const NamedTensor> inputs, RunPlan& plan);

// --- Tensors by the file's names (plan_file_names.cc).

// Type and shape as in the file. T and N of the first tensor that has them hold for all: filled in if they are empty.
absl::Status CheckDeclared(const NamedTensor& input, const PipelineInput& declared, std::optional<int64_t>& steps,
                           std::optional<int64_t>& rows);

// The input of the operators' name `name`; null if it is absent, or the file uses the name.
const NamedTensor* FindOperatorInput(const StackSpec& stack, std::span<const NamedTensor> inputs,
                                     std::string_view name);

// False where the file has no names, or the tensor did not come by them; errors if it came by both.
absl::StatusOr<bool> ReadFileX(const StackSpec& stack, std::span<const NamedTensor> inputs, RunPlan& plan);
absl::StatusOr<bool> ReadFileLengths(const StackSpec& stack, std::span<const NamedTensor> inputs, RunPlan& plan);
// States that came by the file's names; plan.rows is known.
absl::Status ReadFileStates(const StackSpec& stack, std::span<const NamedTensor> inputs, RunPlan& plan);
// A state of one or several layers, one after the other, checked.
void TakeState(const StackSpec& stack, const PipelineInput& declared, const TensorView& tensor, RunPlan& plan);

}  // namespace rnnserve
