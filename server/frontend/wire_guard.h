// SPDX-License-Identifier: Apache-2.0
// Two bytes of a message can say "one more empty tensor" and cost a hundred bytes of memory once parsed. This counts
// the parts of a message before anything is allocated for them.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include "absl/status/status.h"

namespace rnnserve {

// Sub-messages, strings and unknown fields of one request; honest ones have a few dozen.
inline constexpr int kMaxMessageParts = 16384;

// INVALID_ARGUMENT with reason LIMIT_EXCEEDED if the bytes hold more parts than that. OK for bytes that are no message
// at all: the parser finds that out.
absl::Status CheckParts(google::protobuf::io::ZeroCopyInputStream& bytes, const google::protobuf::Descriptor& type);

}  // namespace rnnserve
