// SPDX-License-Identifier: Apache-2.0
// A whole graph as what it computes of each step and row: its recurrent nodes in order, and flows (flow.h) around them.
// Everything that only moves axes or computes sizes ends in layouts; what looks along time, other than the layers and
// what ends a sequence, is refused with the node and what to do.
//
//   lowering.h             which kinds of values there are; the walk from the graph's outputs to its inputs
//   lowering_handlers.cc   which operators there may be, and what reads each
//   lowering_inputs.cc     what graph inputs are, and their axes; reading again with what was seen of them
//   lowering_records.cc    inputs that bring one record of each row, and what is computed of them
//   lowering_shapes.cc     Shape, Reshape, Transpose, Expand, ... of sizes and of flows
//   lowering_parts.cc      Gather, Slice, Split, Concat of the same
//   lowering_arithmetic.cc Add, Tanh, Clip, ...
//   lowering_constants.cc  operands that the file fixes
//   lowering_products.cc   Gather of tables, MatMul, Gemm
//   lowering_types.cc      Cast, and numbers of narrower types
//   lowering_numbers.cc    Softmax, LayerNormalization, ReduceMean, TopK, ...
//   lowering_norms.cc      GroupNormalization, InstanceNormalization
//   lowering_layers.cc     LSTM, GRU, RNN: X, states, lengths, weights
//   lowering_lengths.cc    masks and orders of rows that are made of lengths; steps turned round
//   lowering_beyond.cc     what the file has beyond the ends of rows
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_file/constants.h"
#include "onnx_file/flow.h"
#include "onnx_file/layout.h"
#include "onnx_file/loader.h"
#include "onnx_file/scope.h"

namespace rnnserve {

// What the file says the size of an axis of a graph input is.
std::optional<int64_t> DimOf(const onnx::ValueInfoProto& input, int axis);

inline constexpr size_t kMaxSizes = 16;  // of a list

// --- What a name of the graph can mean.
struct Fixed {};  // the file fixes it: Constants knows the value
struct Zeros {};  // zeros of whatever shape; only states may be made of them
struct Sizes {
  std::vector<Size> list = {};
  bool is_scalar = false;
  bool repeats = false;  // the one size in `list`, as often as there are rows: lengths that the graph makes
};
struct LastPlace {  // of an axis: as many as it has, less one
  int symbol = -1;
  bool is_scalar = false;
};
struct GraphInput {  // nothing has been done to it yet, so that its use decides what it is
  size_t input = 0;
};
// A constant that is repeated over the rows, or a part of its first axis: what layers start from.
struct RepeatedRows {
  std::string name;
  int64_t first = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
};
// Parts of a graph input's first axis: initial states of all layers in one.
struct InputPart {
  size_t input = 0;
  int64_t first = 0;
  int64_t end = 0;  // beyond any file's: to the end
};
// --- Of rows' lengths (lowering_lengths.cc). A row is computed without its padding, so little is left of them.
struct StateSizes {};  // of zeros, of which others are made
struct Lengths {
  size_t input = 0;  // the graph input
  Layout layout;     // N, and axes of 1
  bool is_sorted = false;
  // max(length + plus, at_least): lengths - 1, lengths.clamp(min=1), ...
  int64_t plus = 0;
  std::optional<int64_t> at_least = {};
  std::vector<Size> expanded = {};  // its shape, once over features: a place for each, for GatherElements alone

