// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/net/greeting.h"

#include <algorithm>
#include <string_view>

namespace rnnserve {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kFrameHeaderBytes = 9;
constexpr size_t kMaxFrameBytes = 16384;  // until the server allows more
constexpr uint8_t kSettings = 4;
static_assert(kPreface.size() + kFrameHeaderBytes == kGreetingHeadBytes);

constexpr size_t kRecordHeaderBytes = 5;
constexpr size_t kMaxRecordBytes = 16384;
constexpr uint8_t kHandshake = 22;
constexpr uint8_t kMajorVersion = 3;  // of all from SSL 3.0 to TLS 1.3

}  // namespace

Greeting LookAtHttp2Greeting(std::span<const uint8_t> head, size_t come) {
  const size_t known = std::min(head.size(), kPreface.size());
  const bool is_preface =
      std::equal(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(known), kPreface.begin(),
                 [](uint8_t byte, char expected) { return byte == static_cast<uint8_t>(expected); });
  if (!is_preface) return Greeting::kWrong;
  if (head.size() < kGreetingHeadBytes) return Greeting::kNotYet;
  const std::span<const uint8_t> frame = head.subspan(kPreface.size());
  const size_t length = size_t{frame[0]} << 16 | size_t{frame[1]} << 8 | frame[2];
  if (frame[3] != kSettings || length > kMaxFrameBytes) return Greeting::kWrong;
  return come < kGreetingHeadBytes + length ? Greeting::kNotYet : Greeting::kComplete;
}

Greeting LookAtTlsGreeting(std::span<const uint8_t> head, size_t come) {
  if (!head.empty() && head[0] != kHandshake) return Greeting::kWrong;
  if (head.size() > 1 && head[1] != kMajorVersion) return Greeting::kWrong;
  if (head.size() < kRecordHeaderBytes) return Greeting::kNotYet;
  const size_t length = size_t{head[3]} << 8 | head[4];
  if (length == 0 || length > kMaxRecordBytes) return Greeting::kWrong;
  return come < kRecordHeaderBytes + length ? Greeting::kNotYet : Greeting::kComplete;
}

}  // namespace rnnserve
