// SPDX-License-Identifier: Apache-2.0
// Two bytes of a message can say "one more empty tensor" and cost a hundred bytes of memory once parsed, and one byte
// of a packed list is an integer of eight. This counts both before anything is allocated for them.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstdint>

#include "absl/status/status.h"

namespace rnnserve {

// Sub-messages, strings, single values and unknown fields of one request; honest ones have a few dozen.
inline constexpr int kMaxMessageParts = 16384;

// Bytes of packed integers, and integers that are not packed; honest requests have a length for each row.
inline constexpr int64_t kMaxMessageIntegers = 8 << 20;

// INVALID_ARGUMENT with reason LIMIT_EXCEEDED if the bytes hold more of either than that. OK for bytes that are no
// message at all: the parser finds that out.
absl::Status CheckParts(google::protobuf::io::ZeroCopyInputStream& bytes, const google::protobuf::Descriptor& type);

}  // namespace rnnserve
