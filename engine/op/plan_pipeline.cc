// SPDX-License-Identifier: Apache-2.0
// PlanRun for a stack with a pipeline: tensors are named and shaped as in the model's file.
#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/view.h"
#include "engine/op/plan_states.h"
#include "engine/op/stack.h"
#include "engine/op/tensor_check.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

constexpr std::string_view kOwner = "this model";

absl::Status CheckType(const NamedTensor& input, DataType type) {
  if (input.tensor.type == type) return absl::OkStatus();
  return FieldError(InputField(input.name) + ".data_type",
                    absl::StrCat(input.name, " is ", View(DataTypeName(input.tensor.type)), "; the model's file has ",
                                 View(DataTypeName(type))));
}

// T and N of the first tensor that has them hold for all.
absl::Status CheckAxes(const NamedTensor& input, const PipelineInput& declared, std::optional<int64_t>& steps,
                       std::optional<int64_t>& rows) {
  std::vector<ExpectedAxis> axes;
  for (const int64_t dim : declared.shape) {
    if (dim == kDimT) {
      axes.push_back({"T", steps});
    } else if (dim == kDimN) {
      axes.push_back({"N", rows});
    } else {
      axes.push_back({"size", dim});
    }
  }
  absl::Status status = CheckShape(input, axes, kOwner, "as its file has it; T and N are one for all inputs");
  if (!status.ok()) return status;
  for (size_t k = 0; k < declared.shape.size(); ++k) {
    if (declared.shape[k] == kDimT) steps = input.tensor.shape[k];
    if (declared.shape[k] == kDimN) rows = input.tensor.shape[k];
  }
  return absl::OkStatus();
}

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

absl::Status ReadState(const StackSpec& stack, const NamedTensor& input, const PipelineInput& declared, RunPlan& plan) {
  std::span<const std::byte> rest = input.tensor.data;
  for (const size_t layer : declared.layers) {
    const OpSpec& spec = stack.layers[layer];
    const size_t bytes =
        static_cast<size_t>(spec.directions() * plan.rows * spec.hidden_size) * ByteSize(spec.data_type);
    const TensorView part = {declared.type, {spec.directions(), plan.rows, spec.hidden_size}, rest.first(bytes)};
    (declared.kind == PipelineInput::Kind::kInitialH ? plan.initial[layer].h : plan.initial[layer].c) = part;
    rest = rest.subspan(bytes);
  }
  return absl::OkStatus();
}

absl::Status ReadSteps(const Pipeline& pipeline, std::span<const NamedTensor> inputs, RunPlan& plan) {
  std::optional<int64_t> steps, rows;
  bool is_empty = false;
  for (size_t k = 0; k < pipeline.inputs.size(); ++k) {
    const PipelineInput& declared = pipeline.inputs[k];
    if (declared.kind != PipelineInput::Kind::kSteps) continue;
    const absl::StatusOr<const NamedTensor*> found = FindData(inputs, declared.name, true, kOwner);
    if (!found.ok()) return found.status();
    absl::Status status = CheckType(**found, declared.type);
    if (status.ok()) status = CheckAxes(**found, declared, steps, rows);
    if (status.ok()) status = CheckEntries(**found, declared.entries);
    if (!status.ok()) return status;
    plan.data[k] = (*found)->tensor;
    is_empty |= plan.data[k].data.empty();
  }
  plan.steps = *steps;
  plan.rows = *rows;
  return is_empty ? CheckWithoutData(pipeline.inputs[0].name, plan.rows, plan.steps) : absl::OkStatus();
}

absl::Status ReadOthers(const StackSpec& stack, std::span<const NamedTensor> inputs, bool in_session, RunPlan& plan) {
  for (const PipelineInput& declared : stack.pipeline->inputs) {
    if (declared.kind == PipelineInput::Kind::kSteps) continue;
    const bool is_state = declared.kind != PipelineInput::Kind::kLengths;
    if (is_state && in_session) continue;
    const bool is_required = is_state && !declared.optional;
    const absl::StatusOr<const NamedTensor*> found = FindData(inputs, declared.name, is_required, kOwner);
    if (!found.ok()) return found.status();
    if (*found == nullptr) continue;
    if (absl::Status status = CheckType(**found, declared.type); !status.ok()) return status;
    std::optional<int64_t> steps = plan.steps, rows = plan.rows;
    absl::Status status = is_state ? CheckAxes(**found, declared, steps, rows) : ReadLengths(**found, kOwner, plan);
    if (status.ok() && is_state) status = ReadState(stack, **found, declared, plan);
    if (!status.ok()) return status;
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
    plan.outputs.erase(std::remove_if(plan.outputs.begin(), plan.outputs.end(), has_no_end), plan.outputs.end());
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
