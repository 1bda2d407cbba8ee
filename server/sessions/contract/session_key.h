// SPDX-License-Identifier: Apache-2.0
// What names a session: 128 random bits, the run of the server that made it, and a MAC (session_keys.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rnnserve {

// The random part: what tables know a session by.
struct SessionId {
  std::array<uint8_t, 16> bytes = {};
  bool operator==(const SessionId&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const SessionId& id) {
    return H::combine(std::move(state), id.bytes);
  }
};

using SessionMac = std::array<uint8_t, 16>;

struct SessionKey {
  SessionId id;
  SessionMac mac = {};
  uint64_t boot = 0;  // of the run that made it
  bool operator==(const SessionKey&) const = default;
  // The key that a text says, unchecked. Nothing: no key of any server.
  static std::optional<SessionKey> Parse(std::string_view text);
  // 56 letters of URL-safe base64.
  std::string Text() const;
  // Compares MACs in constant time.
  bool Is(const SessionKey& other) const;
};

// The first bytes of each key.
inline constexpr char kSessionKeyMagic[2] = {'r', '2'};

}  // namespace rnnserve
