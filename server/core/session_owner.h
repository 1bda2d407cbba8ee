// SPDX-License-Identifier: Apache-2.0
// A stream as the owner of sessions: it attaches to each of them once, when it first names it, so that a newer stream
// stays the owner whatever the older one still sends.
//
// Thread-safe. Only sessions that exist are remembered: a stream may see millions in its life, so each new one looks
// after two old ones, and those that have ended go.
#pragma once

#include <deque>
#include <memory>
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
    if (!is_new) return found->second.attachment;
    const Attachment attachment = sessions.Attach();
    found->second = {attachment, key, session};
    turns_.push_back(session->key().id);
    for (int k = 0; k < 2 && !turns_.empty(); ++k) LookAfterOne();
    return attachment;
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
    std::weak_ptr<const Session> session;
  };

  void LookAfterOne() {
    const SessionId id = turns_.front();
    turns_.pop_front();
    const auto found = attached_.find(id);
    const std::shared_ptr<const Session> session = found->second.session.lock();
    if (session != nullptr && session->view().live) {
      turns_.push_back(id);
    } else {
      attached_.erase(found);
    }
  }

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  absl::flat_hash_map<SessionId, Entry> attached_;
  std::deque<SessionId> turns_;  // each of attached_ once
};

}  // namespace rnnserve
