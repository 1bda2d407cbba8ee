// SPDX-License-Identifier: Apache-2.0
// Operators as specified (shared spec: recurrent-operators.md): from a caller's words to cells. Runs are planned for
// stacks of them: stack.h.
//
//   ResolveOperator    attributes + weight shapes -> OpSpec          all refusals of sections 2, 3, 4, 6, 7, 13
//   MakeCells          OpSpec + weights           -> one cell a direction
//
// Every refusal is a FieldError whose text names what came, what was expected and how to mend it.
// All functions are pure and safe from any thread. Pointers in the results point into the given tensors and buffers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/cell.h"
#include "engine/op/operator.h"
#include "engine/tensor.h"

namespace rnnserve {

enum class Dialect { kOnnx, kOpenVino };
enum class Direction { kForward, kReverse, kBidirectional };
enum class EmptyRowState { kZeros, kInitial };

// Choices outside the operator, resolved (request, else model, else these defaults).
struct RunOptions {
  bool clip_cell_input = true;  // only read for ONNX LSTM with a clip
  EmptyRowState empty_row_state = EmptyRowState::kZeros;
  // Callers that hold the states themselves: initial states are not read, and nothing but X must come.
  bool in_session = false;
  bool operator==(const RunOptions&) const = default;
};

// An operator with its version, attributes and sizes resolved; no weights.
struct OpSpec {
  Dialect dialect = Dialect::kOnnx;
  std::string op_type;  // as the text spells it: LSTM, GRUSequence, ...
  CellKind kind = CellKind::kLstm;
  int64_t version = 0;  // since-version
  std::string name;     // "LSTM-14"
  Direction direction = Direction::kForward;
  DataType data_type = DataType::kFloat;
  int64_t input_size = 0;   // I
  int64_t hidden_size = 0;  // H
  bool has_bias = false;
  bool has_peephole = false;
  int64_t layout = 0;  // ONNX: 0 or 1. OpenVINO has its own axes and ignores this.
  // f, g, h of each direction; [1] only for bidirectional.
  std::array<std::array<Activation, 3>, 2> activations = {};
  double clip = std::numeric_limits<double>::infinity();
  bool input_forget = false;
  bool linear_before_reset = false;
  bool y_by_default = true;           // false: output_sequence = 0 in a version that has it
  std::vector<std::string> warnings;  // valid, but read differently elsewhere

  int64_t directions() const { return direction == Direction::kBidirectional ? 2 : 1; }
  // X, and with it Y, has its rows before its steps.
  bool batch_first() const { return dialect == Dialect::kOpenVino || layout == 1; }
  // All that decides results, as text in a fixed form: equal operators give equal text in every process (warnings left
  // out).
  std::string CanonicalText() const;
};

// What an input or output of an operator is called and how it is shaped; -1 stands for T, -2 for N in `shape`.
struct TensorSignature {
  std::string name;
  DataType type = DataType::kFloat;
  Shape shape;
  bool optional = false;
};
inline constexpr int64_t kDimT = -1;
inline constexpr int64_t kDimN = -2;

// Whether `name` is a weight (W, R, B, P) in any operator. Callers part inputs into weights and data by it.
bool IsWeightName(std::string_view name);

// Checks operator, attributes and weights (W, R and where given B, P: types, ranks, shapes, byte counts).
// `inputs` holds all tensors that came; data tensors in it are only checked for known and unrepeated names.
absl::StatusOr<OpSpec> ResolveOperator(const OperatorDef& op, std::span<const NamedTensor> inputs);

// What each direction computes, without weights: enough for an engine to say whether it runs it.
std::vector<CellSpec> CellSpecs(const OpSpec& spec, const RunOptions& options);

// One cell for each direction. `weights` passed ResolveOperator with this spec.
absl::StatusOr<std::vector<CellPtr>> MakeCells(const OpSpec& spec, std::span<const NamedTensor> weights,
                                               const RunOptions& options);

}  // namespace rnnserve
