// SPDX-License-Identifier: Apache-2.0
#include "server/security/tokens.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "server/files/plain_file.h"
#include "server/security/file_version.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

constexpr std::chrono::seconds kRefreshInterval(1);
constexpr size_t kMaxTokensBytes = 64 << 20;
constexpr size_t kShortestToken = 16;
constexpr size_t kLongestTenant = 64;
constexpr absl::string_view kHashed = "sha256:";

std::string Sha256(std::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string RandomKey() {
  std::string key(32, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1) std::abort();
  return key;
}

bool IsTenant(absl::string_view name) {
  return name.size() <= kLongestTenant && std::ranges::all_of(name, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
         });
}

bool IsHexDigest(absl::string_view text) {
  return text.size() == size_t{2} * SHA256_DIGEST_LENGTH &&
         std::ranges::all_of(text, [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

// `hex`: IsHexDigest. Abseil's own changed its signature between Debian 12 and 13.
std::string BytesOfHex(absl::string_view hex) {
  const auto value = [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c))
               ? c - '0'
               : absl::ascii_tolower(static_cast<unsigned char>(c)) - 'a' + 10;
  };
  std::string bytes;
  for (size_t k = 0; k + 1 < hex.size(); k += 2) {
    bytes.push_back(static_cast<char>(value(hex[k]) * 16 + value(hex[k + 1])));
  }
  return bytes;
}

// Of what stands in the file; nothing if it is no token.
absl::StatusOr<std::string> Sha256OfEntry(absl::string_view entry) {
  if (absl::StartsWith(entry, kHashed)) {
    const absl::string_view hex = entry.substr(kHashed.size());
    if (!IsHexDigest(hex)) return absl::InvalidArgumentError("expected 64 hexadecimal digits after sha256:");
    return BytesOfHex(hex);
  }
  if (entry.size() < kShortestToken) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a token of at least ", kShortestToken, " characters, it has ", entry.size()));
  }
  return Sha256({entry.data(), entry.size()});
}

// A comment begins where a word does: tokens may hold a '#'.
std::vector<absl::string_view> WordsOf(absl::string_view line) {
  std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  words.erase(std::ranges::find_if(words, [](absl::string_view word) { return word[0] == '#'; }), words.end());
  return words;
}

}  // namespace

Tokens::Tokens(std::string path) : path_(std::move(path)), key_(RandomKey()) {}

absl::StatusOr<std::unique_ptr<Tokens>> Tokens::Load(const std::string& path) {
  std::unique_ptr<Tokens> tokens(new Tokens(path));
  {
    const MutexLock refresh(tokens->refresh_mutex_);
    tokens->version_ = FileVersion(path);
  }
  ASSIGN_OR_RETURN(Table table, tokens->Read());
  {
    const MutexLock lock(tokens->mutex_);
    tokens->table_ = std::move(table);
  }
  tokens->thread_ = std::thread([raw = tokens.get()] { raw->Watch(); });
  return tokens;
}

Tokens::~Tokens() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string Tokens::Digest(std::string_view sha256) const {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()), reinterpret_cast<const unsigned char*>(sha256.data()),
       sha256.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  return digest;
}

absl::StatusOr<Tokens::Table> Tokens::Read() const {
  ASSIGN_OR_RETURN(const std::string text, ReadPlainFile(path_, kMaxTokensBytes));
  Table table;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<absl::string_view> words = WordsOf(line);
    if (words.empty()) continue;
    const auto wrong = [&](absl::string_view why) {
      return absl::FailedPreconditionError(absl::StrCat(path_, ", line ", number, ": ", why));
    };
    if (words.size() < 2) return wrong("expected a tenant, a token and perhaps permissions");
    if (!IsTenant(words[0])) return wrong("a tenant's name has up to 64 letters, digits, '-', '_', '.'");
    absl::StatusOr<std::string> sha256 = Sha256OfEntry(words[1]);
    if (!sha256.ok()) return wrong(sha256.status().message());
    auto caller = std::make_shared<Caller>();
    caller->tenant = std::string(words[0]);
    caller->may_change_models = false;
    caller->is_operator = false;
    for (size_t k = 2; k < words.size(); ++k) {
      if (words[k] != "models" && words[k] != "operator") {
        return wrong(absl::StrCat("word ", k + 1, " is no permission; there are: models, operator"));
      }
      caller->may_change_models = true;
      caller->is_operator |= words[k] == "operator";
    }
    if (!table.emplace(Digest(*sha256), std::move(caller)).second) return wrong("this token is there already");
  }
  return table;
}

CallerPtr Tokens::Find(std::string_view token) const {
  const std::string digest = Digest(Sha256(token));
  const MutexLock lock(mutex_);
  const auto found = table_.find(digest);
  return found == table_.end() ? nullptr : found->second;
}

void Tokens::OnChange(std::function<void()> on_change) {
  const MutexLock lock(refresh_mutex_);
  on_change_ = std::move(on_change);
}

void Tokens::Refresh() {
  const MutexLock refresh_lock(refresh_mutex_);
  std::string version = FileVersion(path_);
  if (version == version_) return;
  absl::StatusOr<Table> read = Read();
  if (!read.ok()) {
    // Tried again each time, on_change once: that it cannot be read may pass, as when descriptors have run out.
    if (std::exchange(logged_problem_, std::string(read.status().message())) == read.status().message()) return;
    LogError(absl::StrCat("tokens stay as they were: ", read.status().message()));
    return;
  }
  version_ = std::move(version);
  logged_problem_.clear();
  Exchange(*std::move(read));
  if (on_change_) on_change_();
}

void Tokens::Exchange(Table read) {
  const MutexLock lock(mutex_);
  // Callers that are as before stay the same objects.
  for (auto& [digest, caller] : read) {
    const auto before = table_.find(digest);
    if (before == table_.end() || before->second->tenant != caller->tenant ||
        before->second->may_change_models != caller->may_change_models ||
        before->second->is_operator != caller->is_operator) {
      continue;
    }
    caller = std::exchange(before->second, nullptr);
  }
  for (auto& [digest, caller] : table_) {
    if (caller != nullptr) caller->revoked.store(true, std::memory_order_relaxed);
  }
  table_ = std::move(read);
  if (table_.empty()) {
    LogWarning("tokens read again: none is left, every call is refused");
  } else {
    LogInfo(absl::StrCat("tokens read again: ", table_.size(), " of them"));
  }
}

void Tokens::Watch() {
  MutexLock lock(mutex_);
  while (
      !wake_.wait_for(lock, kRefreshInterval, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; })) {
    lock.unlock();
    Refresh();
    lock.lock();
  }
}

}  // namespace rnnserve
