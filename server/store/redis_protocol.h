// SPDX-License-Identifier: Apache-2.0
// RESP, by hiredis: commands as bytes, bytes as replies.
//
//   std::string out;
//   AppendCommand({"GET", "key"}, out);
//   reader.Feed(bytes);  while (true) { auto reply = reader.Next(); if (!reply.ok() || *reply == nullptr) break; ... }
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace rnnserve {

struct FreeRedisReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RedisReply = std::unique_ptr<redisReply, FreeRedisReply>;

// Of a string, a status or an error; else empty.
std::string_view ReplyText(const redisReply& reply);

void AppendCommand(std::span<const std::string_view> words, std::string& out);

// Bounds what a server that speaks nonsense makes us keep.
class ReplyReader {
 public:
  // `most_bytes` of one reply.
  explicit ReplyReader(size_t most_bytes);

  void Feed(std::string_view bytes);
  // The next reply; null: more bytes are needed. INTERNAL: this is no RESP, or too much of it; the connection is of no
  // use any more.
  absl::StatusOr<RedisReply> Next();

 private:
  struct FreeReader {
    void operator()(redisReader* reader) const { redisReaderFree(reader); }
  };

  const size_t most_bytes_;
  size_t fed_ = 0;  // since the last whole reply
  redisReplyObjectFunctions functions_;
  std::unique_ptr<redisReader, FreeReader> reader_;
};

}  // namespace rnnserve
