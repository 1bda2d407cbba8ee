// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/contract/session_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/view.h"

namespace rnnserve {
namespace {

constexpr char kMagic[2] = {'r', '2'};
constexpr size_t kBootBytes = 8;
constexpr size_t kIdBytes = 16;
constexpr size_t kMacBytes = 16;
constexpr size_t kHalf = kMacBytes / 2;  // the run's own, then the shared one
// A multiple of three, so that base64 has one form only.
constexpr size_t kKeyBytes = sizeof kMagic + kBootBytes + kIdBytes + kMacBytes;
static_assert(kKeyBytes % 3 == 0);
constexpr size_t kTextBytes = kKeyBytes / 3 * 4;
constexpr size_t kSecretBytes = 32;
// Where no secret is shared. Every rnnserve knows it.
constexpr char kNoSecret[] = "rnnserve session key";

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
  int32_t all = 0;
  for (size_t group = 0; group < kKeyBytes / 3; ++group) {
    int32_t bits = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int32_t value = kLetterValues[static_cast<uint8_t>(text[4 * group + k])];
      all |= value;
      bits = bits << 6 | value;
    }
    for (size_t k = 0; k < 3; ++k) bytes[3 * group + k] = static_cast<char>(bits >> (16 - 8 * k) & 0xFF);
  }
  return all >= 0;
}

// A server that cannot draw random numbers must not give out keys.
void DrawRandom(void* out, size_t bytes) {
  if (RAND_bytes(static_cast<unsigned char*>(out), static_cast<int>(bytes)) != 1) std::abort();
}

std::array<uint8_t, EVP_MAX_MD_SIZE> Hmac(const std::string& secret, const std::string& message) {
  std::array<uint8_t, EVP_MAX_MD_SIZE> whole;
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(), whole.data(), &length) == nullptr) {
    std::abort();  // out of memory
  }
  return whole;
}

using HalfMac = std::array<uint8_t, kHalf>;

// `own`: the run's own half, which the shared one covers, too; empty for itself.
HalfMac HalfOf(const std::string& secret, uint64_t boot, const SessionId& id, std::span<const uint8_t> own,
               std::string_view tenant) {
  std::string message(kMagic, sizeof kMagic);
  message.append(reinterpret_cast<const char*>(&boot), kBootBytes);
  message.append(reinterpret_cast<const char*>(id.bytes.data()), kIdBytes);
  message.append(reinterpret_cast<const char*>(own.data()), own.size());
  message.append(tenant);
  const std::array<uint8_t, EVP_MAX_MD_SIZE> whole = Hmac(secret, message);
  HalfMac half;
  std::copy_n(whole.begin(), half.size(), half.begin());
  return half;
}

// Told apart from the MACs of keys by its first byte, which is none of kMagic.
SessionId NamedId(const std::string& secret, std::string_view tenant, std::string_view name) {
  const std::string message = absl::StrCat("n", tenant.size(), ":", View(tenant), View(name));
  const std::array<uint8_t, EVP_MAX_MD_SIZE> whole = Hmac(secret, message);
  SessionId id;
  std::copy_n(whole.begin(), id.bytes.size(), id.bytes.begin());
  return id;
}

}  // namespace

SessionKeys::SessionKeys(Options options) : own_secret_(kSecretBytes, '\0'), boot_(options.boot) {
  SetSecrets(std::move(options.secrets));
  DrawRandom(own_secret_.data(), own_secret_.size());
  while (boot_ == 0) DrawRandom(&boot_, sizeof boot_);
}

SessionKeys::Key SessionKeys::Make(std::string_view tenant) const {
  SessionId id;
  DrawRandom(id.bytes.data(), id.bytes.size());
  return Sign(id, tenant, boot_);
}

// Its boot is drawn anew: a session that once had this name had another one, so that its key is told from this one.
SessionKeys::Key SessionKeys::MakeNamed(std::string_view tenant, std::string_view name) const {
  uint64_t boot = 0;
  while (boot == 0 || boot == boot_) DrawRandom(&boot, sizeof boot);
  return Sign(IdsOf(tenant, name).front(), tenant, boot);
}

std::vector<SessionId> SessionKeys::IdsOf(std::string_view tenant, std::string_view name) const {
  std::vector<SessionId> ids;
  for (const std::string& secret : secrets()) ids.push_back(NamedId(secret, tenant, name));
  return ids;
}

void SessionKeys::SetSecrets(Secrets secrets) {
  if (secrets.empty()) secrets.emplace_back(kNoSecret);
  const MutexLock lock(mutex_);
  shared_secrets_ = std::move(secrets);
}

SessionKeys::Secrets SessionKeys::secrets() const {
  const MutexLock lock(mutex_);
  return shared_secrets_;
}

std::string SessionKeys::Text(const Key& key) const {
  std::string bytes(kMagic, sizeof kMagic);
  bytes.append(reinterpret_cast<const char*>(&key.boot), kBootBytes);
  bytes.append(reinterpret_cast<const char*>(key.id.bytes.data()), kIdBytes);
  bytes.append(reinterpret_cast<const char*>(key.mac.data()), kMacBytes);
  return absl::WebSafeBase64Escape(bytes);
}

std::optional<SessionKeys::Key> SessionKeys::Parse(std::string_view text) {
  std::array<char, kKeyBytes> bytes;
  if (!Decode(text, bytes) || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) return std::nullopt;
  Key key;
  const char* at = bytes.data() + sizeof kMagic;
  std::memcpy(&key.boot, at, kBootBytes);
  std::memcpy(key.id.bytes.data(), at + kBootBytes, kIdBytes);
  std::memcpy(key.mac.data(), at + kBootBytes + kIdBytes, kMacBytes);
  return key;
}

SessionKeys::Classified SessionKeys::Classify(std::string_view text, std::string_view tenant) const {
  const std::optional<Key> key = Parse(text);
  if (!key) return {};
  Classified classified = {.kind = Kind::kOurs, .key = *key};
  if (key->boot == boot_) return classified;
  classified.kind = IsShared(*key, tenant) ? Kind::kOtherBoot : Kind::kUnknown;
  return classified;
}

bool SessionKeys::IsShared(const Key& key, std::string_view tenant) const {
  for (const std::string& secret : secrets()) {
    const HalfMac shared = HalfOf(secret, key.boot, key.id, {key.mac.data(), kHalf}, tenant);
    if (CRYPTO_memcmp(key.mac.data() + kHalf, shared.data(), kHalf) == 0) return true;
  }
  return false;
}

bool SessionKeys::Verify(const Key& key, std::string_view tenant) const {
  const HalfMac own = HalfOf(own_secret_, boot_, key.id, {}, tenant);
  return key.boot == boot_ && CRYPTO_memcmp(key.mac.data(), own.data(), kHalf) == 0 && IsShared(key, tenant);
}

bool SessionKeys::Matches(const SessionMac& a, const SessionMac& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

SessionKeys::Key SessionKeys::Sign(const SessionId& id, std::string_view tenant, uint64_t boot) const {
  const HalfMac own = HalfOf(own_secret_, boot, id, {}, tenant);
  const HalfMac shared = HalfOf(secrets().front(), boot, id, own, tenant);
  Key key = {.id = id, .boot = boot};
  std::ranges::copy(own, key.mac.begin());
  std::ranges::copy(shared, key.mac.begin() + kHalf);
  return key;
}

}  // namespace rnnserve
