// SPDX-License-Identifier: Apache-2.0
// Stream messages of plain chunks, read without message objects: what a gateway sends, thousands of times a second. A
// plain chunk has one input with raw data, the session's own outputs and no time limit, and nothing is wrong with it.
// All else is for the generated classes, so both give the same OperationCall (plain_chunks_fuzz).
//
//   PlainChunks chunks;
//   if (ReadPlainChunks(bytes, chunks)) ...   // views into `bytes`; else parse them as a v1::StreamRequest
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "engine/tensor.h"
#include "server/api/native/reply_bytes.h"
#include "server/sessions/execution/session_operation.h"

namespace rnnserve {

struct PlainChunk {
  std::string_view request_id;
  std::string_view session;
  std::optional<uint64_t> number;
  std::optional<uint64_t> owner_epoch;
  int32_t priority = 0;
  std::string_view input;
  TensorView tensor;
};
using PlainChunks = absl::InlinedVector<PlainChunk, 1>;

// False: not all operations are plain chunks, or `bytes` are no StreamRequest; then `chunks` says nothing.
bool ReadPlainChunks(std::string_view bytes, PlainChunks& chunks);

OperationCall CallOf(const PlainChunk& chunk, const OperationSender& sender);
OperationHead HeadOf(const PlainChunk& chunk);

}  // namespace rnnserve
