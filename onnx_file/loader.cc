// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/loader.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"
#include "onnx_file/graph.h"
#include "onnx_file/tensor.h"

namespace rnnserve {
namespace {

// Of all three operators; GRU and RNN end with initial_h.
constexpr std::array<std::string_view, 8> kInputs = {"X",         "W",         "R", "B", "sequence_lens",
                                                     "initial_h", "initial_c", "P"};

absl::Status Bad(const std::string& text) { return absl::FailedPreconditionError(text); }

absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> Parse(const Folder& folder, int64_t max_bytes) {
  const absl::StatusOr<File> file = folder.OpenFile("model.onnx");
  if (!file.ok()) return file.status();
  if (file->size() > max_bytes) {
    return Bad(absl::StrCat("has ", file->size(), " bytes, above the limit of ", max_bytes,
                            "; keep the weights in external data"));
  }
  auto model = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::FileInputStream stream(file->fd());
  if (!model->ParseFromZeroCopyStream(&stream)) {
    return Bad(absl::StrCat("is no ONNX model, or was cut off (", file->size(), " bytes)"));
  }
  if (!model->has_graph()) return Bad(absl::StrCat("holds no graph (", file->size(), " bytes)"));
  return model;
}

absl::StatusOr<int64_t> Opset(const onnx::ModelProto& model) {
  std::optional<int64_t> opset;
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) {
    if (!import.domain().empty() && import.domain() != "ai.onnx") continue;
    if (opset && *opset != import.version()) {
      return Bad(absl::StrCat("imports both opset ", *opset, " and ", import.version(), " of the default domain"));
    }
    opset = import.version();
  }
  if (!opset) return Bad("has no opset_import of the default domain, so the operator's version is unknown");
  return *opset;
}

absl::StatusOr<AttributeValue> Value(const onnx::AttributeProto& attribute) {
  if (!attribute.ref_attr_name().empty()) return Bad("refers to an attribute of a function");
  switch (attribute.type()) {
    case onnx::AttributeProto::FLOAT:
      return attribute.f();
    case onnx::AttributeProto::INT:
      return attribute.i();
    case onnx::AttributeProto::STRING:
      return attribute.s();
    case onnx::AttributeProto::FLOATS:
      return std::vector<float>(attribute.floats().begin(), attribute.floats().end());
    case onnx::AttributeProto::INTS:
      return std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
    case onnx::AttributeProto::STRINGS:
      return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
    default:
      return Bad(absl::StrCat("has type ", onnx::AttributeProto_AttributeType_Name(attribute.type()),
                              ", but FLOAT, INT, STRING, FLOATS, INTS or STRINGS is needed"));
  }
}

absl::StatusOr<OperatorDef> Operator(const onnx::NodeProto& node, int64_t opset) {
  OperatorDef op;
  op.op_type = node.op_type();
  op.opset = opset;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    absl::StatusOr<AttributeValue> value = Value(attribute);
    if (!value.ok()) return Bad(absl::StrCat("attribute ", Quoted(attribute.name()), " ", value.status().message()));
    if (!op.attributes.emplace(attribute.name(), *std::move(value)).second) {
      return Bad(absl::StrCat("attribute ", Quoted(attribute.name()), " is given twice"));
    }
  }
  return op;
}

bool AllZero(std::span<const std::byte> data) {
  return std::ranges::all_of(data, [](std::byte byte) { return byte == std::byte{0}; });
}

std::string InputLabel(size_t index, const OnnxGraph::Source& source) {
  return absl::StrCat(std::string(kInputs[index]), " (input ", index, ", ", Quoted(source.name), ")");
}

