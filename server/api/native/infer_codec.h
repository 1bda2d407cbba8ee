// SPDX-License-Identifier: Apache-2.0
// rnnserve.v1.InferRequest -> InferCall.
#pragma once

#include "absl/status/statusor.h"
#include "rnnserve/v1/recurrent.pb.h"
#include "server/core/call.h"

namespace rnnserve {

// Everything but deadline and cancellation. Tensor views point into `request`, which is on an arena (tensor_codec.h).
absl::StatusOr<InferCall> DecodeInfer(const v1::InferRequest& request);

void EncodeDuration(absl::Duration duration, google::protobuf::Duration& message);

// The parts of a request that name a model; `path` is the field's own.
absl::StatusOr<ModelName> DecodeModelRef(const v1::ModelRef& message, std::string_view path);
absl::StatusOr<ModelFingerprint> DecodeFingerprint(const std::string& text);

}  // namespace rnnserve
