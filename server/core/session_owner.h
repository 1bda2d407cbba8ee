// SPDX-License-Identifier: Apache-2.0
// A stream as the owner of sessions: it attaches to each of them once, when it first names it, so that a newer stream
// stays the owner whatever the older one still sends.
//
// Thread-safe. Only sessions that exist are remembered.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/sessions/sessions.h"

namespace rnnserve {

class SessionOwner {
 public:
  Attachment Of(Sessions& sessions, const SessionPtr& session, const std::string& key) {
    std::lock_guard lock(mutex_);
    auto [found, is_new] = attached_.try_emplace(session->key().id);
    if (is_new) found->second = {sessions.Attach(), key};
    return found->second.attachment;
  }

  // The session has ended.
  void Forget(const SessionPtr& session) {
    std::lock_guard lock(mutex_);
    attached_.erase(session->key().id);
  }

  std::vector<std::string> Keys() const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> keys;
    for (const auto& [id, entry] : attached_) keys.push_back(entry.key);
    return keys;
  }

 private:
  struct Entry {
    Attachment attachment = kNoAttachment;
    std::string key;
  };
  mutable std::mutex mutex_;
  absl::flat_hash_map<SessionId, Entry> attached_;  // guarded by mutex_
};

}  // namespace rnnserve
