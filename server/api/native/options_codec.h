// SPDX-License-Identifier: Apache-2.0
// rnnserve.v1.Options <-> those of the core.
#pragma once

#include "absl/status/statusor.h"
#include "rnnserve/v1/tensor.pb.h"
#include "server/models/model_options.h"

namespace rnnserve {

absl::StatusOr<OptionalOptions> DecodeOptions(const v1::Options& message);
void EncodeOptions(const OptionalOptions& options, v1::Options& message);

}  // namespace rnnserve
