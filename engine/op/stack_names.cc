// SPDX-License-Identifier: Apache-2.0
// What each request asks of a stack's names: which tensors they mean, and whether it has them.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/view.h"
#include "engine/op/signature.h"
#include "engine/op/stack.h"
#include "engine/op/wording.h"

namespace rnnserve {

bool XBatchFirst(const StackSpec& stack) { return stack.batch_first || stack.layers.front().batch_first(); }

bool HasWholeStates(const StackSpec& stack) {
  if (stack.layers.size() == 1) return true;
  const int64_t h = stack.layers.front().hidden_size;
  return std::ranges::all_of(stack.layers,
                             [h](const OpSpec& spec) { return spec.hidden_size == h && !spec.batch_first(); });
}

int64_t TotalDirections(const StackSpec& stack, bool c) {
  int64_t sum = 0;
  for (const OpSpec& spec : stack.layers) sum += !c || spec.kind == CellKind::kLstm ? spec.directions() : 0;
  return sum;
}

std::string LayerName(const StackSpec& stack, std::string_view name, size_t layer) {
  return stack.layers.size() == 1 ? std::string(name) : absl::StrCat(View(name), ".", layer);
}

bool IsOperatorInput(const StackSpec& stack, std::string_view name) {
  return stack.file_names == nullptr || stack.file_names->FindInput(name) == nullptr;
}

bool IsChunkInput(const StackSpec& stack, std::string_view name) {
  if (stack.file_names != nullptr) {
    if (const PipelineInput* input = stack.file_names->FindInput(name)) {
      return input->kind <= PipelineInput::Kind::kLengths;
    }
  }
  if (stack.pipeline == nullptr) {
    return name == "X" || name == NamesOf(stack.layers.front().dialect, stack.layers.front().kind).sequence_lens;
  }
  const auto declared = std::ranges::find(stack.pipeline->inputs, name, &PipelineInput::name);
  return declared != stack.pipeline->inputs.end() && declared->kind <= PipelineInput::Kind::kLengths;
}

std::string DataInputName(const StackSpec& stack) {
  if (stack.file_names != nullptr) return stack.file_names->x().name;
  if (stack.pipeline == nullptr) return "X";
  const auto is_data = [](const PipelineInput& input) { return input.kind == PipelineInput::Kind::kSteps; };
  const auto has_steps = [](const PipelineInput& input) { return std::ranges::count(input.shape, kDimT) > 0; };
  const auto& inputs = stack.pipeline->inputs;
  const auto found = std::ranges::find_if(inputs, has_steps);
  return (found != inputs.end() ? found : std::ranges::find_if(inputs, is_data))->name;  // a pipeline has one
}

bool IsDataInput(const StackSpec& stack, std::string_view name) {
  return name == DataInputName(stack) || (stack.file_names != nullptr && name == "X" && IsOperatorInput(stack, name));
}

absl::Status CheckDataNames(const StackSpec& stack, std::span<const NamedTensor> inputs) {
  absl::InlinedVector<std::string_view, 8> known;
  std::vector<TensorSignature> signatures;
  if (stack.file_names != nullptr) {
    for (const PipelineInput& input : stack.file_names->inputs) known.push_back(input.name);
  }
  if (stack.layers.size() == 1 && stack.pipeline == nullptr) {
    // One layer's names are literals, which need no memory: this is asked for each request.
    const TensorNames names = NamesOf(stack.layers[0].dialect, stack.layers[0].kind);
    known.insert(known.end(), {"X", names.sequence_lens, names.initial_h});
    if (!names.initial_c.empty()) known.push_back(names.initial_c);
  } else {
    signatures = stack.pipeline != nullptr ? DataInputs(stack) : OperatorInputs(stack);
    for (const TensorSignature& signature : signatures) known.push_back(signature.name);
  }
  for (const NamedTensor& input : inputs) {
    if (!IsWeightName(input.name) || stack.pipeline != nullptr || !IsOperatorInput(stack, input.name)) continue;
    return FieldError(InputField(input.name),
                      absl::StrCat(input.name,
                                   " is a weight, which the model holds already: leave it out, or send the "
                                   "whole operator instead of naming a model"));
  }
  return CheckInputNames(inputs, known, stack.Name());
}

std::string StackSpec::Name() const {
  if (pipeline != nullptr) return "this model";
  return layers.size() == 1 ? layers.front().name : absl::StrCat("this stack of ", layers.size(), " layers");
}

std::vector<std::string> StackSpec::Warnings() const {
  if (layers.size() == 1) return layers.front().warnings;
  std::vector<std::string> warnings;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    for (const std::string& warning : layers[layer].warnings) {
      warnings.push_back(absl::StrCat("layer ", layer, " (", layers[layer].name, "): ", warning));
    }
  }
  return warnings;
}

}  // namespace rnnserve
