// SPDX-License-Identifier: Apache-2.0
// Messages of rnnserve.v1.Models <-> those of the core.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rnnserve/v1/models.pb.h"
#include "server/core/core.h"

namespace rnnserve {

// One Models.Load call. Tensor views point into the request (tensor_codec.h).
struct LoadCall {
  std::string name;
  int64_t version = 1;
  std::optional<OperatorDef> op;  // absent: from the repository
  std::vector<NamedTensor> weights;
  OptionalOptions options;
  std::string engine;
};

absl::StatusOr<LoadCall> DecodeLoad(const v1::LoadRequest& request);

// Errors of engine/op speak of `operator` and `inputs[...]`; in a LoadRequest those are `inline.operator` and
// `inline.weights[...]`.
absl::Status InLoadRequest(const absl::Status& status);

// `packed_bytes`: of its cells, in all engines.
void EncodeModelInfo(const LoadedModel& loaded, int64_t packed_bytes, v1::ModelInfo& info);

}  // namespace rnnserve
