// SPDX-License-Identifier: Apache-2.0
// The sessions that this process has, in memory; durable ones leave records in a store as well (UseRecords).
//
//   SteadyClock clock;
//   MemorySessions sessions({}, &clock);
//   ...
//   sessions.Sweep();      // every options.sweep_period, from one thread
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "server/sessions/contract/clock.h"
#include "server/sessions/contract/creation_order.h"
#include "server/sessions/contract/ended_sessions.h"
#include "server/sessions/contract/expiry_wheel.h"
#include "server/sessions/contract/session_keys.h"
#include "server/sessions/contract/sessions.h"

namespace rnnserve {

class MemorySessions final : public Sessions {
 public:
  struct Options {
    SessionKeys::Options keys = {};
    // Of all sessions: states, checkpoints, agreed windows.
    int64_t max_bytes = int64_t{16} << 30;
    // Whether the process has memory for them; outlives the sessions. Null: the above is all there is to it.
    MemoryWatch* memory = nullptr;
    TenantBudget::Limits tenant = {};
    // A sweep ages sessions by at most this.
    absl::Duration sweep_period = absl::Seconds(1);
    // How long the replies of a closed session are kept.
    absl::Duration linger = absl::Minutes(1);
    // Ends remembered with their cause.
    size_t ended = 1 << 16;
    // Of one Fork.
    int64_t max_forks = 256;
    // Counters of sessions of an earlier run of the server, whose model is unknown. Null: not counted.
    SessionCountersPtr unknown_model = nullptr;
  };

  // `clock` outlives it, and all leases are gone before it.
  MemorySessions(Options options, const MonotonicClock* clock);
  ~MemorySessions() override;

  std::optional<absl::StatusOr<OpenedSession>> FindOpened(const OpenAsk& ask) override;
  absl::StatusOr<OpenedSession> Open(OpenSpec spec) override;
  absl::StatusOr<SessionPtr> Find(std::string_view key, std::string_view tenant) override;
  std::optional<std::string> KeyOf(const SessionId& id) override;
  void Acquire(const SessionPtr& session, Claim&& claim) override;
  void Read(const SessionPtr& session, ReadRequest read) override;
  void Fork(const SessionPtr& session, ForkSpec spec, ForkDone done) override;
  absl::StatusOr<SessionPage> List(std::string_view tenant, int64_t page_size, std::string_view token) override;
  Attachment Attach() override { return next_attachment_.fetch_add(1, std::memory_order_relaxed); }
  void Fetch(std::string_view key, std::string_view tenant, FetchDone done) override;
  void FetchNamed(std::string_view tenant, std::string_view name, bool attach, FetchNamedDone done) override;
  bool has_store() const override { return site_.records != nullptr; }
  void StartDrain() override;
  LeftBehind CountLeftBehind() override;

  // Before the first call. Outlives the sessions.
  void UseRecords(SessionRecords* records) { site_.records = records; }
  // Of keys; from now on.
  void SetSecrets(SessionKeys::Secrets secrets) { keys_.SetSecrets(std::move(secrets)); }

  // Ends idle sessions and forgets sessions that were closed `linger` ago. Returns how many ended.
  int64_t Sweep();

  // For the sweep thread: waits until a queued operation may have passed its deadline, for at most `most`.
  // False after StopWaiting. EndTimeouts answers those operations.
  bool WaitForTimeouts(absl::Duration most) { return timeouts_.Wait(*clock_, most); }
  void StopWaiting() { timeouts_.Stop(); }
  void EndTimeouts();

  int64_t live() const;
  // Charged for all sessions.
  int64_t bytes() const { return bytes_.used(); }

 private:
  struct ByIdHash {
    using is_transparent = void;
    size_t operator()(const SessionId& id) const { return absl::HashOf(id); }
    size_t operator()(const SessionPtr& session) const { return absl::HashOf(session->key().id); }
  };
  struct ById {
    using is_transparent = void;
    static const SessionId& Of(const SessionId& id) { return id; }
    static const SessionId& Of(const SessionPtr& session) { return session->key().id; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return Of(a) == Of(b);
    }
  };
  // What a request id stands for: the session of an Open, or those of a Fork.
  struct Answered {
    Digest digest;
    std::vector<SessionPtr> sessions;
    uint64_t number = 0;
    bool is_new = true;  // made by the request; else attached to
    uint64_t owner_epoch = Session::kFirstOwnerEpoch;
  };
  struct Tenant {
    Tenant(std::string name, const TenantBudget::Limits& limits, BoundedSum* server_bytes)
        : budget(std::move(name), limits, server_bytes) {}
    TenantBudget budget;
    std::map<std::string, SessionPtr, std::less<>> names;  // live ones
    std::map<std::string, Answered, std::less<>> requests;
    std::map<const Session*, std::string> request_of;   // that made it
    std::map<const Session*, std::string> attached_by;  // the newest one that attached to it
    // Until they have ended; wheel_ holds them, or a sweep that has taken them out.
    CreationOrder<Session*> order;
  };
  struct Lingering {
    absl::Duration until;
    SessionPtr session;
  };

