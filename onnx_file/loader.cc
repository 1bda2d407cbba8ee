// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/loader.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/op/op_spec.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/constants.h"
#include "onnx_file/file_names_maker.h"
#include "onnx_file/graph.h"
#include "onnx_file/lowering.h"
#include "onnx_file/node.h"
#include "onnx_file/parse.h"
#include "onnx_file/pipeline_maker.h"
#include "onnx_file/tensor.h"

namespace rnnserve {
namespace {

// A weight, which Constants has read.
absl::Status AddWeight(size_t index, OnnxGraph::Source source, OnnxOperator& loaded) {
  if (absl::Status floating = CheckFloating(source.value->view.type); !floating.ok()) {
    return BadFile(absl::StrCat(InputLabel(index, source.name), " ", floating.message()));
  }
  const std::string_view name = RecurrentInputs(loaded.op.op_type)[index];
  loaded.weights.push_back({std::string(name), std::move(source.value->view)});
  if (source.value->storage != nullptr) loaded.storage.push_back(std::move(source.value->storage));
  return absl::OkStatus();
}

// An input that each request brings.
absl::Status CheckData(size_t index, const OnnxGraph::Source& source) {
  if (!source.value) return absl::OkStatus();  // a graph input, or zeros
  const std::string label = InputLabel(index, source.name);
  if (!IsStateInput(index)) {
    return BadFile(absl::StrCat(
        label, " is fixed in the file; it comes with each request, so make it a graph input without an initializer",
        index == 0 ? "" : " or leave it out"));
  }
  if (absl::Status floating = CheckFloating(source.value->view.type); !floating.ok()) {
    return BadFile(absl::StrCat(label, " ", floating.message()));
  }
  if (AllZero(source.value->view.data)) return absl::OkStatus();
  return BadFile(absl::StrCat(label,
                              " is fixed in the file and not zero; make it a graph input without an initializer and "
                              "send it with each request"));
}

// Which request inputs feed which inputs of the nodes, over all layers.
class Feeds {
 public:
  // `source` is what feeds input `index` of `layer`, if anything.
  absl::Status Add(size_t layer, size_t index, const OnnxGraph::Source& source) {
    if (IsStateInput(index)) states_[index - kFirstState].push_back({layer, source});
    if (!source.is_request_input()) return absl::OkStatus();
    const std::string name(RecurrentInputs("LSTM")[index]);
    const auto [other, first] = names_.emplace(source.name, name);
    // The lengths are for all layers, and so is a state that each takes its part of.
    if (first || (other->second == name && (index == kLengthsInput || source.rows))) return absl::OkStatus();
    return BadFile(absl::StrCat("graph input ", Quoted(source.name), " is both ", other->second, " and ", name,
                                layer == 0 ? "" : absl::StrCat(" of layer ", layer), "; requests send them apart"));
  }

