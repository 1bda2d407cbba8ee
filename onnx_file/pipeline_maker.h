// SPDX-License-Identifier: Apache-2.0
// A lowered graph as a pipeline: its flows parted into maps before, between and after the layers.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/map/pipeline.h"
#include "onnx_file/lowering.h"

namespace rnnserve {

// Whether requests and replies can carry a tensor of that name.
bool IsTensorName(const std::string& name);

absl::StatusOr<PipelinePtr> MakePipeline(Lowering& lowered, DataType data_type);

}  // namespace rnnserve
