// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/json.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "client/cpp/codec.h"
#include "client/cpp/session_codec.h"
#include "client/rnnctl/json_print.h"

namespace rnnserve::rnnctl {
namespace {

void EncodeSpecs(const std::vector<client::TensorSpec>& specs,
                 google::protobuf::RepeatedPtrField<v1::TensorSpec>& wire) {
  for (const client::TensorSpec& spec : specs) {
    v1::TensorSpec& to = *wire.Add();
    to.set_name(spec.name);
    to.set_data_type(static_cast<v1::DataType>(spec.type));
    for (const std::string& dim : spec.shape) to.add_shape(dim);
    to.set_optional(spec.optional);
  }
}

void EncodeModel(const client::ModelInfo& info, v1::ModelInfo& wire) {
  wire.set_name(info.name);
  wire.set_version(info.version);
  wire.set_fingerprint(info.fingerprint);
  if (info.layers.empty()) client::Encode(info.op, *wire.mutable_operator_());
  for (const OperatorDef& layer : info.layers) client::Encode(layer, *wire.add_layers());
  EncodeSpecs(info.inputs, *wire.mutable_inputs());
  EncodeSpecs(info.outputs, *wire.mutable_outputs());
  EncodeSpecs(info.state, *wire.mutable_state());
  client::Encode(info.options, *wire.mutable_options());
  wire.set_engine(info.engine);
  wire.set_source(info.source);
  wire.set_weight_bytes(info.weight_bytes);
  wire.set_packed_bytes(info.packed_bytes);
  wire.set_tenant(info.tenant);
}

}  // namespace

absl::StatusOr<std::string> ParseInferJson(std::string_view json) {
  v1::InferRequest request;
  const auto status = google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &request);
  if (status.ok()) return request.SerializeAsString();
  const std::string why(status.message().data(), status.message().size());
  return absl::InvalidArgumentError(absl::StrCat("not the JSON form of rnnserve.v1.InferRequest: ", why));
}

std::string ToJson(const client::InferResult& result) {
  v1::InferResponse wire;
  wire.set_request_id(result.request_id);
  for (const client::Tensor& output : result.outputs) EncodeTyped(output, *wire.add_outputs());
  wire.set_engine(result.engine);
  wire.set_fingerprint(result.fingerprint);
  client::Encode(result.queue_time, *wire.mutable_queue_time());
  client::Encode(result.compute_time, *wire.mutable_compute_time());
  wire.set_largest_batch(result.largest_batch);
  for (const std::string& warning : result.warnings) wire.add_warnings(warning);
  return PrintJson(wire);
}

std::string ToJson(const client::ModelInfo& model) {
  v1::ModelInfo wire;
  EncodeModel(model, wire);
  return PrintJson(wire);
}

std::string ToJson(const client::ModelList& list) {
  v1::ListModelsResponse wire;
  for (const client::ModelInfo& model : list.models) EncodeModel(model, *wire.add_models());
  for (const client::ModelList::Failure& failure : list.failures) {
    auto& to = *wire.add_failures();
    to.set_path(failure.path);
    to.set_reason(failure.reason);
  }
  return PrintJson(wire);
}

}  // namespace rnnserve::rnnctl
