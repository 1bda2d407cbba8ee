// SPDX-License-Identifier: Apache-2.0
// A stack: a chain of operators in which each layer's Y is the next layer's X, the directions of a step one after the
// other (I = D*H). One operator is a stack of one layer, and everything below speaks of stacks.
//
//   ResolveStack   operators with weights -> StackSpec
//   PlanRun        StackSpec + data       -> RunPlan      shapes, lengths, outputs; nothing allocated yet
//   MakeSequences  RunPlan + buffers      -> the sequences of one layer
//
// Tensors of a stack:
//
//                        one layer        several layers
//   X                    the operator's   layer 0's                            [N, T, I] where batch_first
//   sequence_lens        the operator's   [N], for all layers
//   initial_h            the operator's   [sum of D, N, H]: layer by layer, as PyTorch has it; only if all layers have
//   initial_c                             one H and layout 0. Or instead of it:
//   initial_h.0, ...     -                one layer's, in its own axes
//   Y                    the operator's   the last layer's                     [N, T, D, H] where batch_first
//   Y_h, Y_c             the operator's   as initial_h
//   Y_h.0, ...           -                one layer's, in its own axes
//
// Where a model has its file's names (file_names.h), these are taken too; a name that the file uses is the file's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/recycled.h"
#include "engine/map/pipeline.h"
#include "engine/op/file_names.h"
#include "engine/op/op_spec.h"
#include "engine/tensor.h"

namespace rnnserve {

inline constexpr size_t kMaxLayers = 64;

struct OutputSlot;

struct StackSpec {
  StackSpec() = default;
  StackSpec(OpSpec one) { layers.push_back(std::move(one)); }  // NOLINT(google-explicit-constructor): one is a stack

  std::vector<OpSpec> layers;  // first to last, 1 to kMaxLayers of them
  // X and Y have the rows first, whatever the layers' own axes are; states keep theirs.
  bool batch_first = false;
  // What a whole model does around its layers, and what its file calls its tensors: then the names above mean nothing.
  // Null: the layers are all there is.
  PipelinePtr pipeline = nullptr;
  // What the file calls the layers' tensors, without a pipeline; null: as the operators call them.
  FileNamesPtr file_names = nullptr;
  // What requests may ask for, made ready by ResolveStack; null: each request works it out again.
  std::shared_ptr<const std::vector<OutputSlot>> output_slots = nullptr;

  DataType data_type() const { return layers.front().data_type; }
  // The inputs as the file has them; null where they are the operators'.
  const std::vector<PipelineInput>* file_inputs() const {
    return pipeline != nullptr ? &pipeline->inputs : file_names != nullptr ? &file_names->inputs : nullptr;
  }
  // "LSTM-14", or "this stack of 3 layers": for texts.
  std::string Name() const;
  // Of all layers; those of a layer of several begin with its number.
  std::vector<std::string> Warnings() const;
};

// One layer as it came; `tensors` holds its weights, and may hold data tensors if it is the only one.
struct LayerView {
  const OperatorDef& op;
  std::span<const NamedTensor> tensors;
  std::string_view label = {};  // of a file: what errors call it, instead of its number
};

// Checks each layer as ResolveOperator does, and that they fit together. Errors of a layer of several begin with its
// number, and their field does: `layers[1].inputs[W].shape`.
absl::StatusOr<StackSpec> ResolveStack(std::span<const LayerView> layers, bool batch_first = false,
                                       PipelinePtr pipeline = nullptr, FileNamesPtr file_names = nullptr);

// As the file calls them, where it does; DataInputs may be called by the operators' names too.
std::vector<TensorSignature> DataInputs(const StackSpec& stack);
std::vector<TensorSignature> Outputs(const StackSpec& stack);
// Those of DataInputs that a chunk of a session brings: no states.
std::vector<TensorSignature> ChunkInputs(const StackSpec& stack);
bool IsChunkInput(const StackSpec& stack, std::string_view name);
// What brings the steps: X, or the file's first input that does.
std::string DataInputName(const StackSpec& stack);
// Whether the input called `name` brings the steps: by the file's name or the operator's.
bool IsDataInput(const StackSpec& stack, std::string_view name);

// Names that `inputs` may hold next to a model (no weights): unknown and repeated ones are refused.
absl::Status CheckDataNames(const StackSpec& stack, std::span<const NamedTensor> inputs);

struct OutputPlan {
  std::string name;
  DataType type = DataType::kFloat;
  Shape shape;
  int64_t bytes = 0;  // checked against overflow
  OutputKind kind = OutputKind::kY;
  std::optional<size_t> layer = {};       // a final state of this layer only; else of all
  size_t number = 0;                      // of a pipeline's outputs
  std::optional<OutputOrder> order = {};  // as the file has it; else the operator's
};

// The outputs of a request; requests of equal shapes share them.
class OutputPlans {
 public:
  using List = absl::InlinedVector<OutputPlan, 3>;
  OutputPlans() = default;
  explicit OutputPlans(List list) : list_(MakeRecycled<const List>(std::move(list))) {}

