// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "client/rnnctl/inspect/report.h"
#include "onnx_file/stages.h"

namespace rnnserve::rnnctl::inspect {
namespace {

using Json = nlohmann::ordered_json;

Json PrecisionJson(const NodePrecision& node) {
  Json list = Json::array();
  for (const Precision& kind : node.kinds) {
    Json json = {{"weight_type", std::string(WeightTypeName(kind.weights))}};
    if (kind.refused.ok()) {
      json["largest_error"] = kind.largest_error;
      json["mean_error"] = kind.mean_error;
      json["packed_bytes"] = kind.packed_bytes;
      json["packing_microseconds"] = kind.packing_microseconds;
      json["step_microseconds"] = kind.step_microseconds;
    } else {
      json["refused"] = std::string(kind.refused.message());
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json NodeJson(const OnnxInspection& file, const InspectedNode& node) {
  Json json = {{"number", node.number},
               {"name", node.name},
               {"op_type", node.op.op_type},
               {"path", node.path},
               {"loads", Verdict(file, node)}};
  if (!node.status.ok()) json["reason"] = std::string(node.status.message());
  json["inputs"] = Json::array();
  for (const InspectedInput& input : node.inputs) {
    json["inputs"].push_back({{"name", input.name}, {"source", input.source}});
  }
  json["attributes"] = UnusualAttributes(node);
  if (!node.spec) return json;
  json["version"] = node.spec->version;
  json["input_size"] = node.spec->input_size;
  json["hidden_size"] = node.spec->hidden_size;
  json["direction"] = DirectionName(*node.spec);
  json["type"] = std::string(DataTypeName(node.spec->data_type));
  json["weight_bytes"] = WeightBytes(node);
  json["state_bytes"] = StateBytes(*node.spec);
  json["computed_weights"] = node.computed_weights;
  return json;
}

Json TensorsJson(const std::vector<TensorSignature>& tensors) {
  Json list = Json::array();
  for (const TensorSignature& tensor : tensors) {
    list.push_back({{"name", tensor.name},
                    {"data_type", std::string(DataTypeName(tensor.type))},
                    {"shape", DimensionTexts(tensor.shape)}});
  }
  return list;
}

}  // namespace

std::string ReportJson(const std::string& path, const OnnxInspection& file, const OnnxSplit* split,
                       const std::vector<NodePrecision>& precision) {
  Json json = {{"path", path},
               {"file_bytes", file.file_bytes},
               {"opset", file.opset},
               {"producer", file.producer},
               {"node_count", file.node_count},
               {"loads", file.loads.ok()}};
  if (!file.loads.ok()) json["reason"] = std::string(file.loads.message());
  if (split != nullptr) json["in_the_way"] = split->in_the_way;
  if (file.loads.ok()) {
    json["inputs"] = TensorsJson(file.inputs);
    json["outputs"] = TensorsJson(file.outputs);
  }
  json["stages"] = Json::array();
  for (const Stage& stage : StagesOf(file)) {
    json["stages"].push_back(
        {{"runs", stage.kind}, {"bytes", stage.bytes}, {"step_work", stage.step_work}, {"what", stage.what}});
  }
  json["nodes"] = Json::array();
  for (const InspectedNode& node : file.nodes) json["nodes"].push_back(NodeJson(file, node));
  for (const NodePrecision& node : precision) {
    json["nodes"][static_cast<size_t>(node.number - 1)]["precision"] = PrecisionJson(node);
  }
  // Names in ONNX files are UTF-8 by promise only.
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rnnserve::rnnctl::inspect
