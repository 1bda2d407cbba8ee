// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/inspect.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/stack.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/constants.h"
#include "onnx_file/node.h"
#include "onnx_file/parse.h"
#include "onnx_file/scope.h"
#include "onnx_file/state_width.h"

namespace rnnserve {
namespace {

// A walk over all graphs of a file, the branches of If included.
class Inspector {
 public:
  Inspector(const Folder& folder, int64_t max_bytes, OnnxInspection& found)
      : constants_(&folder, max_bytes), found_(found) {}

  absl::Status Graph(const onnx::GraphProto& graph, const Scope* outer, const std::string& place) {
    absl::StatusOr<std::unique_ptr<const Scope>> scope = Scope::Create(graph, outer, place);
    if (!scope.ok()) return scope.status();
    scopes_.push_back(*std::move(scope));
    return Nodes(graph.node(), scopes_.back().get());
  }

  // Those of a function, whose names mean nothing before it is called.
  absl::Status Function(const onnx::FunctionProto& function) {
    const std::string name = absl::StrCat("function ", Shortened(function.name()));
    obstacle_ = absl::StrCat("it lies in ", name,
                             "; put the file's functions in their places first (onnx.inliner.inline_local_functions)");
    path_.push_back(name);
    absl::Status walked = Nodes(function.node(), nullptr);
    path_.pop_back();
    obstacle_.clear();
    return walked;
  }

 private:
  // `scope` is null in functions.
  template <typename NodeList>
  absl::Status Nodes(const NodeList& nodes, const Scope* scope) {
    for (int k = 0; k < nodes.size(); ++k) {
      ++found_.node_count;
      const onnx::NodeProto& node = nodes[k];
      if (IsRecurrent(node) || IsForeignRecurrent(node)) {
        if (found_.nodes.size() == kMaxNodes) {
          return BadFile(absl::StrCat("holds more than ", kMaxNodes, " recurrent nodes"));
        }
        Recurrent(node, k, scope);
        continue;
      }
      if (absl::Status inside = Subgraphs(node, k, scope); !inside.ok()) return inside;
    }
    return absl::OkStatus();
  }

