// SPDX-License-Identifier: Apache-2.0
// The names of an operator's tensors (recurrent-operators.md, sections 2 and 13).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/op/op_spec.h"
#include "engine/op/stack.h"

namespace rnnserve {

// What the dialects call the same thing. `initial_c`, `peephole` and `final_c` are empty where the operator has none.
struct TensorNames {
  std::string_view sequence_lens, initial_h, initial_c, peephole, y, final_h, final_c;
};

inline constexpr std::string_view kLengthsName = "sequence_lens";  // of ONNX operators

TensorNames NamesOf(Dialect dialect, CellKind kind);

// [D, N, H], or [N, D, H].
Shape StateShape(const OpSpec& spec);
// Y of `spec`; with `batch_first` that of layout 1.
Shape YShape(const OpSpec& spec, bool batch_first);

// The inputs of a stack as the operators call them.
std::vector<TensorSignature> OperatorInputs(const StackSpec& stack);

// Whether `name`, if it is the operators' at all, means theirs: the file does not use it.
bool IsOperatorInput(const StackSpec& stack, std::string_view name);

// Whether X has its rows before its steps.
bool XBatchFirst(const StackSpec& stack);
// Whether states of all layers can be one tensor; true for one layer.
bool HasWholeStates(const StackSpec& stack);
// All layers' directions; of those layers that have a c, if `c`.
int64_t TotalDirections(const StackSpec& stack, bool c);
// "initial_h.2"; "initial_h" if there is but one layer.
std::string LayerName(const StackSpec& stack, std::string_view name, size_t layer);

// An output that a stack may be asked for.
struct OutputSlot {
  TensorSignature signature;
  OutputKind kind = OutputKind::kY;
  std::optional<size_t> layer = {};
  bool by_default = true;
  size_t number = 0;  // of a pipeline's outputs
  // As the file has it. Those of a stack with file_names that have none are the operators' own.
  std::optional<OutputOrder> order = {};
};
std::vector<OutputSlot> OutputSlots(const StackSpec& stack);

// Every input is one of `known`, and none comes twice.
absl::Status CheckInputNames(std::span<const NamedTensor> inputs, std::span<const std::string_view> known,
                             std::string_view owner);

}  // namespace rnnserve
