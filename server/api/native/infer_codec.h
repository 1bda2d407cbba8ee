// SPDX-License-Identifier: Apache-2.0
// rnnserve.v1.InferRequest -> InferCall, and InferReply -> rnnserve.v1.InferResponse.
#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "rnnserve/v1/recurrent.pb.h"
#include "server/core/call.h"

namespace rnnserve {

// Everything but deadline and cancellation. Tensor views point into `request`, which is on an arena (tensor_codec.h).
absl::StatusOr<InferCall> DecodeInfer(const v1::InferRequest& request);

// The bytes of the InferResponse, to `memory` of their size.
void EncodeInfer(std::string_view request_id, const InferReply& reply, absl::FunctionRef<uint8_t*(size_t size)> memory);

// The parts of a request that name a model; `path` is the field's own.
absl::StatusOr<ModelName> DecodeModelRef(const v1::ModelRef& message, std::string_view path);
absl::StatusOr<ModelFingerprint> DecodeFingerprint(const std::string& text);

}  // namespace rnnserve
