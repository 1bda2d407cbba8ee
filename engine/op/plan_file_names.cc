// SPDX-License-Identifier: Apache-2.0
// Inputs of a request to a model with its file's names: each tensor comes by the file's name or by the operators'.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/float16.h"
#include "engine/op/plan_states.h"
#include "engine/op/signature.h"
#include "engine/op/tensor_check.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

absl::Status CameTwice(std::string_view one, std::string_view other) {
  return FieldError(InputField(one),
                    absl::StrCat(View(one), " is another name of ", View(other), ", which came too; send one of them"));
}

}  // namespace

absl::Status CheckDeclared(const NamedTensor& input, const PipelineInput& declared, std::optional<int64_t>& steps,
                           std::optional<int64_t>& rows) {
  if (input.tensor.type != declared.type) {
    return FieldError(InputField(input.name) + ".data_type",
                      absl::StrCat(input.name, " is ", View(DataTypeName(input.tensor.type)), "; the model's file has ",
                                   View(DataTypeName(declared.type))));
  }
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
  RETURN_IF_ERROR(CheckShape(input, axes, kFileOwner, "as its file has it; T and N are one for all inputs"));
  for (size_t k = 0; k < declared.shape.size(); ++k) {
    if (declared.shape[k] == kDimT) steps = input.tensor.shape[k];
    if (declared.shape[k] == kDimN) rows = input.tensor.shape[k];
  }
  return absl::OkStatus();
}

const NamedTensor* FindOperatorInput(const StackSpec& stack, std::span<const NamedTensor> inputs,
                                     std::string_view name) {
  return IsOperatorInput(stack, name) ? FindInput(inputs, name) : nullptr;
}

absl::StatusOr<bool> ReadFileX(const StackSpec& stack, std::span<const NamedTensor> inputs, RunPlan& plan) {
  if (stack.file_names == nullptr) return false;
  const PipelineInput& declared = stack.file_names->x();
  const NamedTensor* x = FindInput(inputs, declared.name);
  const NamedTensor* as_operator = FindOperatorInput(stack, inputs, "X");
  if (x != nullptr && as_operator != nullptr) return CameTwice("X", declared.name);
  plan.by_operator_names = as_operator != nullptr;
  if (plan.by_operator_names) return false;
  RETURN_IF_ERROR(FindData(inputs, declared.name, true, kFileOwner).status());
  std::optional<int64_t> steps, rows;
  RETURN_IF_ERROR(CheckDeclared(*x, declared, steps, rows));
  plan.x = x->tensor;
  plan.steps = *steps;
  plan.rows = *rows;
  if (!plan.x.data.empty()) return true;
  RETURN_IF_ERROR(CheckWithoutData(declared.name, plan.rows, plan.steps));
  return true;
}

absl::StatusOr<bool> ReadFileLengths(const StackSpec& stack, std::span<const NamedTensor> inputs, RunPlan& plan) {
  const PipelineInput* declared = stack.file_names == nullptr ? nullptr : stack.file_names->lengths();
  const NamedTensor* lengths = declared == nullptr ? nullptr : FindInput(inputs, declared->name);
  if (lengths == nullptr) return false;
  if (FindOperatorInput(stack, inputs, kLengthsName) != nullptr) return CameTwice(kLengthsName, declared->name);
  std::optional<int64_t> steps = plan.steps, rows = plan.rows;
  absl::Status status = CheckDeclared(*lengths, *declared, steps, rows);
  if (status.ok()) status = ReadLengths(*lengths, kFileOwner, plan);
  if (!status.ok()) return status;
  return true;
}

void TakeState(const StackSpec& stack, const PipelineInput& declared, const TensorView& tensor, RunPlan& plan) {
  std::span<const std::byte> rest = tensor.data;
  plan.initial.resize(stack.layers.size());
  for (const size_t layer : declared.layers) {
    const OpSpec& spec = stack.layers[layer];
    const auto count = static_cast<size_t>(spec.directions() * plan.rows * spec.hidden_size);
    const size_t bytes = count * ByteSize(declared.type);
    TensorView part = {spec.data_type, {spec.directions(), plan.rows, spec.hidden_size}, rest.first(bytes)};
    if (declared.type != spec.data_type) {
      auto converted = std::make_shared<std::vector<std::byte>>(count * ByteSize(spec.data_type));
      ConvertElements(declared.type, part.data.data(), spec.data_type, converted->data(), count);
      part.data = *converted;
      plan.converted.push_back(std::move(converted));
    }
    (declared.kind == PipelineInput::Kind::kInitialH ? plan.initial[layer].h : plan.initial[layer].c) = std::move(part);
    rest = rest.subspan(bytes);
  }
}

absl::Status ReadFileStates(const StackSpec& stack, std::span<const NamedTensor> inputs, RunPlan& plan) {
  if (stack.file_names == nullptr) return absl::OkStatus();
  for (const PipelineInput& declared : stack.file_names->inputs) {
    if (declared.kind != PipelineInput::Kind::kInitialH && declared.kind != PipelineInput::Kind::kInitialC) continue;
    const NamedTensor* state = FindInput(inputs, declared.name);
    if (state == nullptr) continue;
    const bool is_c = declared.kind == PipelineInput::Kind::kInitialC;
    const std::string_view whole = is_c ? "initial_c" : "initial_h";
    if (FindOperatorInput(stack, inputs, whole) != nullptr) return CameTwice(whole, declared.name);
    for (const size_t layer : declared.layers) {
      const std::string part = LayerName(stack, whole, layer);
      if (FindOperatorInput(stack, inputs, part) != nullptr) return CameTwice(part, declared.name);
    }
    std::optional<int64_t> steps = plan.steps, rows = plan.rows;
    RETURN_IF_ERROR(CheckDeclared(*state, declared, steps, rows));
    TakeState(stack, declared, state->tensor, plan);
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
