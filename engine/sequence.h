// SPDX-License-Identifier: Apache-2.0
// A sequence: one row of one request in one direction, as engines see it. Versions, layouts, directions, lengths and
// dialects have all ended before this point (docs/architecture.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace rnnserve {

// h (and c) of one sequence. Each program makes, imports and exports its own kind; only that program looks inside.
class State {
 public:
  virtual ~State() = default;
  // Why this state cannot be gone on from, or why its last export wrote nothing of use: making, importing or exporting
  // it failed. OK on engines whose states are plain memory.
  virtual absl::Status failure() const { return absl::OkStatus(); }
};

// `steps` steps of one sequence through one program's cell.
struct SequenceSlice {
  // Input of the first step: I contiguous elements of the cell's data type, not necessarily aligned.
  const std::byte* x = nullptr;
  // From one step's input to the next, in bytes; negative for reverse.
  std::ptrdiff_t x_stride = 0;
  // Where h of the first step goes: H contiguous elements of the cell's data type. Null: not wanted.
  std::byte* y = nullptr;
  std::ptrdiff_t y_stride = 0;
  // At least 1.
  int64_t steps = 0;
  // State before the first step; never changed. Null: zeros.
  const State* before = nullptr;
  // State after the last step. May be the same object as `before`. Never null.
  State* after = nullptr;
};

}  // namespace rnnserve
