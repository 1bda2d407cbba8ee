// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/split.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/op/stack.h"
#include "engine/op/wording.h"
#include "onnx_file/bad_file.h"
#include "onnx_file/flattened.h"
#include "onnx_file/loader.h"
#include "onnx_file/node.h"
#include "onnx_file/partition.h"
#include "onnx_file/tensor.h"
#include "onnx_file/writing.h"

namespace rnnserve {
namespace {

using Part = Partition::Part;

std::string_view NameOf(Part part) {
  return part == Part::kBefore ? "before" : part == Part::kServed ? "served" : "after";
}

std::string TypeText(int32_t type) {
  if (!onnx::TensorProto::DataType_IsValid(type) || type == 0) return "unknown";
  if (ByteSize(static_cast<DataType>(type)) != 0) return std::string(DataTypeName(static_cast<DataType>(type)));
  return absl::AsciiStrToLower(onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type)));
}

SplitTensor TensorOf(const onnx::ValueInfoProto& info) {
  const onnx::TypeProto::Tensor& tensor = info.type().tensor_type();
  SplitTensor made = {.name = info.name(), .type = TypeText(tensor.elem_type()), .shape = {}, .ends = {}};
  if (!tensor.has_shape()) return made;
  std::vector<std::string> axes;
  for (const auto& dim : tensor.shape().dim()) {
    axes.push_back(dim.has_dim_value() && dim.dim_value() > 0 ? absl::StrCat(dim.dim_value())
                   : dim.dim_param().empty()                  ? "?"
                                                              : Shortened(dim.dim_param()));
  }
  made.shape = absl::StrCat("[", absl::StrJoin(axes, ", "), "]");
  return made;
}

// Of the axes whose sizes the file fixes, for what is read by them: a Reshape to [5, 3, 10], a step 4 that is the last.
void KeepSizes(const onnx::ValueInfoProto& of_file, onnx::ValueInfoProto& info) {
  const auto& sizes = of_file.type().tensor_type().shape().dim();
  auto& dims = *info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim();
  for (int axis = 0; axis < std::min(sizes.size(), dims.size()); ++axis) {
    if (sizes[axis].dim_value() > 0) dims[axis].set_dim_value(sizes[axis].dim_value());
  }
}

class Splitter {
 public:
  Splitter(const onnx::ModelProto& model, const Folder& folder, const SplitOptions& options, const Partition& partition)
      : model_(model), folder_(folder), options_(options), partition_(partition) {}

  absl::StatusOr<std::vector<SplitPart>> Write() {
    for (const Part part : {Part::kBefore, Part::kServed, Part::kAfter}) {
      boundaries_[static_cast<size_t>(part)] = partition_.BoundaryOf(part);
    }
    // Its types and shapes are what the others are told.
    absl::StatusOr<SplitPart> served = WritePart(Part::kServed);
    if (!served.ok()) return served.status();
    std::vector<SplitPart> parts = {*std::move(served)};
    for (const Part part : {Part::kBefore, Part::kAfter}) {
      if (BoundaryOf(part).nodes.empty()) continue;
      absl::StatusOr<SplitPart> made = WritePart(part);
      if (!made.ok()) return made.status();
      parts.insert(part == Part::kBefore ? parts.begin() : parts.end(), *std::move(made));
    }
    return parts;
  }

 private:
  const Partition::Boundary& BoundaryOf(Part part) const { return boundaries_[static_cast<size_t>(part)]; }

  // Those of the served part as a server tells them; its own axes T and N are open to others.
  onnx::ValueInfoProto InfoOf(const std::string& name, Part part) const {
    const auto found = std::ranges::find(signatures_, name, &TensorSignature::name);
    if (found == signatures_.end() || (part != Part::kServed && partition_.MakerOf(name) != Part::kServed)) {
      return partition_.Describe(name);
    }
    onnx::ValueInfoProto info;
    Describe(*found, info);
    if (part == Part::kServed) return info;
    for (auto& dim : *info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) dim.clear_dim_param();
    return info;
  }