  // Whether one state of all layers is cut as a request's would be: layer by layer, and nothing else.
  absl::Status CheckStates(const std::vector<OnnxGraph::Layer>& layers) const {
    for (const std::vector<StateInput>& states : states_) {
      const bool cut = std::ranges::any_of(states, [](const StateInput& state) { return state.is_part(); });
      if (!cut) continue;
      if (absl::Status status = CheckParts(states, layers); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kFirstState = 5;
  struct StateInput {
    size_t layer;
    OnnxGraph::Source source;
    bool is_part() const { return source.is_request_input() && source.rows; }
  };

  static absl::Status CheckParts(const std::vector<StateInput>& states, const std::vector<OnnxGraph::Layer>& layers) {
    int64_t total = 0, before = 0;
    for (const StateInput& state : states) total += layers[state.layer].directions;
    for (const StateInput& state : states) {
      const int64_t directions = layers[state.layer].directions;
      const auto place = [&](int64_t index) {
        return std::clamp<int64_t>(index < 0 ? index + total : index, 0, total);
      };
      const bool fits = state.is_part() && state.source.name == states[0].source.name &&
                        place(state.source.rows->first) == before &&
                        place(state.source.rows->end) == before + directions;
      if (!fits) {
        return BadFile(absl::StrCat("the initial state of ", layers[state.layer].label, " is not rows ", before, " to ",
                                    before + directions - 1, " of graph input ", Quoted(states[0].source.name),
                                    "; one state of all layers is cut layer by layer, in their order"));
      }
      before += directions;
    }
    return absl::OkStatus();
  }

  std::unordered_map<std::string, std::string> names_;  // graph input -> what it is
  std::array<std::vector<StateInput>, 2> states_;       // initial_h, initial_c of the layers that can have it
};

// One layer's inputs; X only of the first.
absl::Status AddInputs(const OnnxGraph& graph, size_t layer, Feeds& feeds, OnnxStack& stack, std::string& lengths) {
  OnnxOperator& loaded = stack.layers[layer];
  const onnx::NodeProto& node = *graph.layers()[layer].node;
  const std::span<const std::string_view> names = RecurrentInputs(node.op_type());
  if (static_cast<size_t>(node.input_size()) > names.size()) {
    return BadFile(absl::StrCat("the ", node.op_type(), " node has ", node.input_size(),
                                " inputs, but the operator has ", names.size()));
  }
  for (size_t index = layer == 0 ? 0 : 1; index < names.size(); ++index) {
    absl::StatusOr<OnnxGraph::Source> source = graph.Input(layer, index);
    if (!source.ok()) return source.status();
    if (index == kLengthsInput) lengths = source->name;
    if (source->name.empty()) {
      if (absl::Status fed = feeds.Add(layer, index, *source); !fed.ok()) return fed;
      if (index == 0) return BadFile(absl::StrCat("the ", node.op_type(), " node has no input X (input 0)"));
      continue;
    }
    if (absl::Status fed = feeds.Add(layer, index, *source); !fed.ok()) return fed;
    if (index == 0) stack.batch_first = source->turned;
    absl::Status taken =
        IsWeightInput(index) ? AddWeight(index, *std::move(source), loaded) : CheckData(index, *source);
    if (!taken.ok()) return taken;
  }
  return absl::OkStatus();
}

absl::StatusOr<OnnxStack> Load(const OnnxGraph& graph, int64_t opset, std::shared_ptr<const void> file) {
  OnnxStack stack;
  Feeds feeds;
  std::string first_lengths;
  for (size_t layer = 0; layer < graph.layers().size(); ++layer) {
    absl::StatusOr<OperatorDef> op = OperatorOf(*graph.layers()[layer].node, opset);
    if (!op.ok()) return op.status();
    stack.layers.push_back({graph.layers()[layer].label, *std::move(op), {}, {file}});
    std::string lengths;
    if (absl::Status added = AddInputs(graph, layer, feeds, stack, lengths); !added.ok()) return added;
    if (layer == 0) first_lengths = lengths;
    if (lengths != first_lengths) {
      return BadFile(absl::StrCat(graph.layers()[layer].label, " takes its sequence_lens from ", Quoted(lengths),
                                  ", but the first layer from ", Quoted(first_lengths),
                                  "; a request brings one for all layers"));
    }
  }
  if (absl::Status states = feeds.CheckStates(graph.layers()); !states.ok()) return states;
  return stack;
}

// Layers, and nothing that computes numbers beside them.
absl::StatusOr<OnnxStack> LoadBare(const onnx::GraphProto& graph, Constants& constants, int64_t opset,
                                   std::shared_ptr<const void> file) {
  const absl::StatusOr<OnnxGraph> read = OnnxGraph::Create(graph, constants);
  if (!read.ok()) return read.status();
  return Load(*read, opset, std::move(file));
}

// Whether the file tells what a request brings: a whole model's tensors are the file's own.
bool IsDescribed(const onnx::GraphProto& graph) {
  return graph.output_size() > 0 && std::ranges::all_of(graph.input(), [](const onnx::ValueInfoProto& input) {
           return input.type().tensor_type().has_shape();
         });
}

// A recurrent node and constants: its tensors are the operator's, whatever the graph calls them.
bool IsOneNode(const onnx::GraphProto& graph) {
  return std::ranges::count_if(graph.node(), [](const onnx::NodeProto& node) { return !IsOnnxOp(node, "Constant"); }) ==
         1;
}

// Whether each layer takes what the one before gives.
bool IsChain(const std::vector<LoweredLayer>& layers) {
  for (size_t k = 1; k < layers.size(); ++k) {
    if (layers[k].x != layers[k - 1].y) return false;
  }
  return true;
}

// What can be done about a node that is no layer, where the refusal does not tell.
absl::Status WithRemedy(absl::Status refusal, const Obstacle& obstacle) {
  const absl::string_view text = refusal.message();
  if (obstacle.node == nullptr || IsRecurrent(*obstacle.node) || absl::StrContains(text, "rnnctl split") ||
      absl::StrContains(text, "export")) {
    return refusal;
  }
  return BadFile(absl::StrCat(text, "; `rnnctl split` leaves this node to onnxruntime and the layers to the server"));
}

// Layers that move axes at most run by themselves, on the file's tensors; else a pipeline does what the file computes.
absl::StatusOr<OnnxStack> LoadWhole(const onnx::GraphProto& graph, Constants& constants, int64_t opset,
                                    std::shared_ptr<const void> file) {
  absl::Status read;
  const std::unique_ptr<Lowering> reading = Lowering::Read(graph, constants, opset, Lowering::Ends::kAllowed, read);
  Lowering& lowered = *reading;
  if (!read.ok()) return WithRemedy(std::move(read), lowered.obstacle());
  std::vector<LoweredLayer>& layers = lowered.layers();
  DataType type = DataType::kFloat;
  for (const LoweredLayer& layer : layers) {
    for (const NamedTensor& weight : layer.op.weights) type = weight.tensor.type;
  }
  absl::StatusOr<PipelinePtr> pipeline = MakePipeline(lowered, type);
  if (!pipeline.ok()) return pipeline.status();
  OnnxStack stack;
  if (IsChain(layers) && (*pipeline)->starts.empty() && (*pipeline)->layer_h.empty())
    stack.file_names = MakeFileNames(lowered, **pipeline);
  if (stack.file_names == nullptr) {
    stack.pipeline = *std::move(pipeline);
  } else {
    stack.batch_first = stack.file_names->x().shape[0] == kDimN && !layers[0].rows_first;
  }
  for (LoweredLayer& layer : layers) {
    layer.op.storage.push_back(file);
    layer.op.label = layer.label;
    stack.layers.push_back(std::move(layer.op));
  }
  return stack;
}

bool HasTensorNames(const onnx::GraphProto& graph) {
  const auto can_be_told = [](const onnx::ValueInfoProto& value) { return IsTensorName(value.name()); };
  return std::ranges::all_of(graph.input(), can_be_told) && std::ranges::all_of(graph.output(), can_be_told);
}

// `folder`: what lies beside the file; null: nothing.
absl::StatusOr<OnnxStack> LoadParsed(std::shared_ptr<const onnx::ModelProto> model, const Folder* folder,
                                     int64_t tensor_bytes) {
  const absl::StatusOr<int64_t> opset = OpsetOf(*model);
  if (!opset.ok()) return opset.status();
  Constants constants(folder, tensor_bytes);
  absl::StatusOr<OnnxStack> bare = LoadBare(model->graph(), constants, *opset, model);
  if (!IsDescribed(model->graph()) || (bare.ok() && IsOneNode(model->graph()))) return bare;
  Constants again(folder, tensor_bytes);
  absl::StatusOr<OnnxStack> whole = LoadWhole(model->graph(), again, *opset, model);
  // Layers whose file has such names are known by the operators' ones; a file that says more is served whole or not.
  return bare.ok() && !HasTensorNames(model->graph()) ? bare : whole;
}

}  // namespace

absl::StatusOr<OnnxStack> LoadOnnx(const Folder& folder, const OnnxLimits& limits, const std::string& name) {
  auto model = ParseOnnx(folder, name, limits.file_bytes);
  if (!model.ok()) return model.status();
  return LoadParsed(*std::move(model), &folder, limits.tensor_bytes);
}

absl::StatusOr<OnnxStack> LoadOnnxBytes(std::string_view bytes, const OnnxLimits& limits) {
  auto model = ParseOnnx(bytes);
  if (!model.ok()) return model.status();
  return LoadParsed(*std::move(model), nullptr, limits.tensor_bytes);
}

}  // namespace rnnserve
