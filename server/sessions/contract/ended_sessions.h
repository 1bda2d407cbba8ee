// SPDX-License-Identifier: Apache-2.0
// Why the last few sessions ended, for callers that still use their keys. Bounded; a key shows by itself that it was
// once valid.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "server/sessions/contract/numbers.h"
#include "server/sessions/contract/session_error.h"
#include "server/sessions/contract/session_key.h"

namespace rnnserve {

class EndedSessions {
 public:
  struct End {
    EndCause cause = EndCause::kUnknown;
    Numbers numbers;
    // Of an old copy, maybe: the session may live on another server.
    bool may_live = false;
    // Of its key. The sessions of a name, one after the other, share an id.
    uint64_t boot = 0;
  };

  explicit EndedSessions(size_t most) : most_(most) {}

  void Remember(const SessionKey& key, End end) {
    end.boot = key.boot;
    if (!ends_.insert_or_assign(key.id, end).second) return;
    order_.push_back(key.id);
    if (order_.size() <= most_) return;
    ends_.erase(order_.front());
    order_.pop_front();
  }

  std::optional<End> Find(const SessionKey& key) const {
    const auto found = ends_.find(key.id);
    if (found == ends_.end() || found->second.boot != key.boot) return std::nullopt;
    return found->second;
  }

 private:
  const size_t most_;
  absl::flat_hash_map<SessionId, End> ends_;
  std::deque<SessionId> order_;  // the oldest first
};

}  // namespace rnnserve
