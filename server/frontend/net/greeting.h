// SPDX-License-Identifier: Apache-2.0
// How a connection begins: HTTP/2's preface with the first SETTINGS frame (RFC 9113, section 3.4), or the first record
// of a TLS handshake, which holds the ClientHello. Clients send either without waiting for anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rnnserve {

enum class Greeting { kNotYet, kComplete, kWrong };

// So many bytes are enough to look at.
inline constexpr size_t kGreetingHeadBytes = 33;

// `head`: the first bytes that have come, kGreetingHeadBytes of them or all if there are fewer; `come`: how many have.
Greeting LookAtHttp2Greeting(std::span<const uint8_t> head, size_t come);
Greeting LookAtTlsGreeting(std::span<const uint8_t> head, size_t come);

}  // namespace rnnserve