  // The last step of each row that has any: lengths - 1, lengths.clamp(min=1) - 1.
  bool is_last() const { return plus == -1 && at_least.value_or(0) <= 0; }
};
struct RowOrder {  // by length, the longest row first; `is_back`: as the request has them
  bool is_back = false;
};
struct LastSteps {  // [N, 2]: row and length - 1, or the other way round
  size_t input = 0;
  bool steps_first = false;
};
struct Counting {  // 0, 1, ... along its one axis of steps or rows
  Layout layout;
};
using GraphValue = std::variant<Fixed, Zeros, Sizes, LastPlace, GraphInput, InputPart, RepeatedRows, Flow, StateSizes,
                                Lengths, RowOrder, Counting, LastSteps>;

// What keeps a graph from being lowered: one of these, for those that would cut it out (partition.h).
struct Obstacle {
  const onnx::NodeProto* node = nullptr;  // this node; where `input` is not empty, what this layer takes of that name
  std::string label = {};                 // what the error calls it
  std::string input = {};
  bool takes_unknown_shape = false;  // of a graph input that the file does not describe, or not enough
  std::string output = {};           // this graph output
  std::string graph_input = {};      // this graph input
};

// What a graph input turned out to be.
struct InputUse {
  enum class Kind { kUnused, kSteps, kLengths, kState } kind = Kind::kUnused;
  int node = -1;                     // kSteps
  Layout layout = {};                // kSteps: with its own symbols
  DataType type = DataType::kFloat;  // as the file says
  int64_t entries = 0;               // kSteps of integers: the least table that it is looked up in; 0: none
  bool is_of_row = false;            // kSteps: one record of each row, the same at every step
  bool is_c = false;                 // kState
  std::vector<size_t> layers = {};   // kState: in the order of its parts
  std::vector<std::pair<int64_t, int64_t>> parts = {};  // likewise: rows of the first axis
  std::vector<Obstacle> takers = {};                    // likewise: the nodes, and what they call it
};

struct LoweredLayer {
  OnnxOperator op;
  std::string label;
  int x = -1;  // node
  int y = -1;  // node
  int64_t directions = 1;
  int64_t hidden_size = 0;
  LayerStart start = {};
  int start_h = -1, start_c = -1;  // nodes, of each row
  bool rows_first = false;         // layout 1: states are [N, D, H]
  bool is_turned = false;          // its steps come from the last to the first: it has the other direction
  bool is_sorted = false;          // its rows come in the order of their lengths
};

inline constexpr std::string_view kLengthsOfMask =
    "if these are the lengths of rows (PyTorch: mask.sum(1)), let the model take them as an input [N]";
inline constexpr std::string_view kPickLast =
    "of each row only the last step can be picked by its length (PyTorch: y[arange(N), lengths - 1] with dynamo=True, "
    "or "
    "y[:, -1], which is of each row's own steps where requests bring sequence_lens)";

class Lowering {
 public:
  // What ends a sequence (the last step, a mean over time): a session has no end to see.
  enum class Ends { kAllowed, kRefused };
  // Reads all that the graph's outputs need; `status` tells whether that went well. Which axes of an input are numbers
  // of a step is seen where a layer, or a node before it, takes them; a graph is read again with what was seen so.
  // A graph that cannot be read so is read again with inputs [N, K] as records of rows.
  static std::unique_ptr<Lowering> Read(const onnx::GraphProto& graph, Constants& constants, int64_t opset, Ends ends,
                                        absl::Status& status);

  // Whether a served model can have such a node at all.
  static bool Knows(const onnx::NodeProto& node);
  // After an error: what it is about, if one thing is in the way.
  const Obstacle& obstacle() const { return obstacle_; }
  void Blame(Obstacle obstacle) { obstacle_ = std::move(obstacle); }
  // Whether an initial state of this name is zeros that the graph makes.
  bool IsZeros(const std::string& name) const;

  // Where a request's outputs differ from the file's by what lies beyond the ends of rows: an output that `is_asked`
  // and not zero there, as a request's is; or the lengths, where no layer takes them.
  Obstacle OtherBeyondEnds(const std::function<bool(const std::string&)>& is_asked) const;
  // The last node that turns steps round.
  const Obstacle& last_turn() const { return last_turn_; }
  // Of a row without steps the file takes one of the padding.
  bool rows_need_steps() const { return rows_need_steps_; }

  FlowGraph& flows() { return flows_; }
  const Symbols& symbols() const { return symbols_; }
  std::vector<LoweredLayer>& layers() { return layers_; }
  const std::vector<InputUse>& inputs() const { return inputs_; }
  // No input has an axis of steps: a request is one step.
  bool is_one_step() const { return is_one_step_; }
  struct Output {
    std::string name;
    Flow flow;
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  const onnx::GraphProto& graph() const { return graph_; }

