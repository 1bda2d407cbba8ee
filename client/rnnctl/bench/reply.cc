// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/reply.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <string>

#include "rnnserve/v1/recurrent.pb.h"

namespace rnnserve::rnnctl::bench {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr uint32_t kQueueTag = v1::InferResponse::kQueueTimeFieldNumber << 3 | 2;
constexpr uint32_t kComputeTag = v1::InferResponse::kComputeTimeFieldNumber << 3 | 2;
constexpr uint32_t kBatchTag = v1::InferResponse::kLargestBatchFieldNumber << 3;
constexpr uint32_t kMaxDurationBytes = 64;      // two numbers
constexpr int64_t kMaxSeconds = 1'000'000'000;  // keeps the sum in range whatever came

bool ReadDuration(CodedInputStream& in, std::chrono::nanoseconds& duration) {
  uint32_t length = 0;
  std::string bytes;
  google::protobuf::Duration told;
  if (!in.ReadVarint32(&length) || length > kMaxDurationBytes) return false;
  if (!in.ReadString(&bytes, static_cast<int>(length)) || !told.ParseFromString(bytes)) return false;
  if (told.seconds() < 0 || told.seconds() > kMaxSeconds) return false;
  if (told.nanos() < 0 || told.nanos() >= 1'000'000'000) return false;
  duration = std::chrono::seconds(told.seconds()) + std::chrono::nanoseconds(told.nanos());
  return true;
}

}  // namespace

bool ReadTimes(google::protobuf::io::ZeroCopyInputStream& bytes, Answer& answer) {
  CodedInputStream in(&bytes);
  while (const uint32_t tag = in.ReadTag()) {
    bool read = false;
    if (tag == kQueueTag) {
      read = ReadDuration(in, answer.queue);
    } else if (tag == kComputeTag) {
      read = ReadDuration(in, answer.compute);
      answer.has_server_times = read;
    } else if (tag == kBatchTag) {
      uint64_t batch = 0;
      read = in.ReadVarint64(&batch);
      answer.largest_batch = static_cast<int64_t>(batch);
    } else {
      read = WireFormatLite::SkipField(&in, tag);
    }
    if (!read) return false;
  }
  return in.ConsumedEntireMessage();
}

}  // namespace rnnserve::rnnctl::bench
