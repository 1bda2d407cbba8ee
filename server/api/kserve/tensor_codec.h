// SPDX-License-Identifier: Apache-2.0
// Tensors of the Open Inference Protocol <-> those of the core.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"
#include "server/core/call.h"

namespace rnnserve::kserve {

// "FP32", "INT64", ... as the protocol calls a type.
std::string_view TypeText(DataType type);

// OpenVINO Model Server's control tensors, which its clients send among the inputs: a UINT64 `sequence_id` and a UINT32
// `sequence_control_input`, of one element each. No model has inputs of these types.
inline constexpr std::string_view kSequenceIdTensor = "sequence_id";
inline constexpr std::string_view kSequenceControlTensor = "sequence_control_input";
// The value of that tensor, if the request has it.
absl::StatusOr<std::optional<uint64_t>> DecodeControl(const inference::ModelInferRequest& request,
                                                      std::string_view name);

// Views of the request's other inputs, which must stay as they are. Refuses types, ranks, shapes and counts that do not
// fit, by the field paths of the protocol (`inputs[X].datatype`). Names are left to the model.
absl::StatusOr<std::vector<NamedTensor>> DecodeInputs(const inference::ModelInferRequest& request);

}  // namespace rnnserve::kserve