  const OutputPlan* begin() const { return list_ == nullptr ? nullptr : list_->data(); }
  const OutputPlan* end() const { return begin() + size(); }
  size_t size() const { return list_ == nullptr ? 0 : list_->size(); }
  const OutputPlan& operator[](size_t index) const { return (*list_)[index]; }
  void clear() { list_.reset(); }

 private:
  std::shared_ptr<const List> list_;
};

// What a layer starts from, in its own axes; absent: zeros.
struct InitialState {
  std::optional<TensorView> h, c;
};

// One request's shapes, checked.
struct RunPlan {
  int64_t steps = 0;                        // T
  int64_t rows = 0;                         // N
  absl::InlinedVector<int64_t, 1> lengths;  // N values, 0..T
  TensorView x;                             // without a pipeline
  bool by_operator_names = false;           // X came by the operator's name, though the file has its own
  std::vector<TensorView> data;             // of each of a pipeline's inputs; absent ones and states are empty
  std::vector<InitialState> initial;        // of each layer; empty: zeros everywhere
  OutputPlans outputs;                      // those wanted, in the order of Outputs()
  EmptyRowState empty_row_state = EmptyRowState::kZeros;
  bool list_empty_rows = false;  // for callers that hold states themselves: see MakeSequences
  // States that came in another type than their layers'.
  std::vector<std::shared_ptr<const std::vector<std::byte>>> converted = {};
};

// `inputs` may also hold the weights (inline operators); they are passed over. `wanted` empty: the default outputs, Y
// and the final states, whole where they can be.
absl::StatusOr<RunPlan> PlanRun(const StackSpec& stack, std::span<const NamedTensor> inputs,
                                std::span<const std::string> wanted, const RunOptions& options);

// PlanRun for a stack with a pipeline.
absl::StatusOr<RunPlan> PlanPipelineRun(const StackSpec& stack, std::span<const NamedTensor> inputs,
                                        std::span<const std::string> wanted, const RunOptions& options);

// What lies between layer `layer` and the next, [T, N, D*H]; 0 for the last one, INT64_MAX if it cannot be counted.
int64_t BytesAfter(const StackSpec& stack, const RunPlan& plan, size_t layer);

// Memory between layers. Need not be zero: only the steps within a row's length are written and read.
struct Between {
  const std::byte* x = nullptr;  // what the layer before gave; unused for the first
  std::byte* y = nullptr;        // what this one gives; unused for the last
  // Of a layer in a pipeline, which uses both: steps before rows in x, and where final states go, in the layer's axes.
  bool x_rows_first = false;
  std::byte* final_h = nullptr;
  std::byte* final_c = nullptr;
  // What it starts from instead of what a request brings: [N, D * H].
  const std::byte* initial_h = nullptr;
  const std::byte* initial_c = nullptr;
};

// One row in one direction. Strides in bytes; pointers null where not given or not wanted.
struct Sequence {
  int64_t direction = 0;  // index of the layer's cell
  int64_t row = 0;
  int64_t length = 0;  // at least 1, unless plan.list_empty_rows
  const std::byte* x = nullptr;
  std::ptrdiff_t x_stride = 0;
  std::byte* y = nullptr;
  std::ptrdiff_t y_stride = 0;
  const std::byte* initial_h = nullptr;  // H elements of the data type
  const std::byte* initial_c = nullptr;
  std::byte* final_h = nullptr;
  std::byte* final_c = nullptr;
};

// The sequences of one layer. `buffers[k]` is memory of plan.outputs[k].bytes bytes, all zero. Rows of length 0 make no
// sequence: their final state is written here. With plan.list_empty_rows they make one of length 0, and their final
// state is the caller's affair. Padded positions of Y stay zero.
using LayerSequences = absl::InlinedVector<Sequence, 1>;
LayerSequences MakeSequences(const StackSpec& stack, const RunPlan& plan, std::span<std::byte* const> buffers,
                             size_t layer = 0, const Between& between = {});

}  // namespace rnnserve
