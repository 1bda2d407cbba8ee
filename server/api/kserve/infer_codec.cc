// SPDX-License-Identifier: Apache-2.0
#include "server/api/kserve/infer_codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "engine/op/stack.h"
#include "server/api/kserve/tensor_codec.h"

namespace rnnserve::kserve {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;

constexpr size_t kMaxIdBytes = 128;
constexpr int kMaxOutputs = 3 + 2 * static_cast<int>(kMaxLayers);
constexpr int64_t kLowestPriority = 101;  // the core's -100

const InferParameter* Find(const ModelInferRequest& request, const char* key) {
  const auto found = request.parameters().find(key);
  return found == request.parameters().end() ? nullptr : &found->second;
}

absl::Status ParameterError(const char* key, std::string_view text) {
  return FieldError(absl::StrCat("parameters[", key, "]"), text);
}

absl::StatusOr<bool> DecodeFlag(const ModelInferRequest& request, const char* key) {
  const InferParameter* parameter = Find(request, key);
  if (parameter == nullptr) return false;
  if (parameter->parameter_choice_case() == InferParameter::kBoolParam) return parameter->bool_param();
  return ParameterError(key, absl::StrCat(key, " is a bool_param"));
}

// A number of either sign; 0 where there is none.
absl::StatusOr<uint64_t> DecodeCount(const ModelInferRequest& request, const char* key) {
  const InferParameter* parameter = Find(request, key);
  if (parameter == nullptr) return 0;
  if (parameter->parameter_choice_case() == InferParameter::kUint64Param) return parameter->uint64_param();
  if (parameter->parameter_choice_case() == InferParameter::kInt64Param && parameter->int64_param() >= 0) {
    return static_cast<uint64_t>(parameter->int64_param());
  }
  return ParameterError(key, absl::StrCat(key, " is an int64_param or uint64_param that is not negative"));
}

absl::StatusOr<std::string> DecodeSequenceId(const ModelInferRequest& request) {
  const char* const key = "sequence_id";
  const InferParameter* parameter = Find(request, key);
  if (parameter == nullptr) return std::string();
  switch (parameter->parameter_choice_case()) {
    case InferParameter::kInt64Param:
      return parameter->int64_param() == 0 ? "" : absl::StrCat(parameter->int64_param());
    case InferParameter::kUint64Param:
      return parameter->uint64_param() == 0 ? "" : absl::StrCat(parameter->uint64_param());
    case InferParameter::kStringParam:
      if (parameter->string_param().size() <= kMaxIdBytes) return parameter->string_param();
      return ParameterError(key, absl::StrCat("sequence_id has ", parameter->string_param().size(), " bytes; at most ",
                                              kMaxIdBytes, " are taken"));
    default:
      return ParameterError(key, "sequence_id is an int64_param, uint64_param or string_param");
  }
}

// As parameters (Triton's).
absl::StatusOr<SequenceStep> DecodeParameters(const ModelInferRequest& request) {
  ASSIGN_OR_RETURN(std::string id, DecodeSequenceId(request));
  ASSIGN_OR_RETURN(const bool start, DecodeFlag(request, "sequence_start"));
  ASSIGN_OR_RETURN(const bool end, DecodeFlag(request, "sequence_end"));
  if (id.empty() && (start || end)) {
    return ParameterError("sequence_id",
                          "sequence_start or sequence_end came without a sequence_id; send one that is "
                          "neither 0 nor empty");
  }
  return SequenceStep{std::move(id), start, end};
}

// As tensors (OpenVINO Model Server's).
absl::StatusOr<SequenceStep> DecodeControls(const ModelInferRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> id, DecodeControl(request, kSequenceIdTensor));
  ASSIGN_OR_RETURN(const std::optional<uint64_t> control, DecodeControl(request, kSequenceControlTensor));
  constexpr uint64_t kNone = 0, kStart = 1, kEnd = 2;
  const uint64_t kind = control.value_or(kNone);
  if (kind > kEnd) {
    return FieldError("inputs[sequence_control_input]", "sequence_control_input is 0, 1 (start) or 2 (end)");
  }
  if (id.value_or(0) != 0) return SequenceStep{absl::StrCat(*id), kind == kStart, kind == kEnd};
  if (!id && !control) return SequenceStep{};
  return FieldError("inputs[sequence_id]", "a sequence has an id that is not 0; this server makes up none");
}

absl::Status DecodeSequence(const ModelInferRequest& request, InferRequest& decoded) {
  ASSIGN_OR_RETURN(SequenceStep step, DecodeParameters(request));
  ASSIGN_OR_RETURN(SequenceStep controls, DecodeControls(request));
  if (!step.id.empty() && !controls.id.empty()) {
    return FieldError("inputs[sequence_id]", "the sequence is named twice, by a parameter and by a tensor");
  }
  if (step.id.empty()) step = std::move(controls);
  if (!step.id.empty()) decoded.sequence = std::move(step);
  return absl::OkStatus();
}

