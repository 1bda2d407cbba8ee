// SPDX-License-Identifier: Apache-2.0
// How a connection begins, from its first bytes: HTTP/2's preface with the first SETTINGS frame (RFC 9113,
// section 3.4) and whether a call follows, or the first record of a TLS handshake, which holds the ClientHello. Clients
// send a greeting without waiting for anything; most wait for the server's before they call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rnnserve {

enum class Greeting {
  kNotYet,
  kComplete,  // and nothing else that needs an answer than the greeting
  kCalls,     // the headers of a call are complete; of TLS: the handshake has to go on
  kElse,      // complete, with frames that gRPC must answer (a ping); a call may follow
  kWrong
};

// Bytes that are looked at.
inline constexpr size_t kGreetingHeadBytes = 512;

// `head`: the first bytes that have come, kGreetingHeadBytes of them or all if there are fewer; `come`: how many have.
Greeting ParseHttp2Greeting(std::span<const uint8_t> head, size_t come);
Greeting ParseTlsGreeting(std::span<const uint8_t> head, size_t come);

// The SETTINGS frame that gRPC 1.51 begins with, byte for byte where windows do not adapt. A peer gets both, and
// FrameGuard hides its acknowledgement of this one from gRPC.
std::string Http2ServerGreeting(uint32_t max_concurrent_streams);

}  // namespace rnnserve
