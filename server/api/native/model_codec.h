// SPDX-License-Identifier: Apache-2.0
// Messages of rnnserve.v1.Models <-> those of the core.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "rnnserve/v1/models.pb.h"
#include "server/core/call.h"

namespace rnnserve {

// An operator with its weights.
struct InlineLayer {
  OperatorDef op;
  std::vector<NamedTensor> weights;
};

struct FromRepository {};

// One Models.Load call. Views point into the request (tensor_codec.h).
struct LoadCall {
  using File = std::shared_ptr<const std::string>;
  Upload upload;  // without a tenant
  std::variant<FromRepository, InlineLayer, std::vector<InlineLayer>, File> source;
};

absl::StatusOr<LoadCall> DecodeLoad(const v1::LoadRequest& request);
// Name, version, options and engine; field paths are of `begin`.
absl::StatusOr<Upload> DecodeUpload(const v1::UploadRequest::Begin& begin);

// `packed_bytes`: of its cells, in all engines.
void EncodeModelInfo(const LoadedModel& loaded, int64_t packed_bytes, v1::ModelInfo& info);

}  // namespace rnnserve
