// SPDX-License-Identifier: Apache-2.0
// ModelInfer of the Open Inference Protocol <-> a call of the core.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "inference/grpc_service.pb.h"
#include "rnnserve/v1/models.pb.h"
#include "server/core/call.h"

namespace rnnserve::kserve {

// Behind a model's name: the same model, described as one whose requests are chunks of sequences (ModelConfig). No
// name of a model has an @.
inline constexpr std::string_view kSequenceView = "@sequence";

// What a request's parameters say of its sequence.
struct SequenceStep {
  std::string id;  // 7 and "7" are one sequence
  bool start = false;
  bool end = false;
};

struct InferRequest {
  InferCall call;  // target, inputs, outputs and priority
  std::optional<SequenceStep> sequence;
  absl::Duration timeout = absl::InfiniteDuration();
};

// "" is the highest version. INVALID_ARGUMENT (fields `model_name`, `model_version`).
absl::StatusOr<ModelName> DecodeModelName(std::string_view name, std::string_view version);

// Views into `request`, which must stay as it is.
absl::StatusOr<InferRequest> DecodeInfer(const inference::ModelInferRequest& request);

// What a response says besides its outputs. `version` as the model was found.
void EncodeHead(const inference::ModelInferRequest& request, int64_t version, inference::ModelInferResponse& response);
void EncodeOutput(const OutputTensor& tensor, inference::ModelInferResponse& response);

// The request of the native service; the file's bytes are moved out of `request`. No file: the repository is read.
absl::StatusOr<v1::LoadRequest> DecodeLoad(inference::RepositoryModelLoadRequest& request);

}  // namespace rnnserve::kserve
