// SPDX-License-Identifier: Apache-2.0
// PlanRun: the shapes of one request's data, its lengths and its outputs.
#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/op/field_error.h"
#include "engine/op/op_spec.h"
#include "engine/op/signature.h"
#include "engine/op/tensor_check.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

// X with no elements (I = 0 or T = 0) costs a caller nothing, whatever its other axes say; rows and steps still cost
// us.
constexpr int64_t kMaxStepsWithoutData = int64_t{1} << 20;

std::string OperatorName(const OpSpec& spec) { return absl::StrCat(spec.op_type, "-", spec.version); }

absl::StatusOr<const NamedTensor*> Find(const OpSpec& spec, std::span<const NamedTensor> inputs, std::string_view name,
                                        bool required) {
  const NamedTensor* input = FindInput(inputs, name);
  if (input != nullptr || !required) return input;
  return FieldError(InputField(name),
                    absl::StrCat("input ", Abseil(name), " is missing; ", OperatorName(spec), " requires it"));
}

absl::Status ReadX(const OpSpec& spec, std::span<const NamedTensor> inputs, RunPlan& plan) {
  const absl::StatusOr<const NamedTensor*> x = Find(spec, inputs, "X", true);
  if (!x.ok()) return x.status();
  if (absl::Status status = CheckFloatingType(**x, spec.data_type, "W"); !status.ok()) return status;
  const bool batch_first = spec.dialect == Dialect::kOpenVino || spec.layout == 1;
  const ExpectedAxis t = {"T"}, n = {"N"};
  const std::array<ExpectedAxis, 3> axes = {{batch_first ? n : t, batch_first ? t : n, {"I", spec.input_size}}};
  absl::Status status = CheckShape(**x, axes, OperatorName(spec), "where I is the last axis of W");
  if (!status.ok()) return status;
  plan.x = (*x)->tensor;
  plan.steps = plan.x.shape[batch_first ? 1 : 0];
  plan.rows = plan.x.shape[batch_first ? 0 : 1];
  int64_t row_steps = 0;
  const bool too_many = __builtin_mul_overflow(plan.rows, std::max<int64_t>(plan.steps, 1), &row_steps) ||
                        row_steps > kMaxStepsWithoutData;
  if (plan.x.data.empty() && too_many) {
    return FieldError("inputs[X].shape", absl::StrCat("X has shape ", ShortShape(plan.x.shape),
                                                      " without any element; such a request may have at most ",
                                                      kMaxStepsWithoutData, " rows times steps"));
  }
  return absl::OkStatus();
}

absl::Status ReadLengths(const OpSpec& spec, std::span<const NamedTensor> inputs, RunPlan& plan) {
  const std::string_view name = NamesOf(spec.dialect, spec.kind).sequence_lens;
  const bool onnx = spec.dialect == Dialect::kOnnx;
  const absl::StatusOr<const NamedTensor*> found = Find(spec, inputs, name, !onnx);
  if (!found.ok()) return found.status();
  if (*found == nullptr) {
    plan.lengths.assign(static_cast<size_t>(plan.rows), plan.steps);
    return absl::OkStatus();
  }
  const NamedTensor& input = **found;
  const DataType type = input.tensor.type;
  if (type != DataType::kInt32 && (onnx || type != DataType::kInt64)) {
    return FieldError(InputField(name) + ".data_type",
                      absl::StrCat(input.name, " is ", Abseil(DataTypeName(type)), "; ", OperatorName(spec), " takes ",
                                   onnx ? "int32" : "int32 or int64"));
  }
  const std::array<ExpectedAxis, 1> axes = {{{"N", plan.rows}}};
  absl::Status status = CheckShape(input, axes, OperatorName(spec), "one length for each row of X");
  if (!status.ok()) return status;
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
      return FieldError(InputField(name), absl::StrCat(input.name, " of row ", row, " is ", length, "; expected 0 to ",
                                                       plan.steps, " (T, the steps of X)"));
    }
    plan.lengths.push_back(length);
  }
  return absl::OkStatus();
}

