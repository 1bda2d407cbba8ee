// SPDX-License-Identifier: Apache-2.0
// Tensors of the Open Inference Protocol <-> those of the core.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"
#include "server/core/call.h"

namespace rnnserve::kserve {

// "FP32", "INT64", ... as the protocol calls a type.
std::string_view TypeText(DataType type);

// Views of the request's inputs, which must stay as they are. Refuses types, ranks, shapes and counts that do not fit,
// by the field paths of the protocol (`inputs[X].datatype`). Names are left to the model.
absl::StatusOr<std::vector<NamedTensor>> DecodeInputs(const inference::ModelInferRequest& request);

}  // namespace rnnserve::kserve