absl::Status DecodeOutputs(const ModelInferRequest& request, InferCall& call) {
  if (request.outputs_size() > kMaxOutputs) {
    return FieldError("outputs", absl::StrCat("outputs has ", request.outputs_size(), " names; no model has more than ",
                                              kMaxOutputs));
  }
  for (const auto& output : request.outputs()) {
    for (const char* key : {"shared_memory_region", "classification"}) {
      if (!output.parameters().contains(key)) continue;
      return FieldError(absl::StrCat("outputs[", output.name(), "].parameters[", key, "]"),
                        absl::StrCat("this server has no ", key,
                                     "; leave it out, and the elements come in "
                                     "raw_output_contents"));
    }
    call.outputs.push_back(output.name());
  }
  return absl::OkStatus();
}

absl::Status DecodeScalars(const ModelInferRequest& request, InferRequest& decoded) {
  if (request.id().size() > kMaxIdBytes) {
    return FieldError("id",
                      absl::StrCat("id has ", request.id().size(), " bytes; at most ", kMaxIdBytes, " are taken"));
  }
  ASSIGN_OR_RETURN(const uint64_t priority, DecodeCount(request, "priority"));
  ASSIGN_OR_RETURN(const uint64_t timeout, DecodeCount(request, "timeout"));
  // 1 is the protocol's highest, and 0 what is not said: both are the core's 0.
  const uint64_t level = std::clamp<uint64_t>(priority, 1, kLowestPriority);
  decoded.call.priority = 1 - static_cast<int32_t>(level);
  constexpr uint64_t kMostMicroseconds = uint64_t{1} << 60;
  if (timeout > 0) decoded.timeout = absl::Microseconds(static_cast<int64_t>(std::min(timeout, kMostMicroseconds)));
  return absl::OkStatus();
}

template <typename Tensor>
void EncodeOutputHead(const Tensor& tensor, inference::ModelInferResponse& response) {
  auto& output = *response.add_outputs();
  output.set_name(tensor.name);
  const std::string_view type = TypeText(tensor.type);
  output.set_datatype(type.data(), type.size());
  output.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
}

}  // namespace

absl::StatusOr<ModelName> DecodeModelName(std::string_view name, std::string_view version) {
  ModelName decoded = {std::string(name.substr(0, name.find(kSequenceView))), {}};
  if (decoded.name.empty()) return FieldError("model_name", "the request names no model");
  if (version.empty()) return decoded;
  int64_t number = 0;
  if (!absl::SimpleAtoi(absl::string_view(version.data(), version.size()), &number) || number < 1) {
    return FieldError("model_version", "a version is a number from 1; without one the highest is taken");
  }
  decoded.version = number;
  return decoded;
}

absl::StatusOr<InferRequest> DecodeInfer(const ModelInferRequest& request) {
  InferRequest decoded;
  ASSIGN_OR_RETURN(decoded.call.target, DecodeModelName(request.model_name(), request.model_version()));
  absl::Status status = DecodeScalars(request, decoded);
  if (status.ok()) status = DecodeSequence(request, decoded);
  if (status.ok()) status = DecodeOutputs(request, decoded.call);
  if (!status.ok()) return status;
  ASSIGN_OR_RETURN(decoded.call.inputs, DecodeInputs(request));
  return decoded;
}

void EncodeHead(const ModelInferRequest& request, int64_t version, inference::ModelInferResponse& response) {
  response.set_model_name(request.model_name());
  response.set_model_version(absl::StrCat(version));
  response.set_id(request.id());
  const absl::StatusOr<std::optional<uint64_t>> sequence = DecodeControl(request, kSequenceIdTensor);
  if (!sequence.ok() || !*sequence) return;
  auto& output = *response.add_outputs();
  output.set_name(kSequenceIdTensor.data(), kSequenceIdTensor.size());
  output.set_datatype("UINT64");
  output.add_shape(1);
  response.add_raw_output_contents(&**sequence, sizeof(uint64_t));
}

void EncodeOutput(const OutputTensor& tensor, inference::ModelInferResponse& response) {
  EncodeOutputHead(tensor, response);
  response.add_raw_output_contents(tensor.bytes.data(), tensor.bytes.size());
}

absl::StatusOr<v1::LoadRequest> DecodeLoad(inference::RepositoryModelLoadRequest& request) {
  v1::LoadRequest load;
  load.set_name(request.model_name());
  for (auto& [key, value] : *request.mutable_parameters()) {
    const absl::string_view file = absl::StripPrefix(key, "file:");
    if (file.size() == key.size()) continue;  // `config` and what else there is: models say all of themselves
    const std::string field = absl::StrCat("parameters[", key.substr(0, kMaxIdBytes), "]");
    int64_t version = 0;
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(file, absl::MaxSplits('/', 1));
    if (!absl::SimpleAtoi(parts.first, &version) || parts.second != "model.onnx") {
      return FieldError(field, "a file is called file:VERSION/model.onnx");
    }
    if (load.has_onnx_file()) return FieldError(field, "one file a load; load each version by itself");
    load.set_version(version);
    load.set_onnx_file(std::move(*value.mutable_bytes_param()));
  }
  if (!load.has_onnx_file()) load.set_repository(true);
  return load;
}

}  // namespace rnnserve::kserve
