// SPDX-License-Identifier: Apache-2.0
// PlanRun: the shapes of one request's data, its lengths and its outputs.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/op/plan_states.h"
#include "engine/op/signature.h"
#include "engine/op/stack.h"
#include "engine/op/tensor_check.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

absl::Status ReadX(const StackSpec& stack, std::span<const NamedTensor> inputs, RunPlan& plan) {
  if (const absl::StatusOr<bool> read = ReadFileX(stack, inputs, plan); !read.ok() || *read) return read.status();
  const OpSpec& first = stack.layers.front();
  ASSIGN_OR_RETURN(const NamedTensor* x, FindData(inputs, "X", true, first.name));
  RETURN_IF_ERROR(CheckFloatingType(*x, first.data_type, "W"));
  const bool batch_first = XBatchFirst(stack);
  const ExpectedAxis t = {"T"}, n = {"N"};
  const std::array<ExpectedAxis, 3> axes = {{batch_first ? n : t, batch_first ? t : n, {"I", first.input_size}}};
  RETURN_IF_ERROR(CheckShape(*x, axes, first.name, "where I is the last axis of W"));
  plan.x = x->tensor;
  plan.steps = plan.x.shape[batch_first ? 1 : 0];
  plan.rows = plan.x.shape[batch_first ? 0 : 1];
  return plan.x.data.empty() ? CheckWithoutData("X", plan.rows, plan.steps) : absl::OkStatus();
}

absl::Status ReadLengths(const StackSpec& stack, std::span<const NamedTensor> inputs, bool in_session, RunPlan& plan) {
  if (const absl::StatusOr<bool> read = ReadFileLengths(stack, inputs, plan); !read.ok() || *read) return read.status();
  const OpSpec& spec = stack.layers.front();
  const std::string_view name = NamesOf(spec.dialect, spec.kind).sequence_lens;
  const bool onnx = spec.dialect == Dialect::kOnnx;
  const bool is_operators = IsOperatorInput(stack, name);
  ASSIGN_OR_RETURN(const NamedTensor* found,
                   is_operators ? FindData(inputs, name, !onnx && !in_session, spec.name) : nullptr);
  if (found == nullptr) {
    plan.lengths.assign(static_cast<size_t>(plan.rows), plan.steps);
    return absl::OkStatus();
  }
  const NamedTensor& input = *found;
  const DataType type = input.tensor.type;
  if (type != DataType::kInt32 && (onnx || type != DataType::kInt64)) {
    return FieldError(InputField(name) + ".data_type",
                      absl::StrCat(input.name, " is ", View(DataTypeName(type)), "; ", spec.name, " takes ",
                                   onnx ? "int32" : "int32 or int64"));
  }
  return ReadLengths(input, spec.name, plan);
}

absl::StatusOr<OutputPlan> PlanOutput(const OutputSlot& slot, const RunPlan& plan) {
  OutputPlan output = {.name = slot.signature.name,
                       .type = slot.signature.type,
                       .shape = slot.signature.shape,
                       .kind = slot.kind,
                       .layer = slot.layer,
                       .number = slot.number,
                       .order = slot.order};
  for (int64_t& axis : output.shape) {
    if (axis == kDimT) axis = plan.steps;
    if (axis == kDimN) axis = plan.rows;
  }
  const std::optional<int64_t> bytes = NumBytes(output.type, output.shape);
  if (!bytes) {
    return FieldError(OutputField(output.name),
                      absl::StrCat("output ", output.name, " of shape ", ShortShape(output.shape),
                                   " would be more than 2^63 - 1 bytes: leave it out or send fewer steps or rows"));
  }
  output.bytes = *bytes;
  return output;
}

absl::Status CheckWanted(const StackSpec& stack, std::span<const OutputSlot> slots,
                         std::span<const std::string> wanted) {
  for (size_t k = 0; k < wanted.size(); ++k) {
    const auto known = [&](const OutputSlot& slot) { return slot.signature.name == wanted[k]; };
    if (std::none_of(slots.begin(), slots.end(), known)) {
      // Those of single layers follow the others and are many.
      const auto shown = slots.first(std::min<size_t>(slots.size(), 7));
      const auto name = [](std::string* out, const OutputSlot& slot) { out->append(slot.signature.name); };
      return FieldError(OutputField(wanted[k]), absl::StrCat("there is no output ", Quoted(wanted[k]), "; ",
                                                             stack.Name(), " has ", absl::StrJoin(shown, ", ", name),
                                                             shown.size() < slots.size() ? " and so on" : ""));
    }
    // Short: names before k are known and differ, so there are few of them.
    if (std::find(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(k), wanted[k]) !=
        wanted.begin() + static_cast<std::ptrdiff_t>(k)) {
      return FieldError(OutputField(wanted[k]), absl::StrCat("output ", wanted[k], " is asked for twice"));
    }
  }
  return absl::OkStatus();
}

