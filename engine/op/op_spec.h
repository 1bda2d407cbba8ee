// SPDX-License-Identifier: Apache-2.0
// Operators as specified (shared spec: recurrent-operators.md): from a caller's words to cells and sequences.
//
//   ResolveOperator    attributes + weight shapes -> OpSpec          all refusals of sections 2, 3, 4, 6, 7, 13
//   MakeCells          OpSpec + weights           -> one cell a direction
//   PlanRun            OpSpec + data tensors      -> RunPlan         shapes, lengths, outputs; nothing allocated yet
//   MakeSequences      RunPlan + output buffers   -> sequences
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
};

// An operator with its version, attributes and sizes resolved; no weights.
struct OpSpec {
  Dialect dialect = Dialect::kOnnx;
  std::string op_type;  // as the text spells it: LSTM, GRUSequence, ...
  CellKind kind = CellKind::kLstm;
  int64_t version = 0;  // since-version
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
  bool y_by_default = true;  // false: output_sequence = 0 in a version that has it
  std::vector<std::string> warnings;  // valid, but read differently elsewhere

  int64_t directions() const { return direction == Direction::kBidirectional ? 2 : 1; }
  // All that decides results, as text in a fixed form: equal operators give equal text in every process (warnings left out).
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

std::vector<TensorSignature> DataInputs(const OpSpec& spec);  // X, sequence_lens, initial_h, ...
std::vector<TensorSignature> Outputs(const OpSpec& spec);     // Y, Y_h, Y_c in the operator's order

// Whether `name` is a weight (W, R, B, P) in any operator. Callers part inputs into weights and data by it.
bool IsWeightName(std::string_view name);

// Checks operator, attributes and weights (W, R and where given B, P: types, ranks, shapes, byte counts).
// `inputs` holds all tensors that came; data tensors in it are only checked for known and unrepeated names.
absl::StatusOr<OpSpec> ResolveOperator(const OperatorDef& op, std::span<const NamedTensor> inputs);

// Names that `inputs` may hold next to a model (no weights): unknown and repeated ones are refused.
absl::Status CheckDataNames(const OpSpec& spec, std::span<const NamedTensor> inputs);

// What each direction computes, without weights: enough for an engine to say whether it runs it.
std::vector<CellSpec> CellSpecs(const OpSpec& spec, const RunOptions& options);

// One cell for each direction. `weights` passed ResolveOperator with this spec.
absl::StatusOr<std::vector<CellPtr>> MakeCells(const OpSpec& spec, std::span<const NamedTensor> weights,
                                               const RunOptions& options);

struct OutputPlan {
  std::string name;
  DataType type = DataType::kFloat;
  Shape shape;
  int64_t bytes = 0;  // checked against overflow
};

// One request's shapes, checked.
struct RunPlan {
  int64_t steps = 0;                  // T
  int64_t rows = 0;                   // N
  std::vector<int64_t> lengths;       // N values, 0..T
  TensorView x;
  std::optional<TensorView> initial_h, initial_c;
  std::vector<OutputPlan> outputs;    // those wanted, in the operator's order
  EmptyRowState empty_row_state = EmptyRowState::kZeros;
};

// `inputs` may also hold the weights (inline operators); they are passed over. `wanted` empty: the default outputs.
absl::StatusOr<RunPlan> PlanRun(const OpSpec& spec, std::span<const NamedTensor> inputs,
                                std::span<const std::string> wanted, const RunOptions& options);

// One row in one direction. Strides in bytes; pointers null where not given or not wanted.
struct Sequence {
  int64_t direction = 0;  // index of the cell
  int64_t row = 0;
  int64_t length = 0;     // at least 1
  const std::byte* x = nullptr;
  std::ptrdiff_t x_stride = 0;
  std::byte* y = nullptr;
  std::ptrdiff_t y_stride = 0;
  const std::byte* initial_h = nullptr;  // H elements of the data type
  const std::byte* initial_c = nullptr;
  std::byte* final_h = nullptr;
  std::byte* final_c = nullptr;
};

// `buffers[k]` is memory of plan.outputs[k].bytes bytes, all zero. Rows of length 0 make no sequence: their final state
// is written here. Padded positions of Y stay zero.
std::vector<Sequence> MakeSequences(const OpSpec& spec, const RunPlan& plan, std::span<std::byte* const> buffers);

}  // namespace rnnserve