  // One takeover on its way: its callers, and what it gave.
  struct Taken {
    absl::StatusOr<SessionPtr> session;
    StoreFence fence = {};
    std::optional<SessionKey> key = {};  // of the record that was taken
  };
  using TakenDone = absl::AnyInvocable<void(const Taken&)>;

  // One Fork: its parent's state, and the fences of records that are free for forks of their names.
  struct ForkRun {
    SessionPtr parent;
    ForkSpec spec;
    Snapshot snapshot;
    ForkDone done;
    std::vector<std::optional<StoreFence>> fences = {};  // one for each name looked for
  };

  // The callers of these hold mutex_.
  Tenant& TenantOf(std::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<absl::StatusOr<Answered>> FindAnswered(const Tenant& tenant, const RequestIdentity& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The live session that has taken the name, or null.
  static SessionPtr HolderOf(const Tenant& tenant, std::string_view name);
  // The same, or a durable one that is called so and found it taken.
  SessionPtr FindNamed(const Tenant& tenant, std::string_view name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts a session that was not opened.
  static absl::Status Refused(const SessionSubject& subject, absl::Status why);
  // A server that leaves opens none.
  absl::Status CheckStays() const;
  absl::Status CheckName(const Tenant& tenant, std::string_view name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SessionKey MakeKey(std::string_view tenant, std::string_view name, const Session::Terms& terms) const;
  SessionPtr Add(Tenant& tenant, Session::Start start, const Session::Terms& terms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remember(Tenant& tenant, const RequestIdentity& request, Answered answered)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Below each takes mutex_ itself.
  void TakeOver(const SessionId& id, TakenDone done);
  absl::Status CheckRoom(const SessionRecord& record);
  absl::StatusOr<SessionPtr> Adopt(SessionRecord record, const StoreFence& fence);
  void EndTakeOver(const SessionId& id, const Taken& taken);
  void LookNamed(std::vector<SessionId> ids, size_t at, FetchNamedDone done);
  void TakeNamed(std::vector<SessionId> ids, size_t at, FetchNamedDone done);
  absl::Status Lost() const;
  absl::Status LostOrEnded(const SessionKey& key) const;
  std::vector<SessionPtr> Durable() const;
  void PersistAll();
  void MendStore();
  void RememberAttached(const OpenAsk& ask, const SessionPtr& session, uint64_t owner_epoch);
  // What this very Fork has been answered with.
  std::optional<absl::StatusOr<ForkedSessions>> FindForked(const ForkSpec& spec);
  OpenedSession Opened(const Answered& answered) const;
  // Nothing: it has ended meanwhile.
  std::optional<absl::StatusOr<OpenedSession>> AttachTo(const SessionPtr& session, const OpenAsk& ask);
  void FetchForkNames(ForkRun run);
  absl::StatusOr<ForkedSessions> MakeForks(const ForkRun& run);
  void Ended(const SessionPtr& session);
  void Forget(const SessionPtr& session);
  void ForgetLingering();

  const Options options_;
  const MonotonicClock* const clock_;
  SessionKeys keys_;
  BoundedSum bytes_;
  AgingClock aging_;
  QueueTimeouts timeouts_;
  SessionSite site_;
  std::atomic<Attachment> next_attachment_ = kNoAttachment + 1;

  mutable Mutex mutex_;
  // mutex_ guards the wheel place of each session as well.
  absl::flat_hash_set<SessionPtr, ByIdHash, ById> sessions_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<Tenant>, std::less<>> tenants_ ABSL_GUARDED_BY(mutex_);
  ExpiryWheel<SessionPtr> wheel_ ABSL_GUARDED_BY(mutex_);
  std::deque<Lingering> lingering_ ABSL_GUARDED_BY(mutex_);
  // Takeovers on their way. Their sessions are found once all callers that wait for them have been answered.
  absl::flat_hash_map<SessionId, std::vector<TakenDone>> taking_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<void> persisting_ ABSL_GUARDED_BY(mutex_);  // PersistAll, until its last record is written
  EndedSessions ended_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_order_ ABSL_GUARDED_BY(mutex_) = 1;
  int64_t live_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rnnserve
