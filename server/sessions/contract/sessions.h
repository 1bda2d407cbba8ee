// SPDX-License-Identifier: Apache-2.0
// The seam between the core and what keeps sessions.
//
//   if (auto opened = sessions.FindOpened(ask)) ...         // opened before: attached
//   absl::StatusOr<OpenedSession> opened = sessions.Open(spec);
//   auto session = sessions.Find(key_text, tenant).value();
//   sessions.Acquire(session, {.number = 1, ..., .granted = [](Lease lease) {...}, .done = [](Outcome) {...}});
//
// MemorySessions keeps them in this process. Durable ones leave records in a store (session_records.h), so that another
// process can go on with them; those that are not here have to be fetched:
//
//   if (IsElsewhere(found.status())) sessions.Fetch(key_text, tenant, [](absl::StatusOr<SessionPtr> session) { ... });
//
// Thread-safe; nothing here blocks; callbacks are called with no lock held.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/sessions/contract/session.h"

namespace rnnserve {

using SessionPtr = std::shared_ptr<Session>;

// What makes Open and Fork safe to repeat.
struct RequestIdentity {
  std::string id;  // empty: not repeatable
  Digest digest;   // of all that the request says
};

// Which session an Open means.
struct OpenAsk {
  std::string tenant = {};
  RequestIdentity request = {};
  std::string name = {};
  bool attach = false;      // to the live session of that name
  bool must_exist = false;  // never makes a new one
  // Whether a session fits what else the Open says; not asked for repetitions. Called with no lock held; may take long.
  // Null: it does.
  std::function<absl::Status(const Session&)> agrees = {};
};

// And what a new one is made of.
struct OpenSpec : OpenAsk {
  SessionSubjectPtr subject = {};
  SessionStatePtr state = {};
  Session::Terms terms = {};
  // Of a durable session with a name: what FetchNamed gave.
  std::optional<StoreFence> fence = {};
};

struct OpenedSession {
  SessionPtr session;
  std::string key;
  bool is_new = false;       // else it was there, and the Open has attached to it
  uint64_t owner_epoch = 0;  // as this Open raised it
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
  uint64_t owner_epoch = Session::kFirstOwnerEpoch;
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

  // The session an Open answers with when it has been opened before: by this request id, with the same answer, or by
  // name with attach, which raises its owner epoch. Nothing: Open would make a new one. Asked first, since its model
  // may be gone by now. With must_exist it is the whole answer: NOT_FOUND, or DATA_LOSS where the session's state is
  // lost.
  virtual std::optional<absl::StatusOr<OpenedSession>> FindOpened(const OpenAsk& ask) = 0;
  virtual absl::StatusOr<OpenedSession> Open(OpenSpec spec) = 0;

  // NOT_FOUND: SESSION_UNKNOWN or SESSION_ENDED. DATA_LOSS: of another boot. A closed session is found for a minute.
  // IsElsewhere: a record of it may be in the store.
  virtual absl::StatusOr<SessionPtr> Find(std::string_view key, std::string_view tenant) = 0;
  // Takes the session over from its record. Callbacks of one session run in the order of their calls, those of Find
  // afterwards. DATA_LOSS: there is no record.
  using FetchDone = absl::AnyInvocable<void(absl::StatusOr<SessionPtr>)>;
  virtual void Fetch(std::string_view /*key*/, std::string_view /*tenant*/, FetchDone done) { done(UnknownSession()); }
  // Brings the durable session of that name here, or makes sure that the one which is here is the newest; FindOpened
  // finds it then. Gives the fence of a record that is free for a new session of that name, if there is one. Without
  // `attach` a live session elsewhere stays there: NAME_TAKEN.
  using FetchNamedDone = absl::AnyInvocable<void(absl::StatusOr<std::optional<StoreFence>>)>;
  virtual void FetchNamed(std::string_view /*tenant*/, std::string_view /*name*/, bool /*attach*/,
                          FetchNamedDone done) {
    done(std::nullopt);
  }
  // Whether there is a store.
  virtual bool has_store() const { return false; }
  // The key of a session that is live; empty while it is fetched. Nothing: it is not, or not any more.
  virtual std::optional<std::string> KeyOf(const SessionId& id) = 0;
  virtual void Acquire(const SessionPtr& session, Claim&& claim) = 0;
  virtual void Read(const SessionPtr& session, ReadRequest read) = 0;
  virtual void Fork(const SessionPtr& session, ForkSpec spec, ForkDone done) = 0;
  // The tenant's live sessions. `token` is empty or came with an earlier page.
  virtual absl::StatusOr<SessionPage> List(std::string_view tenant, int64_t page_size, std::string_view token) = 0;

  // A new attachment, newer than all before.
  virtual Attachment Attach() = 0;

  // Refuses new sessions and new numbers; accepted operations run to their end, and states can be fetched.
  virtual void StartDrain() = 0;
  // Live sessions that end with this process: states that no client has fetched since their last change; of durable
  // ones, changes that no record has.
  struct LeftBehind {
    int64_t local = 0;
    int64_t durable = 0;
    friend bool operator==(const LeftBehind&, const LeftBehind&) = default;
  };
  virtual LeftBehind CountLeftBehind() = 0;
  bool IsCarriedOver() { return CountLeftBehind() == LeftBehind{}; }
};

}  // namespace rnnserve