absl::Status ReadState(const OpSpec& spec, std::span<const NamedTensor> inputs, std::string_view name,
                       const RunPlan& plan, std::optional<TensorView>& target) {
  if (name.empty()) return absl::OkStatus();
  const absl::StatusOr<const NamedTensor*> input = Find(spec, inputs, name, spec.dialect == Dialect::kOpenVino);
  if (!input.ok()) return input.status();
  if (*input == nullptr) return absl::OkStatus();
  if (absl::Status status = CheckFloatingType(**input, spec.data_type, "W"); !status.ok()) return status;
  const bool batch_first = spec.dialect == Dialect::kOpenVino || spec.layout == 1;
  const ExpectedAxis d = {"D", spec.directions()}, n = {"N", plan.rows};
  const std::array<ExpectedAxis, 3> axes = {{batch_first ? n : d, batch_first ? d : n, {"H", spec.hidden_size}}};
  if (absl::Status status = CheckShape(**input, axes, OperatorName(spec), ""); !status.ok()) return status;
  target = (*input)->tensor;
  return absl::OkStatus();
}

absl::StatusOr<OutputPlan> PlanOutput(const TensorSignature& signature, const RunPlan& plan) {
  OutputPlan output = {signature.name, signature.type, signature.shape, 0};
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

absl::Status CheckWanted(const OpSpec& spec, std::span<const TensorSignature> outputs,
                         std::span<const std::string> wanted) {
  for (size_t k = 0; k < wanted.size(); ++k) {
    const auto known = [&](const TensorSignature& output) { return output.name == wanted[k]; };
    if (std::none_of(outputs.begin(), outputs.end(), known)) {
      const auto name = [](std::string* out, const TensorSignature& output) { out->append(output.name); };
      return FieldError(OutputField(wanted[k]),
                        absl::StrCat("there is no output ", Quoted(wanted[k]), "; ", OperatorName(spec), " has ",
                                     absl::StrJoin(outputs, ", ", name)));
    }
    // Short: names before k are known and differ, so there are at most three of them.
    if (std::find(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(k), wanted[k]) !=
        wanted.begin() + static_cast<std::ptrdiff_t>(k)) {
      return FieldError(OutputField(wanted[k]), absl::StrCat("output ", wanted[k], " is asked for twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status PlanOutputs(const OpSpec& spec, std::span<const std::string> wanted, RunPlan& plan) {
  const std::vector<TensorSignature> outputs = Outputs(spec);
  if (absl::Status status = CheckWanted(spec, outputs, wanted); !status.ok()) return status;
  for (const TensorSignature& output : outputs) {
    const bool by_default = output.name != "Y" || spec.y_by_default;
    const bool named = std::find(wanted.begin(), wanted.end(), output.name) != wanted.end();
    if (wanted.empty() ? !by_default : !named) continue;
    absl::StatusOr<OutputPlan> planned = PlanOutput(output, plan);
    if (!planned.ok()) return planned.status();
    plan.outputs.push_back(*std::move(planned));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunPlan> PlanRun(const OpSpec& spec, std::span<const NamedTensor> inputs,
                                std::span<const std::string> wanted, const RunOptions& options) {
  RunPlan plan;
  plan.empty_row_state = options.empty_row_state;
  const TensorNames names = NamesOf(spec.dialect, spec.kind);
  absl::Status status = ReadX(spec, inputs, plan);
  if (status.ok()) status = ReadLengths(spec, inputs, plan);
  if (status.ok()) status = ReadState(spec, inputs, names.initial_h, plan, plan.initial_h);
  if (status.ok()) status = ReadState(spec, inputs, names.initial_c, plan, plan.initial_c);
  if (status.ok()) status = PlanOutputs(spec, wanted, plan);
  if (!status.ok()) return status;
  return plan;
}

}  // namespace rnnserve
