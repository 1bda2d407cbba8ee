// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/json.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "client/cpp/codec.h"

namespace rnnserve::client {
namespace {

std::string Print(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  return status.ok() ? json : "{}\n";  // fails only for types unknown to the program, and these are compiled in
}

void EncodeTyped(const Tensor& tensor, v1::Tensor& wire) {
  wire.set_name(tensor.name);
  wire.set_data_type(static_cast<v1::DataType>(tensor.type));
  wire.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  if (tensor.type == DataType::kInt64) {  // not by way of double, which would lose digits
    wire.mutable_int64_data()->Resize(static_cast<int>(tensor.bytes.size() / sizeof(int64_t)), 0);
    tensor.bytes.copy(reinterpret_cast<char*>(wire.mutable_int64_data()->mutable_data()), tensor.bytes.size());
    return;
  }
  for (double value : ValuesOf(tensor)) {
    switch (tensor.type) {
      case DataType::kDouble:
        wire.add_double_data(value);
        break;
      case DataType::kInt32:
        wire.add_int32_data(static_cast<int32_t>(value));
        break;
      default:
        wire.add_float_data(static_cast<float>(value));
    }
  }
}

void EncodeDuration(std::chrono::nanoseconds time, google::protobuf::Duration& wire) {
  constexpr int64_t kNanosPerSecond = 1'000'000'000;
  wire.set_seconds(time.count() / kNanosPerSecond);
  wire.set_nanos(static_cast<int32_t>(time.count() % kNanosPerSecond));
}

void EncodeSpecs(const std::vector<TensorSpec>& specs, google::protobuf::RepeatedPtrField<v1::TensorSpec>& wire) {
  for (const TensorSpec& spec : specs) {
    v1::TensorSpec& to = *wire.Add();
    to.set_name(spec.name);
    to.set_data_type(static_cast<v1::DataType>(spec.type));
    for (const std::string& dim : spec.shape) to.add_shape(dim);
    to.set_optional(spec.optional);
  }
}

void EncodeModel(const ModelInfo& info, v1::ModelInfo& wire) {
  wire.set_name(info.name);
  wire.set_version(info.version);
  wire.set_fingerprint(info.fingerprint);
  if (info.layers.empty()) Encode(info.op, *wire.mutable_operator_());
  for (const OperatorDef& layer : info.layers) Encode(layer, *wire.add_layers());
  EncodeSpecs(info.inputs, *wire.mutable_inputs());
  EncodeSpecs(info.outputs, *wire.mutable_outputs());
  EncodeSpecs(info.state, *wire.mutable_state());
  Encode(info.options, *wire.mutable_options());
  wire.set_engine(info.engine);
  wire.set_source(info.source);
  wire.set_weight_bytes(info.weight_bytes);
  wire.set_packed_bytes(info.packed_bytes);
}

}  // namespace

absl::StatusOr<v1::InferRequest> ParseInferJson(std::string_view json) {
  v1::InferRequest request;
  const auto status = google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &request);
  if (status.ok()) return request;
  const std::string why(status.message().data(), status.message().size());
  return absl::InvalidArgumentError(absl::StrCat("not the JSON form of rnnserve.v1.InferRequest: ", why));
}

absl::Status CheckInferJson(std::string_view json) { return ParseInferJson(json).status(); }

std::string ToJson(const InferResult& result) {
  v1::InferResponse wire;
  wire.set_request_id(result.request_id);
  for (const Tensor& output : result.outputs) EncodeTyped(output, *wire.add_outputs());
  wire.set_engine(result.engine);
  wire.set_fingerprint(result.fingerprint);
  EncodeDuration(result.queue_time, *wire.mutable_queue_time());
  EncodeDuration(result.compute_time, *wire.mutable_compute_time());
  wire.set_largest_batch(result.largest_batch);
  for (const std::string& warning : result.warnings) wire.add_warnings(warning);
  return Print(wire);
}

std::string ToJson(const ModelInfo& model) {
  v1::ModelInfo wire;
  EncodeModel(model, wire);
  return Print(wire);
}

std::string ToJson(const ModelList& list) {
  v1::ListModelsResponse wire;
  for (const ModelInfo& model : list.models) EncodeModel(model, *wire.add_models());
  for (const ModelList::Failure& failure : list.failures) {
    auto& to = *wire.add_failures();
    to.set_path(failure.path);
    to.set_reason(failure.reason);
  }
  return Print(wire);
}

}  // namespace rnnserve::client
