// SPDX-License-Identifier: Apache-2.0
// One session: its numbers, window, operations in flight and owner. Keeps the contract of sessions.md section 2.
//
// Operations that change it queue in the order of their numbers; the first of them has the lease, and the others wait.
// Thread-safe. Callbacks run with no lock held, one at a time and in order, so replies of a session keep their order.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/mutex.h"
#include "base/recycled.h"
#include "server/sessions/contract/aging.h"
#include "server/sessions/contract/budget.h"
#include "server/sessions/contract/durability.h"
#include "server/sessions/contract/expiry_wheel.h"
#include "server/sessions/contract/lease.h"
#include "server/sessions/contract/operation.h"
#include "server/sessions/contract/queue_timeouts.h"
#include "server/sessions/contract/session_error.h"
#include "server/sessions/contract/session_key.h"
#include "server/sessions/contract/session_store.h"
#include "server/sessions/contract/window.h"

namespace rnnserve {

class SessionRecords;
struct SessionRecord;

// What all sessions of a server share.
struct SessionSite {
  const MonotonicClock* clock;
  AgingClock* aging;
  QueueTimeouts* timeouts;
  std::atomic<bool> draining = false;
  // Where durable sessions leave their records. Null: there are none.
  SessionRecords* records = nullptr;
  // The store has lost a record, and so maybe others.
  std::atomic<bool> record_lost = false;
  // Called once for each session that has ended, with no lock held.
  absl::AnyInvocable<void(const std::shared_ptr<Session>&) const> ended;
};

class Session final : public std::enable_shared_from_this<Session> {
 public:
  // Charged for each session, and for each operation it may have in flight, besides state and window.
  static constexpr int64_t kBytesPerSession = 512;
  static constexpr int64_t kBytesPerOperation = 256;
  static constexpr int64_t kBytesPerCheckpoint = 256;
  static constexpr size_t kMaxCheckpoints = 64;
  // Of a session that has just been made.
  static constexpr uint64_t kFirstOwnerEpoch = 1;

  struct Terms {
    absl::Duration idle_timeout = absl::Minutes(10);
    int32_t max_in_flight = 8;
    Window::Limits window;
    Durability durability = Durability::kLocal;
    bool stays_on_drain = false;  // as of OpenCall
  };
  struct Start {
    SessionKey key;
    uint64_t order = 0;  // of creation
    std::string name;
    SessionSubjectPtr subject;
    SessionStatePtr state;
    Numbers numbers;
    // Of a session that another process had.
    uint64_t owner_epoch = kFirstOwnerEpoch;
    std::optional<Window::Kept> last = {};
    // Of a durable one that has a record, which this process owns.
    std::optional<StoreFence> fence = {};
  };

  // What a session of these terms and this state is charged with.
  static int64_t Charge(const Terms& terms, const SessionState& state);

  // `budget` has been charged with one session and Charge(...).
  Session(Start start, Terms terms, TenantBudget* budget, SessionSite* site);
  ~Session();

  void Acquire(Claim&& claim);
  void Read(ReadRequest read);
  // For operations that are refused before they reach the session: the session's numbers. Where the reason is
  // temporary, operations right behind `number` get the same error.
  Numbers NoteRefused(std::optional<uint64_t> number, const absl::Status& why);
  // Another Open attaches: the new owner epoch. Nothing: the session has ended. Counts as use.
  std::optional<uint64_t> RaiseOwnerEpoch();
  // Ends it if it has been idle for too long. Returns when to look again, by the aging clock; nothing if it is over.
  std::optional<absl::Duration> EndIfIdle();
  // Fails the first queued operation whose own timeout has passed, and those behind it; asks to be called again for
  // those before it.
  void EndTimeouts();
  // Of a durable session: writes a record of what it is now. OK: the store has it, so no other process has a newer one.
  // ABORTED: another one has, and this session has ended here. Other sessions: OK.
  using PersistDone = absl::AnyInvocable<void(absl::Status)>;
  void Persist(PersistDone done);
  // Frees the kept replies. For sessions that have ended.
  void Forget();

