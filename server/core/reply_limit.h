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

// Memory that a run will take besides the message, with the above and what lies between the layers.
int64_t RunBytes(const StackSpec& stack, const RunPlan& plan);

struct SizeLimits {
  int64_t sequences, tensor_elements, steps, reply_bytes, bytes_between;
};
// LIMIT_EXCEEDED, naming the field and what to leave out or how to split.
absl::Status CheckSize(const StackSpec& stack, const RunPlan& plan, const SizeLimits& limits);

}  // namespace rnnserve
