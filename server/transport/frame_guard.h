// SPDX-License-Identifier: Apache-2.0
// Follows the HTTP/2 frames that a peer sends and tells when to close the connection. gRPC 1.51 enforces its limits of
// streams and headers only once the peer has acknowledged them: a peer that never does may open streams and send
// headers until the memory is gone. gRPC has no limit at all for resets and for frames that change nothing.
//
//   FrameGuard guard(SteadyNow());
//   if (const char* why = guard.Inspect(bytes, SteadyNow())) Close(why);
//
// Bytes come as the peer sent them, in pieces of any size, after TLS if there is any. Payloads are skipped, so a call
// costs a few instructions a frame. Not thread-safe: a connection has one reader.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/time/time.h"

namespace rnnserve {

class FrameGuard {
 public:
  // Maximum bytes of a header block; gRPC takes 8 KiB of headers.
  static constexpr int64_t kMaxBlockBytes = 64 << 10;
  static constexpr int64_t kMaxContinuations = 16;
  // Streams, and bytes of their headers, before the peer has acknowledged the server's settings; an honest peer needs a
  // round trip for that. Proxies begin with up to 100 streams.
  static constexpr int64_t kMaxEarlyStreams = 128;
  static constexpr int64_t kMaxEarlyHeaderBytes = 64 << 10;
  // A peer that has acknowledged the same settings before gRPC sent them (Http2ServerGreeting) keeps to them, but gRPC
  // does not enforce them yet: twice the streams they promise, each with half of the headers that gRPC takes.
  static constexpr int64_t kPromisedTimes = 2;
  static constexpr int64_t kPromisedHeaderBytes = 4 << 10;

  // `max_streams`: what the server's settings promise. `is_answered`: the peer has had Http2ServerGreeting.
  explicit FrameGuard(absl::Time now, int64_t max_streams = 1024, bool is_answered = false)
      : max_streams_(max_streams),
        hides_acknowledgement_(is_answered),
        resets_{4096, 10'000, now},
        settings_{1000, 1000, now},
        idle_{1024, 100, now} {}

  // Null while the peer may go on; else why not, from then on. `settings_sent`: whether gRPC's own settings had left
  // before these bytes came; gRPC takes an earlier acknowledgement as one of no limits. The peer's acknowledgement of
  // the greeting becomes a frame that gRPC ignores: gRPC would take it for that of its own settings, each later one for
  // that of the settings after, and hold the peer to windows that it does not know yet. So a peer has to acknowledge
  // both. Pieces of one read are inspected one after the other, up to EndRead.
  const char* Inspect(std::span<uint8_t> bytes, absl::Time now, bool settings_sent = true);
  void EndRead() { type_ = nullptr; }
  bool acknowledged() const { return acknowledged_; }
  // Whether Inspect may change a byte.
  bool hides_acknowledgement() const { return hides_acknowledgement_; }

 private:
  // Token bucket: burst and rate.
  struct TokenBucket {
    double burst;
    double per_second;
    absl::Time at;
    double left = burst;

    bool Take(absl::Time now);
  };

  const char* Begin(absl::Time now, bool settings_sent);  // a frame whose header is in header_
  void Acknowledge(bool settings_sent);
  const char* Headers(int64_t bytes, bool is_end);

  int64_t max_streams_;
  bool hides_acknowledgement_;  // the next one
  bool was_seen_ = false;       // by gRPC, the one that was to be hidden
  TokenBucket resets_;
  TokenBucket settings_;
  TokenBucket idle_;  // frames that change nothing
  const char* why_ = nullptr;
  bool is_http2_ = true;
  bool acknowledged_ = false;
  int64_t most_early_streams_ = kMaxEarlyStreams;
  int64_t most_early_header_bytes_ = kMaxEarlyHeaderBytes;
  size_t greeted_ = 0;  // bytes of the preface that have come
  std::array<uint8_t, 9> header_ = {};
  size_t header_bytes_ = 0;
  uint8_t* type_ = nullptr;  // of the header, where it has come with this read and may be changed
  size_t payload_left_ = 0;
  int64_t block_bytes_ = 0;
  int64_t continuations_ = 0;
  int64_t early_streams_ = 0;
  int64_t early_header_bytes_ = 0;
};

}  // namespace rnnserve
