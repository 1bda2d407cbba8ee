// SPDX-License-Identifier: Apache-2.0
#include "server/transport/greeting.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace rnnserve {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kFrameHeaderBytes = 9;
constexpr size_t kMaxFrameBytes = 16384;  // until the server allows more
constexpr uint8_t kAcknowledges = 0x1;
constexpr uint8_t kEndHeaders = 0x4;
static_assert(kPreface.size() + kFrameHeaderBytes <= kGreetingHeadBytes);

// RFC 9113, section 6.
enum Type : uint8_t { kHeaders = 1, kPriority = 2, kSettings = 4, kWindow = 8, kContinuation = 9 };
// Section 6.5.2, and gRPC's own.
enum SettingId : uint16_t {
  kMaxConcurrentStreams = 3,
  kInitialWindowSize = 4,
  kMaxHeaderListSize = 6,
  kAllowTrueBinaryMetadata = 65027
};

constexpr size_t kRecordHeaderBytes = 5;
constexpr size_t kMaxRecordBytes = 16384;
constexpr uint8_t kHandshake = 22;
constexpr uint8_t kMajorVersion = 3;  // of all from SSL 3.0 to TLS 1.3

}  // namespace

Greeting ParseHttp2Greeting(std::span<const uint8_t> head, size_t come) {
  const size_t known = std::min(head.size(), kPreface.size());
  const bool is_preface =
      std::equal(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(known), kPreface.begin(),
                 [](uint8_t byte, char expected) { return byte == static_cast<uint8_t>(expected); });
  if (!is_preface) return Greeting::kWrong;
  Greeting so_far = Greeting::kNotYet;
  bool is_in_headers = false;
  for (size_t at = kPreface.size();;) {  // of a frame
    if (come < at + kFrameHeaderBytes) return so_far;
    if (head.size() < at + kFrameHeaderBytes) return Greeting::kElse;  // beyond the bytes that are looked at
    const std::span<const uint8_t> frame = head.subspan(at);
    const size_t length = size_t{frame[0]} << 16 | size_t{frame[1]} << 8 | frame[2];
    const uint8_t type = frame[3], flags = frame[4];
    const bool has_greeted = so_far != Greeting::kNotYet;
    if (!has_greeted && (type != kSettings || length > kMaxFrameBytes)) return Greeting::kWrong;
    if (is_in_headers || type == kHeaders) {
      is_in_headers = true;
      if (type != kHeaders && type != kContinuation) return Greeting::kElse;
    } else if (has_greeted && type != kWindow && type != kPriority &&
               !(type == kSettings && (flags & kAcknowledges) != 0)) {
      so_far = Greeting::kElse;  // a call may follow all the same: pings keep idle connections alive
    }
    at += kFrameHeaderBytes + length;
    if (come < at) return so_far;
    if (is_in_headers && (flags & kEndHeaders) != 0) return Greeting::kCalls;
    if (!has_greeted) so_far = Greeting::kComplete;
  }
}

Greeting ParseTlsGreeting(std::span<const uint8_t> head, size_t come) {
  if (!head.empty() && head[0] != kHandshake) return Greeting::kWrong;
  if (head.size() > 1 && head[1] != kMajorVersion) return Greeting::kWrong;
  if (head.size() < kRecordHeaderBytes) return Greeting::kNotYet;
  const size_t length = size_t{head[3]} << 8 | head[4];
  if (length == 0 || length > kMaxRecordBytes) return Greeting::kWrong;
  return come < kRecordHeaderBytes + length ? Greeting::kNotYet : Greeting::kCalls;
}

std::string Http2ServerGreeting(uint32_t max_concurrent_streams) {
  struct Setting {
    uint16_t id;
    uint32_t value;
  };
  const Setting settings[] = {{kMaxConcurrentStreams, max_concurrent_streams},
                              {kInitialWindowSize, 65535},
                              {kMaxHeaderListSize, 8192},
                              {kAllowTrueBinaryMetadata, 1}};
  std::string frame;
  const auto put = [&frame](uint32_t value, int bytes) {
    while (bytes-- > 0) frame.push_back(static_cast<char>(value >> 8 * bytes));
  };
  put(6 * std::size(settings), 3);
  put(Type::kSettings, 1);
  put(0, 1);  // no flags
  put(0, 4);  // of the connection
  for (const Setting& setting : settings) {
    put(setting.id, 2);
    put(setting.value, 4);
  }
  return frame;
}

}  // namespace rnnserve
