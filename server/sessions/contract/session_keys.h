// SPDX-License-Identifier: Apache-2.0
// Makes session keys and recognizes them, by their MAC over the rest and the tenant. Without remembering keys the
// server knows one that was once valid from one that never was, also of another run.
//
//   SessionKeys keys({});
//   SessionKey key = keys.Make("tenant");
//   keys.Classify(text, "tenant").kind        // kOurs, kOtherBoot or kUnknown
//
// The MAC has two halves, each HMAC-SHA-256 of OpenSSL cut to 64 bits. The first is of a secret of this run alone: no
// other process can make a key that this one takes for its own. The second is of what all runs share, so that each
// knows the others' keys. Compared in constant time. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "server/sessions/contract/session_key.h"

namespace rnnserve {

class SessionKeys {
 public:
  // What the runs of a server share, and the servers that stand in for each other: the first makes keys, all are
  // recognized. None: a constant of the program. A key with a changed letter is unknown either way; with the constant a
  // caller may make up one of a run that never was, with a secret none can.
  using Secrets = std::vector<std::string>;
  struct Options {
    Secrets secrets = {};
    // Names this run of the server. 0: drawn at random.
    uint64_t boot = 0;
  };
  enum class Kind {
    kUnknown,    // no key of ours, or of another tenant
    kOtherBoot,  // of another run of the server, or of another one that shares its secret
    kOurs,       // well formed and of this boot; the MAC is for Is or Verify
  };
  struct Classified {
    Kind kind = Kind::kUnknown;
    SessionKey key = {};
  };

  explicit SessionKeys(Options options);

  SessionKey Make(std::string_view tenant) const;
  // For a session that other servers find by its name, too: all that share a secret give it the same id.
  SessionKey MakeNamed(std::string_view tenant, std::string_view name) const;
  // The ids that a session of that name may have: one for each secret, the newest first.
  std::vector<SessionId> IdsOf(std::string_view tenant, std::string_view name) const;
  void SetSecrets(Secrets secrets);
  Classified Classify(std::string_view text, std::string_view tenant) const;
  // For keys whose session is in no table any more: whether this boot made the key, for this tenant.
  bool Verify(const SessionKey& key, std::string_view tenant) const;

 private:
  // Whether one of the shared secrets made its second half.
  bool IsShared(const SessionKey& key, std::string_view tenant) const;
  SessionKey Sign(const SessionId& id, std::string_view tenant, uint64_t boot) const;
  Secrets secrets() const;

  mutable Mutex mutex_;
  Secrets shared_secrets_ ABSL_GUARDED_BY(mutex_);
  std::string own_secret_;
  uint64_t boot_;
};

}  // namespace rnnserve
