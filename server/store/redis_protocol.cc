// SPDX-License-Identifier: Apache-2.0
#include "server/store/redis_protocol.h"

#include <new>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

// Elements of an array in a reply; the largest one asked for is the slots of a cluster.
constexpr long long kMostElements = 65'536;

decltype(redisReplyObjectFunctions::createArray) hiredis_array = nullptr;

// Before it has the elements, hiredis allocates room for as many as the reply announces.
redisReplyObjectFunctions WithBoundedArrays(const redisReplyObjectFunctions& functions) {
  redisReplyObjectFunctions bounded = functions;
  hiredis_array = functions.createArray;
  bounded.createArray = [](const redisReadTask* task, auto elements) -> void* {  // an int, later a size_t
    return static_cast<long long>(elements) > kMostElements ? nullptr : hiredis_array(task, elements);
  };
  return bounded;
}

}  // namespace

std::string_view ReplyText(const redisReply& reply) {
  const bool has_text =
      reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS || reply.type == REDIS_REPLY_ERROR;
  return has_text && reply.str != nullptr ? std::string_view(reply.str, static_cast<size_t>(reply.len))
                                          : std::string_view();
}

void AppendCommand(std::span<const std::string_view> words, std::string& out) {
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
  for (const std::string_view word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* formatted = nullptr;
  const auto size = redisFormatCommandArgv(&formatted, static_cast<int>(words.size()), texts.data(), sizes.data());
  if (size < 0) throw std::bad_alloc();
  const std::unique_ptr<char, decltype(&redisFreeCommand)> owned(formatted, redisFreeCommand);
  out.append(formatted, static_cast<size_t>(size));
}

ReplyReader::ReplyReader(size_t most_bytes) : most_bytes_(most_bytes), reader_(redisReaderCreate()) {
  if (reader_ == nullptr) throw std::bad_alloc();
  static const redisReplyObjectFunctions functions = WithBoundedArrays(*reader_->fn);
  functions_ = functions;
  reader_->fn = &functions_;
}

void ReplyReader::Feed(std::string_view bytes) {
  fed_ += bytes.size();
  redisReaderFeed(reader_.get(), bytes.data(), bytes.size());  // an error shows in Next
}

absl::StatusOr<RedisReply> ReplyReader::Next() {
  void* reply = nullptr;
  if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) {
    return absl::InternalError(absl::StrCat("its answer is not RESP: ", reader_->errstr));
  }
  if (reply != nullptr) {
    fed_ = 0;
  } else if (fed_ > most_bytes_) {
    return absl::InternalError(absl::StrCat("its answer has more than ", most_bytes_, " bytes"));
  }
  return RedisReply(static_cast<redisReply*>(reply));
}

}  // namespace rnnserve
