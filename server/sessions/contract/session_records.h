// SPDX-License-Identifier: Apache-2.0
// What outlives a process of a session, and the way there: records, through a codec, into a store.
//
//   SessionRecords records(&store, &codec, &clock);
//   sessions.UseRecords(&records);
//
// Thread-safe; nothing blocks. Each `done` is called exactly once, with no lock held.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/sessions/contract/session.h"
#include "server/sessions/contract/session_store.h"

namespace rnnserve {

// A session as of a number. All of it is shared by reference.
struct SessionRecord {
  SessionKey key;
  std::string tenant;
  std::string name;
  SessionSubjectPtr subject;
  SessionStatePtr state;  // null: the session is closed
  Numbers numbers;
  uint64_t owner_epoch = Session::kFirstOwnerEpoch;
  Session::Terms terms;
  std::optional<Window::Kept> last;  // the newest reply, if the window keeps any
};

// Records as bytes. Lives where tensors and models are known.
class RecordCodec {
 public:
  virtual ~RecordCodec() = default;
  virtual absl::StatusOr<std::string> Encode(const SessionRecord& record) = 0;
  // Finds and packs the model, which may take long. DATA_LOSS: the bytes are damaged. FAILED_PRECONDITION: this server
  // lacks the model, or is too old for the record.
  virtual absl::StatusOr<SessionRecord> Decode(std::string_view bytes) = 0;
};

class SessionRecords {
 public:
  // No exchange with the store takes longer.
  static constexpr absl::Duration kTimeout = absl::Seconds(5);
  // A record outlives the idle timeout by this: the last look at a session comes a sweep after it. So does that of a
  // closed session: a former owner's old copy has expired by then, and cannot bring the session back.
  static constexpr absl::Duration kTtlMargin = absl::Minutes(1);

  struct Taken {
    SessionRecord record;
    StoreFence fence;
  };
  using ReadDone = absl::AnyInvocable<void(absl::StatusOr<SessionRecord>)>;
  using TakeDone = absl::AnyInvocable<void(absl::StatusOr<Taken>)>;
  // Whether this process can have the session.
  using RecordCheck = absl::AnyInvocable<absl::Status(const SessionRecord&)>;

  // Both outlive it.
  SessionRecords(SessionStore* store, RecordCodec* codec) : store_(store), codec_(codec) {}

  static StoreFence DrawFence();
  struct WriteRequest {
    SessionRecord record;
    StoreFence fence;
    bool create = false;    // as SessionStore has it
    absl::Duration within;  // the time that the caller has
  };
  // Statuses as SessionStore gives them; those that are no conflict are for callers (STORE_UNAVAILABLE).
  void Write(WriteRequest request, SessionStore::WriteDone done);
  // NOT_FOUND: no record.
  void Read(const SessionId& id, ReadDone done);
  // Makes a new fence the owner of a record that this process can decode and `check` accepts; other records stay with
  // their owner. NOT_FOUND: no record.
  void Take(const SessionId& id, RecordCheck check, TakeDone done);

 private:
  absl::StatusOr<SessionRecord> Decode(const SessionId& id, const StoredRecord& stored, RecordCheck& check);
  void TakeChecked(const SessionId& id, absl::Time deadline, StoredRecord seen, SessionRecord record, RecordCheck check,
                   TakeDone done);

  SessionStore* const store_;
  RecordCodec* const codec_;
};

// For callers: nothing of this process has changed. Not in the store's own words, which name hosts; it logs those.
absl::Status StoreUnavailable(const absl::Status& why);

}  // namespace rnnserve