  absl::Status AddTensors(const Partition::Boundary& boundary, onnx::GraphProto& graph) const {
    for (const onnx::TensorProto* tensor : boundary.initializers) {
      if (tensor->data_location() != onnx::TensorProto::EXTERNAL) {
        *graph.add_initializer() = *tensor;
        continue;
      }
      const absl::StatusOr<OnnxTensor> value = ReadOnnxTensor(*tensor, &folder_, options_.limits.tensor_bytes);
      if (!value.ok()) return BadFile(absl::StrCat(Quoted(tensor->name()), " ", value.status().message()));
      Store({tensor->name(), value->view}, *graph.add_initializer());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<SplitPart> WritePart(Part part) {
    const Partition::Boundary& boundary = BoundaryOf(part);
    onnx::ModelProto model;
    model.set_ir_version(std::max(model_.ir_version(), kOldestIrVersion));
    model.set_producer_name("rnnctl");
    *model.mutable_opset_import() = model_.opset_import();
    if (part != Part::kServed) *model.mutable_functions() = model_.functions();
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.set_name(std::string(NameOf(part)));
    if (absl::Status added = AddTensors(boundary, graph); !added.ok()) return added;
    for (const onnx::NodeProto* node : boundary.nodes) *graph.add_node() = *node;
    for (const std::string& name : boundary.inputs) *graph.add_input() = InfoOf(name, part);
    for (const std::string& name : boundary.outputs) *graph.add_output() = InfoOf(name, part);
    if (static_cast<int64_t>(model.ByteSizeLong()) > kMaxFileBytes) {
      return BadFile(absl::StrCat("the part ", std::string(NameOf(part)), " has ", model.ByteSizeLong(),
                                  " bytes; one ONNX file holds at most ", kMaxFileBytes, " without external data"));
    }
    if (part == Part::kServed) {
      KeepNames(graph);
      if (absl::Status loaded = Load(model.SerializeAsString()); !loaded.ok()) return loaded;
      for (auto* infos : {graph.mutable_input(), graph.mutable_output()}) {
        for (onnx::ValueInfoProto& info : *infos) info = InfoOf(std::string(info.name()), part);
      }
    }
    SplitPart made = {
        .name = std::string(NameOf(part)), .bytes = {}, .nodes = graph.node_size(), .inputs = {}, .outputs = {}};
    for (const onnx::ValueInfoProto& info : graph.input()) {
      if (info.type().value_case() == onnx::TypeProto::VALUE_NOT_SET || TensorOf(info).type == "unknown") {
        return BadFile(absl::StrCat("nothing in the file tells the type of ", Quoted(info.name()),
                                    ", which goes into the part ", std::string(NameOf(part)),
                                    "; write the types of its values into the file first (Python: "
                                    "onnx.shape_inference.infer_shapes(model))"));
      }
      made.inputs.push_back(TensorOf(info));
      const std::optional<Part> maker = partition_.MakerOf(info.name());
      made.inputs.back().ends = {std::string(maker ? NameOf(*maker) : "caller")};
    }
    for (const onnx::ValueInfoProto& info : graph.output()) made.outputs.push_back(OutputOf(info, part));
    if (part == Part::kServed) {
      for (onnx::ValueInfoProto& info : *graph.mutable_input()) KeepSizes(partition_.Describe(info.name()), info);
    }
    made.bytes = model.SerializeAsString();
    // What is written is what a server loads.
    if (absl::Status loaded = part == Part::kServed ? Load(made.bytes) : absl::OkStatus(); !loaded.ok()) return loaded;
    return made;
  }

  SplitTensor OutputOf(const onnx::ValueInfoProto& info, Part part) const {
    SplitTensor made = TensorOf(info);
    for (const Part taker : {Part::kServed, Part::kAfter}) {
      const auto& inputs = BoundaryOf(taker).inputs;
      if (taker != part && std::ranges::find(inputs, info.name()) != inputs.end())
        made.ends.emplace_back(NameOf(taker));
    }
    if (partition_.IsGraphOutput(info.name())) made.ends.emplace_back("caller");
    return made;
  }

  // One bare node would be served under the operator's names; with a second one the file's hold.
  static void KeepNames(onnx::GraphProto& graph) {
    const auto is_constant = [](const onnx::NodeProto& node) { return IsOnnxOp(node, "Constant"); };
    if (graph.node_size() - std::ranges::count_if(graph.node(), is_constant) != 1 || graph.output_size() == 0) return;
    onnx::NodeProto& node = *std::ranges::find_if_not(*graph.mutable_node(), is_constant);
    const std::string name = graph.output(0).name();
    const std::string inner = absl::StrCat(name, "/of_the_layer");
    for (std::string& output : *node.mutable_output()) {
      if (output == name) output = inner;
    }
    onnx::NodeProto& named = *graph.add_node();
    named.set_op_type("Identity");
    named.add_input(inner);
    named.add_output(name);
  }

  // As a server does.
  absl::Status Load(const std::string& bytes) {
    const absl::StatusOr<OnnxStack> loaded = LoadOnnxBytes(bytes, options_.limits);
    if (!loaded.ok()) return loaded.status();
    std::vector<LayerView> layers;
    for (const OnnxOperator& layer : loaded->layers) layers.push_back({layer.op, layer.weights, layer.label});
    const absl::StatusOr<StackSpec> stack =
        ResolveStack(layers, loaded->batch_first, loaded->pipeline, loaded->file_names);
    if (!stack.ok()) return BadFile(std::string(stack.status().message()));
    signatures_ = DataInputs(*stack);
    for (TensorSignature& output : Outputs(*stack)) signatures_.push_back(std::move(output));
    return absl::OkStatus();
  }

  const onnx::ModelProto& model_;
  const Folder& folder_;
  const SplitOptions& options_;
  const Partition& partition_;
  Partition::Boundary boundaries_[3];
  std::vector<TensorSignature> signatures_;
};

// What must be served of the flat graph.
absl::StatusOr<std::vector<int>> LayersOf(const OnnxInspection& inspection, const SplitOptions& options) {
  if (options.node != nullptr) {
    if (!options.node->status.ok()) return options.node->status;
    return std::vector<int>{options.node->index};
  }
  std::vector<int> layers;
  bool in_branches = false;
  for (const InspectedNode& node : inspection.nodes) {
    in_branches |= !node.path.empty();
    if (node.path.empty() && node.status.ok()) layers.push_back(node.index);
  }
  if (!layers.empty()) return layers;
  if (in_branches) {
    return BadFile(
        "has its LSTM, GRU and RNN nodes in branches and not in the main graph; name one of them with "
        "--node (`rnnctl inspect` lists them), and its branches are taken for granted");
  }
  if (!inspection.nodes.empty()) return inspection.nodes[0].status;
  return inspection.loads;  // which says what there is instead
}

}  // namespace

absl::StatusOr<OnnxSplit> SplitOnnx(const OnnxInspection& inspection, const Folder& folder,
                                    const SplitOptions& options) {
  int index = 0;
  absl::StatusOr<std::vector<int>> layers = LayersOf(inspection, options);
  if (!layers.ok()) return layers.status();
  const auto& model = *static_cast<const onnx::ModelProto*>(inspection.storage.get());
  const onnx::GraphProto graph = Flattened(model.graph(), options.node, index);
  if (options.node != nullptr) layers = std::vector<int>{index};
  absl::StatusOr<Partition> partition = Partition::Create(
      {.graph = graph, .opset = inspection.opset, .folder = folder, .tensor_bytes = options.limits.tensor_bytes},
      *layers, options.stream ? Lowering::Ends::kRefused : Lowering::Ends::kAllowed);
  if (!partition.ok()) return partition.status();
  if (absl::Status run = partition->Run(); !run.ok()) return run;
  OnnxSplit split;
  absl::StatusOr<std::vector<SplitPart>> parts = Splitter(model, folder, options, *partition).Write();
  if (!parts.ok()) {
    // What lowers and still does not load, such as too many outputs: as little as can be.
    if (absl::Status cut = partition->KeepLayersAlone(); !cut.ok()) return cut;
    parts = Splitter(model, folder, options, *partition).Write();
  }
  if (!parts.ok()) return parts.status();
  split.parts = *std::move(parts);
  split.in_the_way = partition->InTheWay();
  if (split.in_the_way.empty() && split.parts.size() > 1) {  // what no layer has to do with is not tried
    split.in_the_way = partition->BesideLayers();
    if (!inspection.loads.ok() && options.node == nullptr) {
      const absl::string_view reason = inspection.loads.message();
      split.in_the_way = {std::string(reason.substr(0, reason.find("; `rnnctl split`")))};
    }
  }
  if (options.node != nullptr) split.assumptions = options.node->path;
  return split;
}

}  // namespace rnnserve