 private:
  using Result = absl::StatusOr<GraphValue>;
  using Names = std::set<std::string>;
  struct InputAxis {
    size_t input = 0;  // of the graph
    int axis = 0;
    auto operator<=>(const InputAxis&) const = default;
  };
  struct Repeated {  // a record, over an axis that may turn out to be that of steps
    Flow record;
    size_t axis = 0;
  };
  struct Call {
    const onnx::NodeProto& node;
    std::string label;
    std::vector<const GraphValue*> inputs;  // null where the node leaves one out
  };
  using Handler = Result (Lowering::*)(const Call& call);
  static Handler HandlerOf(const onnx::NodeProto& node);

  Lowering(const onnx::GraphProto& graph, Constants& constants, int64_t opset, Ends ends)
      : graph_(graph), constants_(constants), opset_(opset), ends_(ends) {}
  static std::unique_ptr<Lowering> ReadAxes(const std::function<std::unique_ptr<Lowering>()>& make,
                                            absl::Status& status);
  absl::Status Run();
  absl::Status Resolve(const std::string& name);
  absl::Status ResolveLayers();
  absl::Status Evaluate(const Scope::Definition& definition);
  // Where(x < 0, x + entries, x), as Keras looks its tables up, or the same by Mul and Add, as tf2onnx writes it: the
  // x, whose negative places Gather counts from the end.
  std::optional<std::string> WrappedIndex(const onnx::NodeProto& node);
  std::optional<int64_t> FixedInteger(const std::string& name);
  bool IsZero(const std::string& name);
  // The node that gives this value, where it is such a one; else null.
  const onnx::NodeProto* MadeBy(const std::string& name, const char* op_type, int inputs) const;
  absl::Status Give(const onnx::NodeProto& node, int output, GraphValue value);
  absl::Status CheckOutput(const onnx::ValueInfoProto& output);
  absl::Status NoLayers() const;
  absl::Status Unsupported(const Call& call) const;

  // --- Values of a call.
  bool Has(const Call& call, size_t index) const { return index < call.inputs.size() && call.inputs[index] != nullptr; }
  bool IsFixed(const Call& call, size_t index) const {
    return Has(call, index) && std::holds_alternative<Fixed>(*call.inputs[index]);
  }
  absl::StatusOr<OnnxTensor> Value(const Call& call, size_t index);
  // A list that the node takes as attribute or as fixed input.
  absl::StatusOr<std::optional<std::vector<int64_t>>> Ints(const Call& call, std::string_view name, size_t index,
                                                           size_t most = kMaxAxes);
  // Sizes, or fixed integers as such.
  absl::StatusOr<Sizes> SizesOf(const Call& call, size_t index);
  // A graph input becomes one that brings steps.
  absl::StatusOr<Flow> FlowOf(const Call& call, size_t index);
  absl::StatusOr<Flow> AsSteps(size_t input);
  // Its axes, of which two are steps and rows.
  absl::StatusOr<Layout> LayoutOf(size_t input);
  // Remembers axes that would have to be numbers of a step, for another reading.
  void WantAsFeatures(const Layout& layout, size_t axis);
  // Layout::FeatureSize of such an axis.
  std::optional<int64_t> FeatureSize(const Layout& layout, size_t axis);
  // Whether integers of one axis are looked up in a table: then they are one step of each row, else lengths.
  bool LooksUp(const std::string& name) const { return looked_up_.contains(name); }
  void FindUses();
  // Whether a layer takes this value as an initial state.
  bool IsStateOfLayer(const std::string& name) const { return states_.contains(name); }
  bool IsPartedState(const std::string& name) const { return parted_states_.contains(name); }
  int64_t IntOf(const Call& call, std::string_view name, int64_t otherwise) const;
  double FloatOf(const Call& call, std::string_view name, double otherwise) const;
  // Numbers of the compute type, for a map; taken off what the file may have computed.
  absl::StatusOr<MapNumbersPtr> Numbers(const std::vector<double>& values);
  absl::StatusOr<std::vector<double>> Doubles(const OnnxTensor& tensor, std::string_view what);