// One weight, read into `loaded`.
absl::Status AddWeight(size_t index, const OnnxGraph::Source& source, const Folder& folder, int64_t& bytes_left,
                       OnnxOperator& loaded) {
  if (source.constant == nullptr) {
    return Bad(absl::StrCat(InputLabel(index, source),
                            " is a graph input; weights must be in the file, as initializers or external data"));
  }
  absl::StatusOr<OnnxTensor> tensor = ReadOnnxTensor(*source.constant, folder, bytes_left);
  if (!tensor.ok()) return Bad(absl::StrCat(InputLabel(index, source), " ", tensor.status().message()));
  bytes_left -= static_cast<int64_t>(tensor->view.data.size());
  loaded.weights.push_back({std::string(kInputs[index]), std::move(tensor->view)});
  if (tensor->storage != nullptr) loaded.storage.push_back(std::move(tensor->storage));
  return absl::OkStatus();
}

// An input that each request brings.
absl::Status CheckData(size_t index, const OnnxGraph::Source& source, const Folder& folder, int64_t max_bytes) {
  if (source.constant == nullptr) return absl::OkStatus();  // a graph input, or zeros
  const std::string label = InputLabel(index, source);
  if (!kInputs[index].starts_with("initial_")) {
    return Bad(absl::StrCat(label, " is fixed in the file; it comes with each request, so make it a graph input",
                            index == 0 ? "" : " or leave it out"));
  }
  const absl::StatusOr<OnnxTensor> tensor = ReadOnnxTensor(*source.constant, folder, max_bytes);
  if (!tensor.ok()) return Bad(absl::StrCat(label, " ", tensor.status().message()));
  if (AllZero(tensor->view.data)) return absl::OkStatus();
  return Bad(
      absl::StrCat(label, " is fixed in the file and not zero; make it a graph input and send it with each request"));
}

absl::Status AddInputs(const OnnxGraph& graph, const Folder& folder, int64_t bytes_left, OnnxOperator& loaded) {
  const size_t known = graph.node().op_type() == "LSTM" ? kInputs.size() : 6;
  if (static_cast<size_t>(graph.node().input_size()) > known) {
    return Bad(absl::StrCat("the ", graph.node().op_type(), " node has ", graph.node().input_size(),
                            " inputs, but the operator has ", known));
  }
  std::unordered_map<std::string, size_t> fed;  // graph input -> the node's input
  for (size_t index = 0; index < known; ++index) {
    const absl::StatusOr<OnnxGraph::Source> source = graph.Input(static_cast<int>(index));
    if (!source.ok()) return source.status();
    if (source->name.empty()) {
      if (index == 0) return Bad(absl::StrCat("the ", graph.node().op_type(), " node has no input X (input 0)"));
      continue;
    }
    const std::string_view name = kInputs[index];
    const bool is_weight = name == "W" || name == "R" || name == "B" || name == "P";
    const absl::Status taken = is_weight ? AddWeight(index, *source, folder, bytes_left, loaded)
                                         : CheckData(index, *source, folder, bytes_left);
    if (!taken.ok()) return taken;
    if (source->constant != nullptr || source->zeros) continue;
    if (const auto [other, first] = fed.emplace(source->name, index); !first) {
      return Bad(absl::StrCat("graph input ", Quoted(source->name), " is both ", std::string(kInputs[other->second]),
                              " and ", std::string(name), "; requests send them apart"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OnnxOperator> LoadOnnx(const Folder& folder, const OnnxLimits& limits) {
  const auto model = Parse(folder, limits.file_bytes);
  if (!model.ok()) return model.status();
  const absl::StatusOr<OnnxGraph> graph = OnnxGraph::Create((*model)->graph());
  if (!graph.ok()) return graph.status();
  const absl::StatusOr<int64_t> opset = Opset(**model);
  if (!opset.ok()) return opset.status();
  absl::StatusOr<OperatorDef> op = Operator(graph->node(), *opset);
  if (!op.ok()) return op.status();

  OnnxOperator loaded;
  loaded.op = *std::move(op);
  loaded.storage.push_back(*model);
  if (absl::Status added = AddInputs(*graph, folder, limits.tensor_bytes, loaded); !added.ok()) return added;
  return loaded;
}

}  // namespace rnnserve
