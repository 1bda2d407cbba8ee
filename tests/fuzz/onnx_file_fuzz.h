// SPDX-License-Identifier: Apache-2.0
// What the fuzzer does with one ONNX file: loads it, inspects it, extracts what can be extracted, splits it, and holds
// the readers to each other. Ends the process where they disagree.
#pragma once

#include <string_view>

namespace rnnserve {

void FuzzOnnxFile(std::string_view bytes);

}  // namespace rnnserve
