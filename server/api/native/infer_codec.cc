// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/infer_codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/op/stack.h"
#include "server/api/native/operator_codec.h"
#include "server/api/native/options_codec.h"
#include "server/api/native/tensor_codec.h"
#include "server/api/native/wire_writer.h"

namespace rnnserve {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;
constexpr size_t kMaxEngineBytes = 128;
constexpr int32_t kMaxPriority = 100;
constexpr int kMaxOutputs = 3 + 2 * static_cast<int>(kMaxLayers);

absl::Status DecodeScalars(const v1::InferRequest& request, InferCall& call) {
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return FieldError("request_id", absl::StrCat("request_id has ", request.request_id().size(), " bytes; at most ",
                                                 kMaxRequestIdBytes, " are taken"));
  }
  if (request.priority() < -kMaxPriority || request.priority() > kMaxPriority) {
    return FieldError("priority", absl::StrCat("priority is ", request.priority(), "; expected ", -kMaxPriority, " to ",
                                               kMaxPriority));
  }
  if (request.engine().size() > kMaxEngineBytes) {
    return FieldError("engine", absl::StrCat("the engine's name has ", request.engine().size(), " bytes; at most ",
                                             kMaxEngineBytes, " are taken"));
  }
  if (request.outputs_size() > kMaxOutputs) {
    return FieldError("outputs", absl::StrCat("outputs has ", request.outputs_size(), " names; no model has more than ",
                                              kMaxOutputs));
  }
  call.priority = request.priority();
  call.engine = request.engine();
  call.outputs.assign(request.outputs().begin(), request.outputs().end());
  return absl::OkStatus();
}

absl::Status DecodeTarget(const v1::InferRequest& request, InferCall& call) {
  const auto keep = [&](auto decoded) {
    if (!decoded.ok()) return decoded.status();
    call.target = *std::move(decoded);
    return absl::OkStatus();
  };
  switch (request.target_case()) {
    case v1::InferRequest::kOperator:
      return keep(DecodeOperator(request.operator_(), "operator"));
    case v1::InferRequest::kModel:
      return keep(DecodeModelRef(request.model(), "model"));
    case v1::InferRequest::kFingerprint:
      return keep(DecodeFingerprint(request.fingerprint()));
    case v1::InferRequest::TARGET_NOT_SET:
      break;
  }
  return FieldError("target", "the request names nothing to run; set one of operator, model, fingerprint");
}

}  // namespace

absl::StatusOr<ModelName> DecodeModelRef(const v1::ModelRef& message, std::string_view path) {
  ModelName name = {message.name(), {}};
  if (name.name.empty()) return FieldError(absl::StrCat(View(path), ".name"), "the model has no name");
  if (message.has_version()) {
    name.version = message.version();
    if (*name.version < 1) {
      return FieldError(absl::StrCat(View(path), ".version"),
                        absl::StrCat("version is ", *name.version,
                                     "; versions start at 1, and without one the highest "
                                     "is taken"));
    }
  }
  return name;
}

absl::StatusOr<ModelFingerprint> DecodeFingerprint(const std::string& text) {
  constexpr size_t kDigits = 64;
  const bool is_hex = std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isxdigit(c); });
  if (text.size() != kDigits || !is_hex) {
    return FieldError("fingerprint", absl::StrCat("a fingerprint is ", kDigits, " hexadecimal digits; ", text.size(),
                                                  " bytes came", is_hex ? "" : " with others among them"));
  }
  return ModelFingerprint{absl::AsciiStrToLower(text)};
}

absl::StatusOr<InferCall> DecodeInfer(const v1::InferRequest& request) {
  InferCall call;
  absl::Status status = DecodeScalars(request, call);
  if (status.ok()) status = DecodeTarget(request, call);
  if (!status.ok()) return status;
  ASSIGN_OR_RETURN(call.options, DecodeOptions(request.options()));
  ASSIGN_OR_RETURN(call.inputs, DecodeTensors(request.inputs(), "inputs"));
  return call;
}

void EncodeInfer(std::string_view request_id, const InferReply& reply, absl::FunctionRef<uint8_t*(size_t)> memory) {
  const auto fill = [&](auto& sink) {
    using v1::InferResponse;
    wire::Text(sink, InferResponse::kRequestIdFieldNumber, request_id);
    for (const OutputTensor& output : reply.outputs) wire::Tensor(sink, InferResponse::kOutputsFieldNumber, output);
    wire::Text(sink, InferResponse::kEngineFieldNumber, reply.engine);
    wire::Text(sink, InferResponse::kFingerprintFieldNumber, reply.model->fingerprint());
    wire::Duration(sink, InferResponse::kQueueTimeFieldNumber, reply.queue_time);
    wire::Duration(sink, InferResponse::kComputeTimeFieldNumber, reply.compute_time);
    wire::Number(sink, InferResponse::kLargestBatchFieldNumber, static_cast<uint64_t>(reply.largest_batch));
    for (const std::string& warning : reply.model->stack().Warnings()) {
      wire::Text(sink, InferResponse::kWarningsFieldNumber, warning);
    }
  };
  wire::Write(fill, memory(wire::SizeOf(fill)));
}

}  // namespace rnnserve