  const SessionKey& key() const { return key_; }
  uint64_t order() const { return order_; }
  std::string_view name() const { return name_ == nullptr ? std::string_view() : std::string_view(*name_); }
  const Terms& terms() const { return terms_; }
  const SessionSubjectPtr& subject() const { return subject_; }
  TenantBudget& budget() const { return *budget_; }

  struct View {
    bool live = false;
    EndCause cause = EndCause::kUnknown;
    Numbers numbers;
    absl::Duration idle;
    int64_t rows = 0;
    int64_t state_bytes = 0;
    bool carried_over = false;
    bool in_flight = false;
    uint64_t durable_number = 0;  // the last one that the store has
  };
  View view() const;
  bool is_durable() const { return terms_.durability != Durability::kLocal; }

  // For the sweep; guarded by the mutex of the wheel's owner.
  WheelPosition wheel_position;

 private:
  friend class Lease;
  struct AnswerCall {
    OutcomeDone done;
    Outcome outcome;
    void operator()() { done(std::move(outcome)); }
  };
  struct GrantCall {
    absl::AnyInvocable<void(Lease&&)> granted;
    Lease lease;
    void operator()() { granted(std::move(lease)); }
  };
  // The usual ones need no memory of their own.
  using Call = std::variant<AnswerCall, GrantCall, absl::AnyInvocable<void()>>;
  using Calls = RecycledVector<Call>;

  // A change waits here from acceptance to its commit, a read until its number is applied.
  struct Entry {
    // The change's own, or the one a read waits for.
    uint64_t number = 0;
    bool is_change = false;
    bool is_granted = false;
    Claim claim;                                  // of a change; `done` is moved into `waiting`
    absl::InlinedVector<OutcomeDone, 1> waiting;  // the operation's caller and its repetitions
    Attachment wanted_by = kNoAttachment;         // the newest of them
    ReadRequest read;                             // else
  };

  // The next number was refused for a temporary reason, and so were those right behind it.
  struct Refused {
    uint64_t next = 0;
    uint64_t last = 0;
    absl::Status why;
  };
  // Of a durable session.
  struct Stored {
    StoreFence fence;
    bool has_record = false;  // in the store, the last time that this process looked
    uint64_t durable_number = 0;
    bool is_writing = false;
    absl::Duration undurable_since = absl::InfiniteDuration();  // by the clock; of kInterval
    std::optional<Change> pending;                              // of the granted operation, which waits for its record
    std::vector<PersistDone> asked;                             // wait for the next write
    std::vector<Claim> held;  // wait until the store has told whether this copy is the newest
  };
  // One write on its way.
  struct Write {
    uint64_t number = 0;
    bool has_pending = false;
    std::vector<PersistDone> asked;
  };
  using Entries = RecycledList<Entry>;
  using EntryIterator = Entries::iterator;

