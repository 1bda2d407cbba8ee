// SPDX-License-Identifier: Apache-2.0
// The tensors of a stack: which there are, what they are called, how they are shaped.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/view.h"
#include "engine/op/signature.h"
#include "engine/op/stack.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

// A state of one layer: initial_h, Y_h, Ho, ...
TensorSignature LayerState(const StackSpec& stack, size_t layer, std::string_view name, bool optional) {
  const OpSpec& spec = stack.layers[layer];
  return {LayerName(stack, name, layer), spec.data_type, StateShape(spec), optional};
}

// The states of all layers of several in one.
TensorSignature WholeState(const StackSpec& stack, std::string_view name, bool c) {
  const OpSpec& first = stack.layers.front();
  return {std::string(name), first.data_type, {TotalDirections(stack, c), kDimN, first.hidden_size}, true};
}

}  // namespace

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

namespace {

// As the operators call them.
std::vector<TensorSignature> OperatorInputs(const StackSpec& stack) {
  const OpSpec& first = stack.layers.front();
  const TensorNames names = NamesOf(first.dialect, first.kind);
  const bool onnx = first.dialect == Dialect::kOnnx;
  const Shape x = XBatchFirst(stack) ? Shape{kDimN, kDimT, first.input_size} : Shape{kDimT, kDimN, first.input_size};
  const TensorSignature lengths = {std::string(names.sequence_lens), DataType::kInt32, {kDimN}, onnx};

  std::vector<TensorSignature> inputs = {{"X", first.data_type, x, false}};
  if (onnx) inputs.push_back(lengths);
  if (stack.layers.size() > 1 && HasWholeStates(stack)) {
    inputs.push_back(WholeState(stack, "initial_h", false));
    if (TotalDirections(stack, true) > 0) inputs.push_back(WholeState(stack, "initial_c", true));
  }
  for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
    const TensorNames own = NamesOf(first.dialect, stack.layers[layer].kind);
    inputs.push_back(LayerState(stack, layer, own.initial_h, onnx));
    if (!own.initial_c.empty()) inputs.push_back(LayerState(stack, layer, own.initial_c, onnx));
  }
  if (!onnx) inputs.push_back(lengths);
  return inputs;
}

}  // namespace

std::vector<TensorSignature> DataInputs(const StackSpec& stack) {
  if (stack.file_inputs() == nullptr) return OperatorInputs(stack);
  std::vector<TensorSignature> inputs;
  for (const PipelineInput& input : *stack.file_inputs()) {
    inputs.push_back({input.name, input.type, input.shape, input.optional});
  }
  if (stack.file_names != nullptr && IsOperatorInput(stack, kLengthsName) && stack.file_names->lengths() == nullptr) {
    inputs.push_back({std::string(kLengthsName), DataType::kInt32, {kDimN}, true});
  }
  return inputs;
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

std::vector<TensorSignature> ChunkInputs(const StackSpec& stack) {
  std::vector<TensorSignature> inputs = DataInputs(stack);
  std::erase_if(inputs, [&](const TensorSignature& input) { return !IsChunkInput(stack, input.name); });
  // OpenVINO's lengths may be left out here.
  for (TensorSignature& input : inputs) input.optional |= stack.pipeline == nullptr && !IsDataInput(stack, input.name);
  return inputs;
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

std::vector<OutputSlot> OutputSlots(const StackSpec& stack) {
  if (stack.pipeline != nullptr) {
    std::vector<OutputSlot> slots;
    for (const PipelineOutput& output : stack.pipeline->outputs) {
      slots.push_back({{output.name, output.type, output.shape, true}, OutputKind::kPipeline});
      slots.back().number = slots.size() - 1;
    }
    return slots;
  }
  const OpSpec& last = stack.layers.back();
  const TensorNames names = NamesOf(last.dialect, last.kind);
  std::vector<OutputSlot> slots;
  slots.reserve(3 + 2 * stack.layers.size());
  if (stack.file_names != nullptr) {
    for (const FileOutput& output : stack.file_names->outputs) {
      slots.push_back({.signature = {output.name, output.type, output.shape, true},
                       .kind = output.kind,
                       .layer = output.layer,
                       .order = output.order});
    }
  }
  slots.push_back({{std::string(names.y), last.data_type, YShape(last, stack.batch_first), true},
                   OutputKind::kY,
                   {},
                   last.y_by_default});
  const bool several = stack.layers.size() > 1;
  const bool whole = several && HasWholeStates(stack);
  if (whole) {
    slots.push_back({WholeState(stack, "Y_h", false), OutputKind::kFinalH});
    if (TotalDirections(stack, true) > 0) slots.push_back({WholeState(stack, "Y_c", true), OutputKind::kFinalC});
  }
  for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
    const TensorNames own = NamesOf(last.dialect, stack.layers[layer].kind);
    slots.push_back({LayerState(stack, layer, own.final_h, true), OutputKind::kFinalH, layer, !whole});
    if (own.final_c.empty()) continue;
    slots.push_back({LayerState(stack, layer, own.final_c, true), OutputKind::kFinalC, layer, !whole});
  }
  if (stack.file_names != nullptr) {
    std::erase_if(
        slots, [&](const OutputSlot& slot) { return !slot.order && stack.file_names->HasOutput(slot.signature.name); });
  }
  return slots;
}

std::vector<TensorSignature> Outputs(const StackSpec& stack) {
  std::vector<TensorSignature> outputs;
  for (OutputSlot& slot : OutputSlots(stack)) {
    if (stack.file_names == nullptr || slot.order) outputs.push_back(std::move(slot.signature));
  }
  return outputs;
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

}  // namespace rnnserve
