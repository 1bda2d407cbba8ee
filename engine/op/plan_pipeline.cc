// SPDX-License-Identifier: Apache-2.0
// PlanRun for a stack with a pipeline: tensors are named and shaped as in the model's file.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/op/plan_states.h"
#include "engine/op/stack.h"
#include "engine/op/tensor_check.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

int64_t IntegerAt(const TensorView& tensor, int64_t index) {
  if (tensor.type == DataType::kInt32) {
    int32_t value = 0;
    std::memcpy(&value, tensor.data.data() + index * 4, sizeof value);
    return value;
  }
  int64_t value = 0;
  std::memcpy(&value, tensor.data.data() + index * 8, sizeof value);
  return value;
}

// Places in a table.
absl::Status CheckEntries(const NamedTensor& input, int64_t entries) {
  if (entries == 0) return absl::OkStatus();
  const auto count = static_cast<int64_t>(input.tensor.data.size() / ByteSize(input.tensor.type));
  for (int64_t k = 0; k < count; ++k) {
    const int64_t value = IntegerAt(input.tensor, k);
    if (value >= -entries && value < entries) continue;
    return FieldError(
        InputField(input.name),
        absl::StrCat(input.name, " has ", value, " at element ", k, "; the table that it is looked up in has ", entries,
                     " entries, so -", entries, " to ", entries - 1, " are taken"));
  }
  return absl::OkStatus();
}

absl::Status ReadSteps(const Pipeline& pipeline, std::span<const NamedTensor> inputs, RunPlan& plan) {
  std::optional<int64_t> steps, rows;
  bool is_empty = false;
  for (size_t k = 0; k < pipeline.inputs.size(); ++k) {
    const PipelineInput& declared = pipeline.inputs[k];
    if (declared.kind != PipelineInput::Kind::kSteps) continue;
    ASSIGN_OR_RETURN(const NamedTensor* found, FindData(inputs, declared.name, true, kFileOwner));
    absl::Status status = CheckDeclared(*found, declared, steps, rows);
    if (status.ok()) status = CheckEntries(*found, declared.entries);
    if (!status.ok()) return status;
    plan.data[k] = found->tensor;
    is_empty |= plan.data[k].data.empty();
  }
  plan.steps = steps.value_or(is_empty ? 0 : 1);  // no input has an axis of steps: a request is one step
  plan.rows = *rows;
  return is_empty ? CheckWithoutData(pipeline.inputs[0].name, plan.rows, plan.steps) : absl::OkStatus();
}

// The file would take a step of the padding; a session's chunk may bring a row nothing.
absl::Status CheckHasSteps(const PipelineInput& lengths, const RunPlan& plan) {
  const auto empty = std::ranges::find(plan.lengths, 0);
  if (empty == plan.lengths.end() || plan.steps == 0) return absl::OkStatus();
  return FieldError(InputField(lengths.name),
                    absl::StrCat(lengths.name, " has 0 for row ", empty - plan.lengths.begin(),
                                 ", and the model's file picks a step of each row (its first one, or its last one by "
                                 "its length): leave rows without steps out, or send a length of 1 or more"));
}

absl::Status ReadOthers(const StackSpec& stack, std::span<const NamedTensor> inputs, bool in_session, RunPlan& plan) {
  for (const PipelineInput& declared : stack.pipeline->inputs) {
    if (declared.kind == PipelineInput::Kind::kSteps) continue;
    const bool is_state = declared.kind != PipelineInput::Kind::kLengths;
    if (is_state && in_session) continue;
    const bool is_required = is_state && !declared.optional;
    ASSIGN_OR_RETURN(const NamedTensor* found, FindData(inputs, declared.name, false, kFileOwner));
    if (found == nullptr && is_required) {
      return FieldError(
          InputField(declared.name),
          absl::StrCat("input ", declared.name,
                       " is missing; the model's file takes this state with "
                       "each request: send zeros to begin, or open a session, which begins with zeros and "
                       "keeps it"));
    }
    if (found == nullptr) continue;
    std::optional<int64_t> steps = plan.steps, rows = plan.rows;
    absl::Status status = CheckDeclared(*found, declared, steps, rows);
    if (status.ok() && !is_state) status = ReadLengths(*found, kFileOwner, plan);
    if (status.ok() && declared.needs_steps && !in_session) status = CheckHasSteps(declared, plan);
    if (!status.ok()) return status;
    if (is_state) TakeState(stack, declared, found->tensor, plan);
  }
  if (plan.lengths.empty()) plan.lengths.assign(static_cast<size_t>(plan.rows), plan.steps);
  return absl::OkStatus();
}

// An output of the ends of sequences, of which a session sees none.
absl::Status CheckSession(const Pipeline& pipeline, std::span<const std::string> wanted, RunPlan& plan) {
  const auto has_no_end = [&](const OutputPlan& output) {
    const OverTime over_time = pipeline.outputs[output.number].over_time;
    return over_time != OverTime::kEach && over_time != OverTime::kLast;
  };
  if (wanted.empty()) {
    OutputPlans::List outputs(plan.outputs.begin(), plan.outputs.end());
    outputs.erase(std::remove_if(outputs.begin(), outputs.end(), has_no_end), outputs.end());
    plan.outputs = OutputPlans(std::move(outputs));
    return absl::OkStatus();
  }
  const auto found = std::ranges::find_if(plan.outputs, has_no_end);
  if (found == plan.outputs.end()) return absl::OkStatus();
  return FieldError(OutputField(found->name),
                    absl::StrCat("output ", found->name,
                                 " needs the whole sequence (its first step, or a mean, sum or "
                                 "extreme over time), of which a session sees one chunk at a time; ask for others, or "
                                 "run whole sequences with Infer"));
}

}  // namespace

absl::StatusOr<RunPlan> PlanPipelineRun(const StackSpec& stack, std::span<const NamedTensor> inputs,
                                        std::span<const std::string> wanted, const RunOptions& options) {
  RunPlan plan;
  plan.empty_row_state = options.empty_row_state;
  plan.initial.resize(stack.layers.size());
  plan.data.resize(stack.pipeline->inputs.size());
  absl::Status status = ReadSteps(*stack.pipeline, inputs, plan);
  if (status.ok()) status = ReadOthers(stack, inputs, options.in_session, plan);
  if (status.ok()) status = PlanOutputs(stack, wanted, plan);
  if (status.ok() && options.in_session) status = CheckSession(*stack.pipeline, wanted, plan);
  if (!status.ok()) return status;
  return plan;
}

}  // namespace rnnserve