  absl::Status Admit(Claim& claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status JoinInFlight(Claim& claim, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RepeatReply(Claim& claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TooHigh(uint64_t number, uint64_t next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether its reply is kept, or comes to what is in flight.
  bool IsRepetition(const Claim& claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsFenced(const Claim& claim) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return claim.owner_epoch && *claim.owner_epoch != owner_epoch_;
  }
  // Where queued operations of older owners begin, which fail if `claim` is accepted. in_flight_.end(): none.
  EntryIterator FirstDisplaced(const Claim& claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Accept(Claim& claim, EntryIterator displaced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckAcceptable(Claim& claim, EntryIterator displaced) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeOver(const Claim& claim, EntryIterator displaced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After an operation has failed: it takes no ownership.
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // OK, or an error if the window cannot keep a reply of `bytes`.
  absl::Status CheckFits(int64_t reply_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t last_accepted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* FindInFlight(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Refuse(OutcomeDone done, absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Numbers from `next` to `last` are refused together.
  void RememberRefused(uint64_t next, uint64_t last, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AbortQueued(EntryIterator from, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailEntry(Entry& entry, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailGranted(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    FailAt(in_flight_.begin(), std::move(status));
  }
  void FailAt(EntryIterator place, absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // In the queue, not granted.
  void WatchTimeout(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnswerRead(ReadRequest& read) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SetCheckpoint(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Recharge(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(EndCause cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Swaps the state, keeps the reply, answers. Returns the state before, to be destroyed with no lock held.
  SessionStatePtr ApplyChange(Change change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What `change` adds to the state.
  int64_t GrowthOf(const Change& change) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // These are of durable sessions (session_durable.cc).
  absl::Status CheckUndurable(const Claim& claim) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsWrittenFirst(const Change& change) const;
  // Whether another process may have a newer copy, which accepts what this one refuses with `refusal`.
  bool MayBeOld(const Claim& claim, const absl::Status& refusal) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HoldClaim(Claim&& claim) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdmitHeld(const absl::Status& written);
  // Another process may have a newer copy than `snapshot`.
  void AnswerWhenNewest(SnapshotDone done, Snapshot snapshot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t undurable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return numbers_.last_applied - stored_->durable_number;
  }
  SessionRecord RecordNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Written(Write write, const absl::StatusOr<SessionStore::Written>& written);
  // Writes what is due, or has the sweep thread come back when it is.
  void WriteIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteLater() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A session that is only read gets no new record, and the old one would expire.
  void KeepRecord() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t durable_number() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stored_ == nullptr ? 0 : stored_->durable_number;
  }
  void EndStored() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds `sign` to the model's live sessions, and `sign` times the bytes.
  void CountLife(int64_t sign) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsTooLate(const Claim& claim) const;
  bool StartNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs collected callbacks and grants leases until none is left. Releases mutex_ while it calls.
  void Drive() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Lease.
  void Commit(uint64_t grant, Change change);
  void Fail(uint64_t grant, absl::Status status);
  absl::StatusOr<Snapshot> FindCheckpoint(const std::string& name) const;
  absl::Status CheckReply(int64_t bytes) const;

  struct Checkpoint {
    SessionStatePtr state;
    Numbers numbers;
  };
  using Checkpoints = std::map<std::string, Checkpoint>;

  const SessionKey key_;
  const uint64_t order_;
  const std::unique_ptr<const std::string> name_;  // null: none; most have none
  const Terms terms_;
  const SessionSubjectPtr subject_;
  TenantBudget* const budget_;
  SessionSite* const site_;

  mutable Mutex mutex_;
  // Numbers change in Commit only, so a lease may read them.
  SessionStatePtr state_ ABSL_GUARDED_BY(mutex_);
  Numbers numbers_ ABSL_GUARDED_BY(mutex_);
  Window window_ ABSL_GUARDED_BY(mutex_);
  Entries in_flight_ ABSL_GUARDED_BY(mutex_);  // by number; the first may be granted
  Calls calls_ ABSL_GUARDED_BY(mutex_);        // to be made once the lock is free
  std::unique_ptr<Checkpoints> checkpoints_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Stored> stored_ ABSL_PT_GUARDED_BY(mutex_);      // null: not durable
  std::unique_ptr<Refused> refused_ ABSL_GUARDED_BY(mutex_);       // null mostly
  Attachment owner_ ABSL_GUARDED_BY(mutex_) = kNoAttachment;       // the newest of those below and in in_flight_
  Attachment applied_by_ ABSL_GUARDED_BY(mutex_) = kNoAttachment;  // the newest whose operation was applied
  uint64_t owner_epoch_ ABSL_GUARDED_BY(mutex_) = kFirstOwnerEpoch;
  uint64_t grant_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t charged_ ABSL_GUARDED_BY(mutex_) = 0;  // for the state and checkpoints
  int64_t charged_for_terms_ ABSL_GUARDED_BY(mutex_);
  absl::Duration last_used_ ABSL_GUARDED_BY(mutex_);  // by the aging clock
  int32_t answers_due_ ABSL_GUARDED_BY(mutex_) = 0;   // callers waiting in in_flight_
  EndCause cause_ ABSL_GUARDED_BY(mutex_) = EndCause::kUnknown;
  bool live_ ABSL_GUARDED_BY(mutex_) = true;
  bool driving_ ABSL_GUARDED_BY(mutex_) = false;
  bool carried_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool forgotten_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rnnserve
