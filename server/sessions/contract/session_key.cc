// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/contract/session_key.h"

#include <openssl/crypto.h>

#include <cstring>

#include "absl/strings/escaping.h"

namespace rnnserve {
namespace {

constexpr size_t kBootBytes = 8;
constexpr size_t kIdBytes = 16;
constexpr size_t kMacBytes = 16;
// A multiple of three, so that base64 has one form only.
constexpr size_t kKeyBytes = sizeof kSessionKeyMagic + kBootBytes + kIdBytes + kMacBytes;
static_assert(kKeyBytes % 3 == 0);
constexpr size_t kTextBytes = kKeyBytes / 3 * 4;

// What a letter of URL-safe base64 says at each place of a group of four; kNoLetter for all others.
constexpr uint32_t kNoLetter = uint32_t{1} << 31;
constexpr auto kLetterBits = [] {
  std::array<std::array<uint32_t, 256>, 4> bits;
  for (auto& of_place : bits) of_place.fill(kNoLetter);
  uint32_t value = 0;
  for (const char letter : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")) {
    for (size_t k = 0; k < 4; ++k) bits[k][static_cast<uint8_t>(letter)] = value << (18 - 6 * k);
    ++value;
  }
  return bits;
}();

// The inverse of absl::WebSafeBase64Escape for keys, without memory of its own: each operation names a key.
bool Decode(std::string_view text, std::array<char, kKeyBytes>& bytes) {
  if (text.size() != kTextBytes) return false;
  uint32_t all = 0;
  for (size_t group = 0; group < kKeyBytes / 3; ++group) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 4; ++k) bits |= kLetterBits[k][static_cast<uint8_t>(text[4 * group + k])];
    all |= bits;
    for (size_t k = 0; k < 3; ++k) bytes[3 * group + k] = static_cast<char>(bits >> (16 - 8 * k));
  }
  return all < kNoLetter;
}

}  // namespace

std::string SessionKey::Text() const {
  std::string bytes(kSessionKeyMagic, sizeof kSessionKeyMagic);
  bytes.append(reinterpret_cast<const char*>(&boot), kBootBytes);
  bytes.append(reinterpret_cast<const char*>(id.bytes.data()), kIdBytes);
  bytes.append(reinterpret_cast<const char*>(mac.data()), kMacBytes);
  return absl::WebSafeBase64Escape(bytes);
}

std::optional<SessionKey> SessionKey::Parse(std::string_view text) {
  std::array<char, kKeyBytes> bytes;
  if (!Decode(text, bytes) || std::memcmp(bytes.data(), kSessionKeyMagic, sizeof kSessionKeyMagic) != 0)
    return std::nullopt;
  SessionKey key;
  const char* at = bytes.data() + sizeof kSessionKeyMagic;
  std::memcpy(&key.boot, at, kBootBytes);
  std::memcpy(key.id.bytes.data(), at + kBootBytes, kIdBytes);
  std::memcpy(key.mac.data(), at + kBootBytes + kIdBytes, kMacBytes);
  return key;
}

bool SessionKey::Is(const SessionKey& other) const {
  return boot == other.boot && id == other.id && CRYPTO_memcmp(mac.data(), other.mac.data(), mac.size()) == 0;
}

}  // namespace rnnserve
