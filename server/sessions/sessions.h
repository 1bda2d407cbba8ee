// SPDX-License-Identifier: Apache-2.0
// The seam between the core and what keeps sessions.
//
//   absl::StatusOr<OpenedSession> opened = sessions.Open(spec);
//   auto session = sessions.Find(key_text, tenant).value();
//   sessions.Acquire(session, {.number = 1, ..., .granted = [](Lease lease) {...}, .done = [](Outcome) {...}});
//
// MemorySessions keeps them in this process (`local`). A store outside it is another class behind this seam: it writes
// a record at the points where a lease commits, and its fence is the owner epoch of the record. Thread-safe; nothing
// here blocks; callbacks are called with no lock held.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/sessions/session.h"

namespace rnnserve {

using SessionPtr = std::shared_ptr<Session>;

// What makes Open and Fork safe to repeat.
struct RequestIdentity {
  std::string id;  // empty: not repeatable
  Digest digest;   // of all that the request says
};

struct OpenSpec {
  std::string tenant;
  RequestIdentity request;
  std::string name;
  bool attach = false;
  SessionSubjectPtr subject;
  SessionStatePtr state;
  Session::Terms terms;
};

struct OpenedSession {
  SessionPtr session;
  std::string key;
  bool is_new = false;
};

struct ForkSpec {
  std::string tenant = {};
  RequestIdentity request = {};
  std::optional<uint64_t> after_number = {};
  bool in_order = false;
  int64_t count = 1;
  std::vector<std::string> names = {};  // none, or one for each
};

struct ForkedSessions {
  std::vector<std::string> keys;
  uint64_t number = 0;
};
using ForkDone = absl::AnyInvocable<void(absl::StatusOr<ForkedSessions>)>;

struct SessionPage {
  struct Item {
    SessionPtr session;
    std::string key;
    Session::View view;
  };
  std::vector<Item> items;  // oldest first
  std::string next_token;   // empty: that was all
};

class Sessions {
 public:
  virtual ~Sessions() = default;

  // The session an Open answers with when it has been opened before: by this request id, or by name with attach.
  // Nothing: Open would make a new one. Asked first, since its model may be gone by now.
  virtual std::optional<absl::StatusOr<OpenedSession>> FindOpened(std::string_view tenant,
                                                                  const RequestIdentity& request, std::string_view name,
                                                                  bool attach) = 0;
  virtual absl::StatusOr<OpenedSession> Open(OpenSpec spec) = 0;

  // NOT_FOUND: SESSION_UNKNOWN or SESSION_ENDED. DATA_LOSS: of another boot. A closed session is found for a minute.
  virtual absl::StatusOr<SessionPtr> Find(std::string_view key, std::string_view tenant) = 0;
  // The key of a session that is live. Nothing: it is not, or not any more.
  virtual std::optional<std::string> KeyOf(const SessionId& id) = 0;
  virtual void Acquire(const SessionPtr& session, Claim claim) = 0;
  virtual void Look(const SessionPtr& session, Glance glance) = 0;
  virtual void Fork(const SessionPtr& session, ForkSpec spec, ForkDone done) = 0;
  // The tenant's live sessions. `token` is empty or came with an earlier page.
  virtual absl::StatusOr<SessionPage> List(std::string_view tenant, int64_t page_size, std::string_view token) = 0;

  // A new attachment, newer than all before.
  virtual Attachment Attach() = 0;

  // No new sessions, no new numbers; what is accepted runs to its end, and states can be fetched.
  virtual void StartDrain() = 0;
  // Whether no live session is left whose state nobody has fetched since its last change.
  virtual bool IsCarriedOver() = 0;
};

}  // namespace rnnserve
