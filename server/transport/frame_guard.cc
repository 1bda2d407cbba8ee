// SPDX-License-Identifier: Apache-2.0
#include "server/transport/frame_guard.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace rnnserve {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr uint8_t kEndStream = 0x1;  // of DATA
constexpr uint8_t kAcknowledges = 0x1;
constexpr uint8_t kEndHeaders = 0x4;

// RFC 9113, section 6.
enum Type : uint8_t { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoAway, kWindow, kContinuation };
constexpr size_t kTypeAt = 3;
constexpr uint8_t kIgnored = 0xf5;  // no type: receivers ignore such frames (section 5.5)

}  // namespace

bool FrameGuard::TokenBucket::Take(absl::Time now) {
  left = std::min(burst, left + std::max(absl::ToDoubleSeconds(now - at), 0.0) * per_second);
  at = now;
  if (left < 1) return false;
  left -= 1;
  return true;
}

const char* FrameGuard::Inspect(std::span<uint8_t> bytes, absl::Time now, bool settings_sent) {
  while (why_ == nullptr && is_http2_ && !bytes.empty()) {
    size_t used = 1;
    if (greeted_ < kPreface.size()) {
      // gRPC refuses a peer that speaks another protocol.
      is_http2_ = bytes[0] == static_cast<uint8_t>(kPreface[greeted_++]);
    } else if (payload_left_ > 0) {
      used = std::min(payload_left_, bytes.size());
      payload_left_ -= used;
    } else {
      used = std::min(header_.size() - header_bytes_, bytes.size());
      std::copy_n(bytes.begin(), used, header_.begin() + static_cast<std::ptrdiff_t>(header_bytes_));
      if (hides_acknowledgement_ && header_bytes_ <= kTypeAt && header_bytes_ + used > kTypeAt) {
        type_ = &bytes[kTypeAt - header_bytes_];
      }
      header_bytes_ += used;
      if (header_bytes_ == header_.size()) {
        header_bytes_ = 0;
        why_ = Begin(now, settings_sent);
      }
    }
    bytes = bytes.subspan(used);
  }
  return why_;
}

const char* FrameGuard::Begin(absl::Time now, bool settings_sent) {
  const size_t length = size_t{header_[0]} << 16 | size_t{header_[1]} << 8 | header_[2];
  const uint8_t flags = header_[4];
  payload_left_ = length;
  switch (header_[3]) {
    case kHeaders:
      block_bytes_ = 0;
      continuations_ = 0;
      if (!acknowledged_ && ++early_streams_ > most_early_streams_) {
        return "too many streams before it acknowledged the server's settings";
      }
      return Headers(static_cast<int64_t>(length), (flags & kEndHeaders) != 0);
    case kContinuation:
      if (++continuations_ > kMaxContinuations) return "headers in too many pieces";
      return Headers(static_cast<int64_t>(length), (flags & kEndHeaders) != 0);
    case kReset:
      return resets_.Take(now) ? nullptr : "too many streams reset";
    case kSettings:
      if ((flags & kAcknowledges) != 0) {
        Acknowledge(settings_sent);
        most_early_streams_ = std::max(max_streams_ * kPromisedTimes, kMaxEarlyStreams);
        most_early_header_bytes_ = std::max(most_early_streams_ * kPromisedHeaderBytes, kMaxEarlyHeaderBytes);
      }
      return settings_.Take(now) ? nullptr : "too many settings";
    case kData:
      if (length > 0 || (flags & kEndStream) != 0) return nullptr;
      break;
    case kPing:    // gRPC counts these itself
    case kWindow:  // one for each message that was read
      return nullptr;
    default:
      break;
  }
  return idle_.Take(now) ? nullptr : "too many frames that change nothing";
}

void FrameGuard::Acknowledge(bool settings_sent) {
  // gRPC closes connections for one of any other form.
  constexpr std::array<uint8_t, 9> kForm = {0, 0, 0, kSettings, kAcknowledges};
  if (!hides_acknowledgement_ || header_ != kForm) {
    acknowledged_ = acknowledged_ || settings_sent;
    return;
  }
  // Where an earlier read has brought gRPC its type, gRPC takes it for that of its own settings, if these have left:
  // then the one of these is hidden.
  if (type_ == nullptr && settings_sent && !std::exchange(was_seen_, true)) return;
  if (type_ != nullptr) *type_ = kIgnored;
  acknowledged_ = acknowledged_ || was_seen_;
  hides_acknowledgement_ = false;
}

const char* FrameGuard::Headers(int64_t bytes, bool is_end) {
  block_bytes_ += bytes;
  if (!acknowledged_) early_header_bytes_ += bytes;
  if (block_bytes_ > kMaxBlockBytes || early_header_bytes_ > most_early_header_bytes_)
    return "too many bytes of headers";
  if (is_end) block_bytes_ = continuations_ = 0;
  return nullptr;
}

}  // namespace rnnserve