  absl::Status Subgraphs(const onnx::NodeProto& node, int index, const Scope* scope) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) {
        if (absl::Status walked = Subgraph(node, index, attribute, attribute.g(), scope); !walked.ok()) return walked;
      }
      for (const onnx::GraphProto& graph : attribute.graphs()) {
        if (absl::Status walked = Subgraph(node, index, attribute, graph, scope); !walked.ok()) return walked;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Subgraph(const onnx::NodeProto& node, int index, const onnx::AttributeProto& attribute,
                        const onnx::GraphProto& graph, const Scope* scope) {
    const std::string label = scope == nullptr ? NodeLabel(node, index) : scope->Label(node, index);
    const std::string part = Shortened(attribute.name());
    places_.emplace_back(index, attribute.name());
    path_.push_back(
        absl::StrCat(node.name().empty() ? absl::StrCat("node ", index) : Shortened(node.name()), ".", part));
    // Only the branches of an If see the same values whenever they run.
    const bool is_obstacle = obstacle_.empty() && !IsOnnxOp(node, "If");
    if (is_obstacle) {
      obstacle_ = absl::StrCat("it lies in ", part, " of ", label,
                               ", which gives it other inputs at each turn; export that layer on its own");
    }
    absl::Status walked =
        scope == nullptr ? Nodes(graph.node(), nullptr) : Graph(graph, scope, absl::StrCat(part, " of ", label));
    if (is_obstacle) obstacle_.clear();
    path_.pop_back();
    places_.pop_back();
    return walked;
  }

  void Recurrent(const onnx::NodeProto& node, int index, const Scope* scope) {
    InspectedNode& report = found_.nodes.emplace_back();
    report.number = static_cast<int>(found_.nodes.size());
    report.name = node.name();
    report.path = path_;
    report.places = places_;
    report.index = index;
    report.op.op_type = node.op_type();
    report.status = Fill(node, scope, report);
    if (!report.status.ok()) return;
    absl::StatusOr<OpSpec> spec = ResolveOperator(report.op, report.weights);
    if (spec.ok()) {
      report.spec = *std::move(spec);
    } else {
      report.status = BadFile(std::string(spec.status().message()));
    }
  }

  absl::Status Fill(const onnx::NodeProto& node, const Scope* scope, InspectedNode& report) {
    if (!IsRecurrent(node)) {
      return BadFile(absl::StrCat("is an operator of domain ", Quoted(node.domain()),
                                  ", not ONNX's own; export the layer as ",
                                  "ONNX's LSTM, GRU or RNN (of a quantized model: before it is quantized)"));
    }
    absl::StatusOr<OperatorDef> op = OperatorOf(node, found_.opset);
    if (!op.ok()) return op.status();
    report.op = *std::move(op);
    if (!obstacle_.empty()) return BadFile(obstacle_);
    const auto names = RecurrentInputs(node.op_type());
    if (static_cast<size_t>(node.input_size()) > names.size()) {
      return BadFile(absl::StrCat("has ", node.input_size(), " inputs, but the operator has ", names.size()));
    }
    absl::Status first_error;
    if (node.input_size() == 0 || node.input(0).empty()) first_error = BadFile("has no input X (input 0)");
    for (size_t index = 0; index < static_cast<size_t>(node.input_size()); ++index) {
      const std::string& name = node.input(static_cast<int>(index));
      if (name.empty()) continue;
      if (!IsWeightInput(index)) {
        report.inputs.push_back(DataInput(*scope, index, name));
        if (IsStateInput(index)) first_error.Update(CheckStateWidth(constants_, *scope, node, index));
      } else {
        first_error.Update(AddWeight(*scope, index, name, report));
      }
    }
    return first_error;
  }

  absl::Status AddWeight(const Scope& scope, size_t index, const std::string& name, InspectedNode& report) {
    absl::StatusOr<OnnxTensor> value = constants_.Value(scope, name);
    absl::Status status = value.ok() ? CheckFloating(value->view.type) : value.status();
    if (!status.ok()) {
      return BadFile(
          absl::StrCat(InputLabel(index, name), " ", status.message(), absl::IsNotFound(status) ? kFixWeights : ""));
    }
    const std::string weight(RecurrentInputs("LSTM")[index]);
    report.weights.push_back({weight, std::move(value->view)});
    if (value->storage != nullptr) report.storage.push_back(std::move(value->storage));
    const Scope::Definition& definition = *scope.Find(name);
    if (definition.node != nullptr && !IsOnnxOp(*definition.node, "Constant")) {
      report.computed_weights.push_back(weight);
    }
    return absl::OkStatus();
  }

  // Looks through what exporters put before initial states and lengths.
  InspectedInput DataInput(const Scope& scope, size_t index, std::string name) {
    InspectedInput input{.name = std::string(RecurrentInputs("LSTM")[index]), .source = "", .remark = ""};
    const Scope::Definition* definition = scope.Find(name);
    // A chain longer than this is no exporter's; a ring ends here, too.
    for (int hops = 0; hops < 16 && definition != nullptr && definition->node != nullptr; ++hops) {
      const onnx::NodeProto& by = *definition->node;
      if (IsStateInput(index) && IsOnnxOp(by, "ConstantOfShape")) {
        const onnx::AttributeProto* value = FindAttribute(by, "value");
        return Fixed(std::move(input),
                     value == nullptr ? absl::StatusOr<OnnxTensor>(OnnxTensor{}) : constants_.Stored(value->t()));
      }
      const bool passed_on = IsOnnxOp(by, "Identity") || (IsStateInput(index) && IsOnnxOp(by, "Expand")) ||
                             (index == kLengthsInput && IsOnnxOp(by, "Cast"));
      if (!passed_on || by.input_size() == 0) break;
      name = by.input(0);
      definition = definition->scope->Find(name);
    }
    if (definition == nullptr) {
      input.source = absl::StrCat(Quoted(name), ", which nothing defines");
    } else if (definition->is_input()) {
      input.source = absl::StrCat("graph input ", Quoted(name));
    } else {
      const absl::StatusOr<OnnxTensor> value = constants_.Value(*definition->scope, name);
      if (!absl::IsNotFound(value.status())) return Fixed(std::move(input), value);
      const bool is_near = definition->scope == &scope;
      input.source =
          absl::StrCat("computed by ", is_near ? NodeLabel(*definition->node, definition->node_index)
                                               : definition->scope->Label(*definition->node, definition->node_index));
    }
    return input;
  }

  InspectedInput Fixed(InspectedInput input, const absl::StatusOr<OnnxTensor>& value) {
    const bool is_state = input.name != "X" && input.name != "sequence_lens";
    input.is_zeros = is_state && value.ok() && AllZero(value->view.data);
    input.source = input.is_zeros ? "fixed to zeros" : "fixed in the file";
    if (!input.is_zeros) {
      input.remark = absl::StrCat("the file fixes ", input.name,
                                  ", which the layer starts from; an extracted node takes it with each request");
    }
    return input;
  }

  static constexpr size_t kMaxNodes = 4096;
  std::vector<std::unique_ptr<const Scope>> scopes_;
  Constants constants_;
  OnnxInspection& found_;
  std::vector<std::string> path_;
  std::vector<std::pair<int, std::string>> places_;
  std::string obstacle_;  // of the nodes being walked; empty: none
};

// What the server would say.
absl::Status Loads(const Folder& folder, const std::string& name, const OnnxLimits& limits, OnnxInspection& found) {
  const absl::StatusOr<OnnxStack> loaded = LoadOnnx(folder, limits, name);
  if (!loaded.ok()) return loaded.status();
  std::vector<LayerView> layers;
  for (const OnnxOperator& layer : loaded->layers) layers.push_back({layer.op, layer.weights, layer.label});
  absl::StatusOr<StackSpec> stack = ResolveStack(layers, loaded->batch_first, loaded->pipeline, loaded->file_names);
  if (!stack.ok()) return stack.status();
  found.pipeline = stack->pipeline;
  found.inputs = DataInputs(*stack);
  found.outputs = Outputs(*stack);
  found.layers = std::move(stack->layers);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OnnxInspection> InspectOnnx(const Folder& folder, const std::string& name, const OnnxLimits& limits) {
  const auto model = ParseOnnx(folder, name, limits.file_bytes);
  if (!model.ok()) return model.status();
  const absl::StatusOr<int64_t> opset = OpsetOf(**model);
  if (!opset.ok()) return opset.status();
  OnnxInspection found;
  found.file_bytes = static_cast<int64_t>((*model)->ByteSizeLong());
  found.opset = *opset;
  found.ir_version = (*model)->ir_version();
  found.producer = (*model)->producer_name();
  found.storage = *model;
  Inspector inspector(folder, limits.tensor_bytes, found);
  if (absl::Status walked = inspector.Graph((*model)->graph(), nullptr, ""); !walked.ok()) return walked;
  for (const onnx::FunctionProto& function : (*model)->functions()) {
    if (absl::Status walked = inspector.Function(function); !walked.ok()) return walked;
  }
  found.loads = Loads(folder, name, limits, found);
  return found;
}

}  // namespace rnnserve