  // --- lowering_shapes.cc
  Result Identity(const Call& call);
  Result Dropout(const Call& call);  // of inference: nothing
  Result ShapeOf(const Call& call);
  Result Gather(const Call& call);
  Result Slice(const Call& call);
  Result Split(const Call& call);
  Result Concat(const Call& call);
  Result Move(const Call& call);  // Transpose, Squeeze, Unsqueeze, Reshape, Flatten
  absl::Status MoveAxes(const Call& call, Layout& layout);
  Result Expand(const Call& call);
  // A part [first, end) of the first axis, or of one that a Squeeze has left.
  static RepeatedRows PartOf(const RepeatedRows& rows, int64_t first, int64_t end);
  std::optional<Result> CompareSizes(const Call& call);
  std::optional<Result> ChooseSizes(const Call& call);
  Result ConstantOfShape(const Call& call);
  Result ProductOfSizes(const Call& call);
  Result SliceSizes(const Call& call, const Sizes& sizes);
  Result SliceFlow(const Call& call, const Flow& flow, size_t axis, int64_t first, int64_t end, int64_t step);
  Result Step(const Call& call, const Flow& flow, size_t axis, int64_t index, bool keeps_axis);
  // Whether the axis has as many places as the symbol says.
  bool IsOfAxis(const Flow& flow, size_t axis, int symbol) const;
  // size - 1
  std::optional<LastPlace> LastPlaceOf(const Call& call);
  // Numbers `places` of the axis.
  absl::StatusOr<Flow> SelectOfAxis(const Flow& flow, size_t axis, const std::vector<int64_t>& places);
  absl::StatusOr<Flow> JoinFlows(const Call& call, size_t axis);

  // --- lowering_numbers.cc, lowering_arithmetic.cc, lowering_products.cc
  Result MatMul(const Call& call);
  Result Gemm(const Call& call);
  Result Einsum(const Call& call);  // a product with weights
  // A convolution that looks at one place alone: a product over the channels.
  Result PointwiseConv(const Call& call);
  Result Arithmetic(const Call& call);
  Result Function(const Call& call);
  Result PRelu(const Call& call);
  Result Composed(const Call& call);             // Mish, Celu, Erfc, ThresholdedRelu
  Result Several(const Call& call);              // Sum, Mean, Max, Min of any number of tensors
  Result LengthNormalization(const Call& call);  // LpNormalization, RMSNormalization
  Result SoftmaxOf(const Call& call);
  Result LayerNormalization(const Call& call);
  Result BatchNormalization(const Call& call);
  Result GroupedNormalization(const Call& call);
  Result Reduce(const Call& call);
  Result ReduceAxis(const Call& call, Flow flow, size_t axis, MapFunction function, bool keeps_axis);
  Result Pool(const Call& call);
  Result ArgMax(const Call& call);
  Result TopK(const Call& call);
  Result Lookup(const Call& call, size_t index_input, const OnnxTensor& table);
  Result OneHot(const Call& call);
  Result Product(const Flow& flow, const OnnxTensor& weights, bool transposed, double factor);
  Result WithConstant(const Call& call, const Flow& flow, const OnnxTensor& constant, MapFunction function,
                      bool reversed);
  OnnxTensor OfOneStep(const Flow& flow, OnnxTensor constant) const;
  Result WithNumber(const Call& call, const absl::StatusOr<Flow>& flow, MapFunction function, double value,
                    bool reversed = false);
  // Of two flows, or of one and a constant.
  Result OfTwo(const Call& call, MapFunction function);
  Result Pair(absl::StatusOr<Flow> a, absl::StatusOr<Flow> b, MapFunction function);
  Result Compare(const Call& call);
  Result AsBoolean(const Call& call);
  Result IsNoNumber(const Call& call);
  absl::StatusOr<Flow> AsNumbers(const Flow& flow, const OnnxTensor& constant);
  static bool IsInteger(const Flow& flow) { return flow.type != kBoolean && !IsFloating(flow.type); }
  // Numbers that were made of integers are such again: exact below 2^24, so that no output gives them.
  Result AsIntegers(Result numbers, DataType type);
  Result Where(const Call& call);
  // Whether zeros that the file makes are, axis by axis, no wider than one of the two.
  bool FitInto(const std::string& zeros, const Layout& layout, const Layout* other);
  bool FitBeside(const Call& call, size_t zeros, const Flow& condition);
  absl::StatusOr<Flow> Unary(const Flow& flow, MapOp op);
  absl::StatusOr<Flow> Binary(MapFunction function, const Flow& a, const Flow& b);
  // The flow with its axes of size 1 as wide as those of the constant.
  absl::StatusOr<Flow> Widened(const Flow& flow, const OnnxTensor& constant);
  // The last axis in canonical order, as what the operator goes along.
  absl::StatusOr<Flow> AlongLast(const Flow& flow, int64_t axis, int64_t& inner);
  // The same of any axis of features, which is the last one then.
  absl::StatusOr<Flow> Along(Flow flow, int64_t axis, int64_t& inner);
  absl::StatusOr<MapNumbersPtr> Spread(const Flow& flow, const OnnxTensor& constant, Layout& widened);
  Result OverTimeOf(const Flow& flow, size_t axis, OverTime over_time, bool keeps_axis);

