// SPDX-License-Identifier: Apache-2.0
// Which cells oneDNN's recurrent primitives compute as ONNX and OpenVINO define them. Values that merely come out the
// same (a HardSigmoid with a Sigmoid's parameters, a peephole of zeros) are not looked for.
#pragma once

#include "absl/status/status.h"
#include "engine/engine.h"

namespace rnnserve::onednn {

// OK, or UNIMPLEMENTED with the first reason, a sentence in the words of the operator's attributes.
absl::Status CheckCell(const CellSpec& cell, const EngineOptions& options, bool cpu_multiplies_bfloat16);

}  // namespace rnnserve::onednn
