// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/op/file_names.h"
#include "onnx_file/lowering.h"

namespace rnnserve {

// The file's names for the tensors of its layers; null where it does more than to move axes, or moves them as no layer
// can write: then its pipeline does it. The layers are a chain; `pipeline` was made of `lowered`.
FileNamesPtr MakeFileNames(Lowering& lowered, const Pipeline& pipeline);

}  // namespace rnnserve
