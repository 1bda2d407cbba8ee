// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/contract/session_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"

namespace rnnserve {
namespace {

constexpr size_t kHalf = sizeof(SessionMac) / 2;  // the run's own, then the shared one
constexpr size_t kSecretBytes = 32;
// Where no secret is shared. Every rnnserve knows it.
constexpr char kNoSecret[] = "rnnserve session key";

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
  std::string message(kSessionKeyMagic, sizeof kSessionKeyMagic);
  message.append(reinterpret_cast<const char*>(&boot), sizeof boot);
  message.append(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
  message.append(reinterpret_cast<const char*>(own.data()), own.size());
  message.append(tenant);
  const std::array<uint8_t, EVP_MAX_MD_SIZE> whole = Hmac(secret, message);
  HalfMac half;
  std::copy_n(whole.begin(), half.size(), half.begin());
  return half;
}

// Told apart from the MACs of keys by its first byte, which is none of kSessionKeyMagic.
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

SessionKey SessionKeys::Make(std::string_view tenant) const {
  SessionId id;
  DrawRandom(id.bytes.data(), id.bytes.size());
  return Sign(id, tenant, boot_);
}

// Its boot is drawn anew: a session that once had this name had another one, so that its key is told from this one.
SessionKey SessionKeys::MakeNamed(std::string_view tenant, std::string_view name) const {
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

SessionKeys::Classified SessionKeys::Classify(std::string_view text, std::string_view tenant) const {
  const std::optional<SessionKey> key = SessionKey::Parse(text);
  if (!key) return {};
  Classified classified = {.kind = Kind::kOurs, .key = *key};
  if (key->boot == boot_) return classified;
  classified.kind = IsShared(*key, tenant) ? Kind::kOtherBoot : Kind::kUnknown;
  return classified;
}

bool SessionKeys::IsShared(const SessionKey& key, std::string_view tenant) const {
  for (const std::string& secret : secrets()) {
    const HalfMac shared = HalfOf(secret, key.boot, key.id, {key.mac.data(), kHalf}, tenant);
    if (CRYPTO_memcmp(key.mac.data() + kHalf, shared.data(), kHalf) == 0) return true;
  }
  return false;
}

bool SessionKeys::Verify(const SessionKey& key, std::string_view tenant) const {
  const HalfMac own = HalfOf(own_secret_, boot_, key.id, {}, tenant);
  return key.boot == boot_ && CRYPTO_memcmp(key.mac.data(), own.data(), kHalf) == 0 && IsShared(key, tenant);
}

SessionKey SessionKeys::Sign(const SessionId& id, std::string_view tenant, uint64_t boot) const {
  const HalfMac own = HalfOf(own_secret_, boot, id, {}, tenant);
  const HalfMac shared = HalfOf(secrets().front(), boot, id, own, tenant);
  SessionKey key = {.id = id, .boot = boot};
  std::ranges::copy(own, key.mac.begin());
  std::ranges::copy(shared, key.mac.begin() + kHalf);
  return key;
}

}  // namespace rnnserve