  // --- lowering_types.cc
  Result Cast(const Call& call);
  // Numbers of the flow as numbers of the type, to which they are rounded where it is narrower than the compute type.
  Result Rounded(Flow flow, DataType to);
  // Whether flows from this one on are more than others' numbers in other places.
  bool Computes(int first) const;
  // What the file computes in a narrower type than the compute type is rounded to it; a wider one is refused.
  Result InItsType(const Call& call, GraphValue value);

  // --- lowering_lengths.cc
  std::optional<Lengths> LengthsOf(const Call& call, size_t index);
  // 0, 1, ... of as many as `symbol` has.
  std::optional<Layout> CountingOf(const Call& call, size_t index, int symbol);
  absl::Status UseLengths(size_t input);
  // The lengths as numbers of rows.
  Result NumbersOf(const Call& call, const Lengths& lengths);
  std::optional<Result> ArithmeticOfLengths(const Call& call);
  // step < length: holds for each step that is computed.
  std::optional<Result> MaskOf(const Call& call);
  absl::StatusOr<int> Ones();
  bool LayersTakeLengths() const { return lengths_ && !lengths_->empty(); }
  Result Range(const Call& call);
  Result SortRows(const Call& call, const Lengths& lengths);
  Result Reorder(const Call& call, const RowOrder& order);
  Result ScatterElements(const Call& call);
  // Of y[arange(N), lengths - 1] and its like.
  std::optional<Result> JoinPlaces(const Call& call);
  std::optional<Result> ExpandLengths(const Call& call);
  Result GatherLast(const Call& call);  // GatherND, GatherElements
  Result TurnSteps(const Call& call, const Flow& flow, size_t axis);
  Result ReverseSequence(const Call& call);
  bool TurnsAll(const Call& call, const Flow& flow, size_t axis);
  Result Logic(const Call& call);  // Not, And, Or, Xor

  // --- lowering_beyond.cc
  absl::Status CheckMasks();
  // Of each node the numbers that the file has beyond the end of a row; none: they are not known.
  std::vector<std::vector<double>> BeyondEnds() const;
  bool IsWithinOne(size_t layer) const;
  // Lets what ends rows know what the file has beyond them.
  void TakeBeyondEnds();
  // What the node makes of padding that is not known; empty: nothing.
  std::string_view SeesPadding(int node) const;
  // All that outputs need and that ends rows or layers.
  std::vector<int> NeededEnds() const;

