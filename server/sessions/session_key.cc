// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/session_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"

namespace rnnserve {
namespace {

constexpr char kMagic[2] = {'r', '1'};
constexpr size_t kBootBytes = 8;
constexpr size_t kIdBytes = 16;
constexpr size_t kMacBytes = 16;
// A multiple of three, so that base64 has one form only.
constexpr size_t kKeyBytes = sizeof kMagic + kBootBytes + kIdBytes + kMacBytes;
static_assert(kKeyBytes % 3 == 0);
constexpr size_t kTextBytes = kKeyBytes / 3 * 4;
constexpr size_t kSecretBytes = 32;

// The value of each letter of URL-safe base64; of all others -1.
constexpr std::array<int8_t, 256> kLetterValues = [] {
  std::array<int8_t, 256> values;
  values.fill(-1);
  int8_t value = 0;
  for (const char letter : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")) {
    values[static_cast<uint8_t>(letter)] = value++;
  }
  return values;
}();

// The inverse of absl::WebSafeBase64Escape for keys, without memory of its own: each operation names a key.
bool Decode(std::string_view text, std::array<char, kKeyBytes>& bytes) {
  if (text.size() != kTextBytes) return false;
  for (size_t group = 0; group < kKeyBytes / 3; ++group) {
    int32_t bits = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int8_t value = kLetterValues[static_cast<uint8_t>(text[4 * group + k])];
      if (value < 0) return false;
      bits = bits << 6 | value;
    }
    for (size_t k = 0; k < 3; ++k) bytes[3 * group + k] = static_cast<char>(bits >> (16 - 8 * k) & 0xFF);
  }
  return true;
}

// A server that cannot draw random numbers must not give out keys.
void DrawRandom(void* out, size_t bytes) {
  if (RAND_bytes(static_cast<unsigned char*>(out), static_cast<int>(bytes)) != 1) std::abort();
}

}  // namespace

SessionKeys::SessionKeys(Options options)
    : shared_secret_(!options.secret.empty()), secret_(std::move(options.secret)), boot_(options.boot) {
  if (!shared_secret_) {
    secret_.resize(kSecretBytes);
    DrawRandom(secret_.data(), secret_.size());
  }
  while (boot_ == 0) DrawRandom(&boot_, sizeof boot_);
}

SessionKeys::Key SessionKeys::Make(std::string_view tenant) const {
  Key key;
  DrawRandom(key.id.bytes.data(), key.id.bytes.size());
  key.mac = Mac(boot_, key.id, tenant);
  return key;
}

std::string SessionKeys::Text(const Key& key) const {
  std::string bytes(kMagic, sizeof kMagic);
  bytes.append(reinterpret_cast<const char*>(&boot_), kBootBytes);
  bytes.append(reinterpret_cast<const char*>(key.id.bytes.data()), kIdBytes);
  bytes.append(reinterpret_cast<const char*>(key.mac.data()), kMacBytes);
  return absl::WebSafeBase64Escape(bytes);
}

SessionKeys::Judgement SessionKeys::Judge(std::string_view text, std::string_view tenant) const {
  std::array<char, kKeyBytes> bytes;
  if (!Decode(text, bytes) || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) return {};
  uint64_t boot = 0;
  Judgement judgement;
  const char* at = bytes.data() + sizeof kMagic;
  std::memcpy(&boot, at, kBootBytes);
  std::memcpy(judgement.key.id.bytes.data(), at + kBootBytes, kIdBytes);
  std::memcpy(judgement.key.mac.data(), at + kBootBytes + kIdBytes, kMacBytes);
  if (boot == boot_) {
    judgement.kind = Kind::kOurs;
  } else if (!shared_secret_ || Matches(judgement.key.mac, Mac(boot, judgement.key.id, tenant))) {
    // Without the other boot's secret nobody can say more; every such key is answered alike, whoever asks.
    judgement.kind = Kind::kOtherBoot;
  }
  return judgement;
}

bool SessionKeys::Verify(const Key& key, std::string_view tenant) const {
  return Matches(key.mac, Mac(boot_, key.id, tenant));
}

bool SessionKeys::Matches(const SessionMac& a, const SessionMac& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

SessionMac SessionKeys::Mac(uint64_t boot, const SessionId& id, std::string_view tenant) const {
  std::string message(kMagic, sizeof kMagic);
  message.append(reinterpret_cast<const char*>(&boot), kBootBytes);
  message.append(reinterpret_cast<const char*>(id.bytes.data()), kIdBytes);
  message.append(tenant);
  unsigned char whole[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), whole, &length) == nullptr) {
    std::abort();  // out of memory
  }
  SessionMac mac;
  std::memcpy(mac.data(), whole, mac.size());
  return mac;
}

}  // namespace rnnserve
