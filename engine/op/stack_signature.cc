// SPDX-License-Identifier: Apache-2.0
// The tensors of a stack: which there are, what they are called, how they are shaped. What each request asks of them is
// in stack_names.cc.
#include "engine/op/signature.h"
#include "engine/op/stack.h"

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

std::vector<TensorSignature> ChunkInputs(const StackSpec& stack) {
  std::vector<TensorSignature> inputs = DataInputs(stack);
  std::erase_if(inputs, [&](const TensorSignature& input) { return !IsChunkInput(stack, input.name); });
  // OpenVINO's lengths may be left out here.
  for (TensorSignature& input : inputs) input.optional |= stack.pipeline == nullptr && !IsDataInput(stack, input.name);
  return inputs;
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

}  // namespace rnnserve