  // --- lowering_layers.cc
  absl::Status Layer(const Call& call);
  absl::Status TakeX(const Call& call, LoweredLayer& layer, int64_t layout);
  absl::Status TakeWeights(const Call& call, LoweredLayer& layer);
  absl::Status TakeLengths(const Call& call, bool is_sorted);
  absl::Status TakeState(const Call& call, size_t index);
  absl::Status TakeStart(const Call& call, size_t index);
  absl::Status GiveOutputs(const Call& call, int64_t layout);
  absl::Status CheckStates();

  // --- lowering_records.cc
  // Whether a graph input brings one record of each row, beside others that bring steps: numbers [N, K], or places [N]
  // of a table.
  bool BringsRows(const onnx::ValueInfoProto& info);
  bool TakesRecord(const onnx::NodeProto& node, const std::string& name);
  // Graph inputs that may do so: all their axes but the first have a fixed size. `leaves_steps`: there are others.
  Names MayBringRows(bool& leaves_steps) const;
  // Whether the flow is computed of such records alone.
  bool IsOfRow(const Flow& flow) const { return flows_.at(flow.node).of_record; }
  // Whether the axis may be that of steps, and not of rows.
  bool AreSteps(int symbol) const;
  // The flow at each step, of which its axis has one.
  absl::StatusOr<Flow> AtEachStep(Flow flow, size_t axis, int symbol);
  // The same where the file repeats a record by a number, which is that of the other flow's steps.
  absl::StatusOr<Flow> AtStepsOf(const Flow& other, const Flow& flow);
  absl::Status TakeComputedState(const Call& call, size_t index);

  const onnx::GraphProto& graph_;
  Constants& constants_;
  const int64_t opset_;
  const Ends ends_;
  Obstacle obstacle_;
  std::shared_ptr<const Scope> scope_;
  std::set<InputAxis> features_;                   // what earlier readings have seen
  std::set<InputAxis> wanted_features_;            // what the last node would take for features
  bool lacks_axes_ = false;                        // with those, an input has no steps or rows left
  std::unordered_map<int, InputAxis> input_axes_;  // of symbols
  std::optional<Names> guess_;                     // inputs that bring records; not set: those that a Unsqueeze takes
  bool guesses_records_ = false;                   // for no other reason than that Unsqueeze
  Symbols symbols_;
  FlowGraph flows_;
  std::unordered_map<std::string, GraphValue> values_;
  std::unordered_map<std::string, size_t> input_numbers_;
  std::unordered_map<std::string, int64_t> wrapped_;  // indices -> the entries that they are wrapped at
  std::unordered_set<const onnx::NodeProto*> done_, open_;
  std::unordered_set<std::string_view> looked_up_;       // integers that a table is looked up by
  std::unordered_set<std::string_view> otherwise_used_;  // what not only tables are looked up by
  std::unordered_set<std::string_view> states_;          // what layers take as initial states
  std::unordered_set<std::string_view> parted_states_;   // those of all layers, of which one takes a part
  std::vector<InputUse> inputs_;
  std::vector<LoweredLayer> layers_;
  std::vector<Output> outputs_;
  bool is_one_step_ = false;
  std::optional<std::string> lengths_;  // what the first layer takes; empty: none
  std::optional<size_t> lengths_input_;
  Obstacle mask_;   // a node that takes lengths as numbers, if there is one
  Obstacle turns_;  // a node that turns the steps round, padding and all
  Obstacle last_turn_;
  int ones_ = -1;
  std::unordered_map<int, Repeated> repeated_;    // nodes of records
  std::unordered_set<int> counted_;               // nodes of integers that are computed as numbers
  std::unordered_set<int> own_ends_;              // nodes that pick a row's last step by its length
  std::unordered_set<int> turned_ends_;           // nodes that pick the last of steps that are turned round
  std::unordered_map<int, Obstacle> end_makers_;  // of each flow over time: the node of the graph
  bool rows_need_steps_ = false;
  DataType data_type_ = DataType::kFloat;  // of the layers
  int64_t made_bytes_ = 0;                 // of numbers
};

}  // namespace rnnserve
