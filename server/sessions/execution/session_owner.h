// SPDX-License-Identifier: Apache-2.0
// A stream as the owner of sessions: it attaches to each of them once, when it first names it, so that a newer stream
// stays the owner when an older one still sends.
//
// Thread-safe. Only sessions that exist are remembered: a stream may see millions in its life, so each new one looks
// after two old ones, and those that have ended go. A session costs a few dozen bytes here.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "server/sessions/contract/sessions.h"

namespace rnnserve {

class SessionOwner {
 public:
  // `is_here`: else it is about to be fetched, and is not live yet.
  Attachment Of(Sessions& sessions, const SessionId& id, bool is_here = true) {
    MutexLock lock(mutex_);
    const auto [found, is_new] = attached_.try_emplace(id);
    if (!is_new) return found->second;
    const Attachment attachment = sessions.Attach();
    found->second = attachment;
    turns_.push_back(id);
    for (int k = 0; is_here && k < 2; ++k) ReadAfterOne(sessions);
    return attachment;
  }

  // The keys of the sessions that are live.
  std::vector<std::string> Keys(Sessions& sessions) const {
    MutexLock lock(mutex_);
    std::vector<std::string> keys;
    for (const auto& [id, attachment] : attached_) {
      std::optional<std::string> key = sessions.KeyOf(id);
      if (key && !key->empty()) keys.push_back(*std::move(key));
    }
    return keys;
  }

  // How many are remembered.
  size_t size() const {
    MutexLock lock(mutex_);
    return attached_.size();
  }

 private:
  void ReadAfterOne(Sessions& sessions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (turns_.empty()) return;
    const SessionId id = turns_.front();
    turns_.pop_front();
    if (sessions.KeyOf(id)) {
      turns_.push_back(id);
    } else {
      attached_.erase(id);
    }
  }

  mutable Mutex mutex_;
  absl::flat_hash_map<SessionId, Attachment> attached_ ABSL_GUARDED_BY(mutex_);
  std::deque<SessionId> turns_ ABSL_GUARDED_BY(mutex_);  // each of attached_ once
};

}  // namespace rnnserve
