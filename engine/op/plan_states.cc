// SPDX-License-Identifier: Apache-2.0
#include "engine/op/plan_states.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/op/signature.h"
#include "engine/op/tensor_check.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

enum class Which { kH, kC };

std::string_view NameOf(const OpSpec& spec, Which which) {
  const TensorNames names = NamesOf(spec.dialect, spec.kind);
  return which == Which::kH ? names.initial_h : names.initial_c;
}

// Few calls bring states: without any, the plan has no list of them.
std::optional<TensorView>& Target(const StackSpec& stack, size_t layer, Which which, RunPlan& plan) {
  plan.initial.resize(stack.layers.size());
  return which == Which::kH ? plan.initial[layer].h : plan.initial[layer].c;
}

// One layer's own tensor.
absl::Status ReadOfLayer(const StackSpec& stack, size_t layer, std::span<const NamedTensor> inputs, Which which,
                         RunPlan& plan) {
  const OpSpec& spec = stack.layers[layer];
  if (NameOf(spec, which).empty()) return absl::OkStatus();
  const std::string name = LayerName(stack, NameOf(spec, which), layer);
  if (!IsOperatorInput(stack, name)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const NamedTensor* input, FindData(inputs, name, spec.dialect == Dialect::kOpenVino, spec.name));
  if (input == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(CheckFloatingType(*input, spec.data_type, "W"));
  const ExpectedAxis d = {"D", spec.directions()}, n = {"N", plan.rows};
  const bool batch_first = spec.batch_first();
  const std::array<ExpectedAxis, 3> axes = {{batch_first ? n : d, batch_first ? d : n, {"H", spec.hidden_size}}};
  RETURN_IF_ERROR(CheckShape(*input, axes, spec.name, ""));
  Target(stack, layer, which, plan) = input->tensor;
  return absl::OkStatus();
}

// Each layer's part of a tensor of all layers.
absl::Status ReadWhole(const StackSpec& stack, const NamedTensor& input, Which which, RunPlan& plan) {
  const OpSpec& first = stack.layers.front();
  RETURN_IF_ERROR(CheckFloatingType(input, first.data_type, "W"));
  const int64_t directions = TotalDirections(stack, which == Which::kC);
  const std::array<ExpectedAxis, 3> axes = {
      {{"D of all layers", directions}, {"N", plan.rows}, {"H", first.hidden_size}}};
  RETURN_IF_ERROR(CheckShape(input, axes, stack.Name(), ""));
  std::span<const std::byte> rest = input.tensor.data;
  const size_t direction_bytes = rest.size() / static_cast<size_t>(directions);
  for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
    const OpSpec& spec = stack.layers[layer];
    if (NameOf(spec, which).empty()) continue;
    const size_t bytes = static_cast<size_t>(spec.directions()) * direction_bytes;
    Target(stack, layer, which, plan) =
        TensorView{first.data_type, {spec.directions(), plan.rows, spec.hidden_size}, rest.first(bytes)};
    rest = rest.subspan(bytes);
  }
  return absl::OkStatus();
}

absl::Status ReadStates(const StackSpec& stack, std::span<const NamedTensor> inputs, Which which, RunPlan& plan) {
  const std::string_view name = which == Which::kH ? "initial_h" : "initial_c";
  const NamedTensor* whole =
      stack.layers.size() > 1 && HasWholeStates(stack) && TotalDirections(stack, which == Which::kC) > 0
          ? FindOperatorInput(stack, inputs, name)
          : nullptr;
  if (whole != nullptr) {
    for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
      const NamedTensor* part = FindOperatorInput(stack, inputs, LayerName(stack, name, layer));
      if (part == nullptr) continue;
      return FieldError(InputField(part->name),
                        absl::StrCat(part->name, " is part of ", whole->name, ", which came too; send one of them"));
    }
    return ReadWhole(stack, *whole, which, plan);
  }
  for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
    RETURN_IF_ERROR(ReadOfLayer(stack, layer, inputs, which, plan));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadInitialStates(const StackSpec& stack, std::span<const NamedTensor> inputs, RunPlan& plan) {
  absl::Status status = ReadStates(stack, inputs, Which::kH, plan);
  if (status.ok()) status = ReadStates(stack, inputs, Which::kC, plan);
  if (status.ok()) status = ReadFileStates(stack, inputs, plan);
  return status;
}

}  // namespace rnnserve
