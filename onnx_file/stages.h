// SPDX-License-Identifier: Apache-2.0
// What a server runs of a whole model, stage by stage: maps and layers in their order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onnx_file/inspect.h"

namespace rnnserve {

struct Stage {
  std::string
      kind;  // "map", "layer"; "row": a map that runs once a row, when its steps are over; "record": before them
  std::string what;       // "Product 128x10000 + bias, Softmax"; "LSTM-14 128 to 256, bidirectional"
  int64_t bytes = 0;      // of weights, tables and constants; of a layer, its W and R
  int64_t step_work = 0;  // multiplications of one step of one row, roughly: what the scheduler goes by
};

// Empty: the file does not load, or is layers alone.
std::vector<Stage> StagesOf(const OnnxInspection& file);

}  // namespace rnnserve