// Y and each final state have one place to go.
absl::Status CheckApart(const OutputPlans::List& outputs) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    for (size_t other = k + 1; other < outputs.size(); ++other) {
      const OutputPlan &one = outputs[k], &two = outputs[other];
      if (one.kind != two.kind || one.kind == OutputKind::kPipeline) continue;
      if (one.layer && two.layer && *one.layer != *two.layer) continue;
      const OutputPlan& part = one.layer ? one : two;
      const OutputPlan& whole = one.layer ? two : one;
      return FieldError(OutputField(part.name),
                        absl::StrCat(part.name, part.layer == whole.layer ? " is another name of " : " is part of ",
                                     whole.name, ", which is asked for too; ask for one of them"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PlanOutputs(const StackSpec& stack, std::span<const std::string> wanted, RunPlan& plan) {
  const std::vector<OutputSlot> own = stack.output_slots == nullptr ? OutputSlots(stack) : std::vector<OutputSlot>();
  const std::vector<OutputSlot>& slots = stack.output_slots == nullptr ? own : *stack.output_slots;
  RETURN_IF_ERROR(CheckWanted(stack, slots, wanted));
  const bool has_file_names = stack.file_names != nullptr;
  OutputPlans::List outputs;
  for (const OutputSlot& slot : slots) {
    const bool named = std::find(wanted.begin(), wanted.end(), slot.signature.name) != wanted.end();
    // In the names that the request's X has.
    const bool by_default = slot.by_default && (!has_file_names || slot.order.has_value() != plan.by_operator_names);
    if (wanted.empty() ? !by_default : !named) continue;
    ASSIGN_OR_RETURN(OutputPlan planned, PlanOutput(slot, plan));
    outputs.push_back(std::move(planned));
  }
  RETURN_IF_ERROR(CheckApart(outputs));
  plan.outputs = OutputPlans(std::move(outputs));
  return absl::OkStatus();
}

absl::Status ReadLengths(const NamedTensor& input, std::string_view owner, RunPlan& plan) {
  const std::array<ExpectedAxis, 1> axes = {{{"N", plan.rows}}};
  RETURN_IF_ERROR(CheckShape(input, axes, owner, "one length for each row of X"));
  const DataType type = input.tensor.type;
  plan.lengths.reserve(static_cast<size_t>(plan.rows));
  const std::byte* at = input.tensor.data.data();
  for (int64_t row = 0; row < plan.rows; ++row) {
    int64_t length = 0;
    if (type == DataType::kInt32) {
      int32_t value = 0;
      std::memcpy(&value, at + row * 4, sizeof value);
      length = value;
    } else {
      std::memcpy(&length, at + row * 8, sizeof length);
    }
    if (length < 0 || length > plan.steps) {
      return FieldError(InputField(input.name), absl::StrCat(input.name, " of row ", row, " is ", length,
                                                             "; expected 0 to ", plan.steps, " (T, the steps of X)"));
    }
    plan.lengths.push_back(length);
  }
  return absl::OkStatus();
}

absl::StatusOr<RunPlan> PlanRun(const StackSpec& stack, std::span<const NamedTensor> inputs,
                                std::span<const std::string> wanted, const RunOptions& options) {
  if (stack.pipeline != nullptr) return PlanPipelineRun(stack, inputs, wanted, options);
  RunPlan plan;
  plan.empty_row_state = options.empty_row_state;
  absl::Status status = ReadX(stack, inputs, plan);
  if (status.ok()) status = ReadLengths(stack, inputs, options.in_session, plan);
  if (status.ok() && !options.in_session) status = ReadInitialStates(stack, inputs, plan);
  if (status.ok()) status = PlanOutputs(stack, wanted, plan);
  if (!status.ok()) return status;
  return plan;
}

int64_t BytesAfter(const StackSpec& stack, const RunPlan& plan, size_t layer) {
  if (layer + 1 == stack.layers.size() || plan.rows == 0 || stack.pipeline != nullptr) return 0;
  const OpSpec& spec = stack.layers[layer];
  const std::array<int64_t, 4> shape = {plan.steps, plan.rows, spec.directions(), spec.hidden_size};
  return NumBytes(spec.data_type, shape).value_or(std::numeric_limits<int64_t>::max());
}

absl::StatusOr<const NamedTensor*> FindData(std::span<const NamedTensor> inputs, std::string_view name, bool required,
                                            std::string_view owner) {
  const NamedTensor* input = FindInput(inputs, name);
  if (input != nullptr || !required) return input;
  return FieldError(InputField(name), absl::StrCat("input ", View(name), " is missing; ", View(owner), " requires it"));
}

}  // namespace rnnserve
