// SPDX-License-Identifier: Apache-2.0
// What a run takes of memory, from shapes alone; and refusals of requests whose reply or bookkeeping would be too
// large.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/op/stack.h"

namespace rnnserve {

// Bytes of all outputs together; INT64_MAX if they are more.
int64_t ReplyBytes(const RunPlan& plan);

// Of the buffer that layer `layer` writes, which serves every second layer.
int64_t BufferBytes(const StackSpec& stack, const RunPlan& plan, size_t layer);

// Memory between the layers.
int64_t BetweenBytes(const StackSpec& stack, const RunPlan& plan);

// Memory that a run will take besides the message, with the above.
int64_t RunBytes(const StackSpec& stack, const RunPlan& plan);

// LIMIT_EXCEEDED on `outputs`, saying what each output takes and which one to leave out or how to split.
absl::Status CheckReplyBytes(const RunPlan& plan, int64_t max_bytes);

// LIMIT_EXCEEDED on `inputs[X].shape`: sequences of one layer.
absl::Status CheckSequences(const StackSpec& stack, const RunPlan& plan, int64_t max_sequences);

// LIMIT_EXCEEDED on `inputs[X].shape` or `outputs`: steps, and elements of one tensor.
absl::Status CheckShapes(const RunPlan& plan, int64_t max_elements, int64_t max_steps);

// LIMIT_EXCEEDED on `inputs[X].shape`: `bytes` between the layers.
absl::Status CheckBetween(int64_t bytes, int64_t max_bytes);

}  // namespace rnnserve
