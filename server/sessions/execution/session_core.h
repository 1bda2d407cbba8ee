// SPDX-License-Identifier: Apache-2.0
// The entry of every dialect to sessions: finds the model, makes initial states, plans operations, runs them through
// the scheduler under a lease, commits. The contract of numbers and owners is kept in server/sessions.
//
// Thread-safe. Callbacks are called exactly once, during the call or later on a scheduler's thread, with no lock held.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "server/core/core.h"
#include "server/sessions/execution/session_calls.h"
#include "server/sessions/execution/session_model.h"
#include "server/sessions/execution/session_models.h"

namespace rnnserve {

class SessionCore {
 public:
  struct Options {
    absl::Duration default_idle_timeout = absl::Minutes(10);
    absl::Duration max_idle_timeout = absl::Hours(24);
    int32_t max_in_flight = 1024;
    int32_t max_window_operations = 65536;
    int64_t max_window_bytes = int64_t{1} << 30;
    int64_t max_rows = 4096;
    // Outlives the core. Null: not counted.
    SessionMetrics* metrics = nullptr;
  };
  // All pointers outlive it.
  SessionCore(Options options, Core* core, Sessions* sessions, const MonotonicClock* clock)
      : options_(options), core_(core), sessions_(sessions), clock_(clock) {}

  using OpenDone = absl::AnyInvocable<void(absl::StatusOr<OpenReply>)>;
  using OperationDone = rnnserve::OperationDone;
  using StateDone = absl::AnyInvocable<void(absl::StatusOr<StateReply>)>;
  using NumbersDone = absl::AnyInvocable<void(absl::StatusOr<Numbers>)>;

  // Hashes and packs weights: not on the poller thread.
  void Open(OpenCall call, OpenDone done);
  void Apply(OperationCall&& call, OperationDone done);
  void GetState(ReadCall call, StateDone done);
  void Checkpoint(ReadCall call, std::string name, NumbersDone done);
  void Fork(ForkCall call, ForkDone done);
  absl::StatusOr<SessionInfos> List(std::string_view tenant, int64_t page_size, std::string_view token);

  // For the notice of a drain: the live sessions of a stream, and their numbers. Nothing: not live.
  std::vector<std::string> KeysOf(const SessionOwner& owner);
  std::optional<Numbers> NumbersOf(std::string_view session, std::string_view tenant);
  // For operations that are refused before they reach the session: the same error with its numbers, if there is one.
  // Where the reason is temporary, operations right behind `number` get the same error.
  absl::Status Refused(std::string_view session, std::string_view tenant, std::optional<uint64_t> number,
                       absl::Status why);

  // What a session runs that `call` opens; also for those of other servers. Packs weights.
  absl::StatusOr<std::shared_ptr<const SessionModel>> MakeModel(const OpenCall& call);

  const Core& core() const { return *core_; }

  void StartDrain() { sessions_->StartDrain(); }
  bool IsCarriedOver() { return sessions_->IsCarriedOver(); }
  Sessions::LeftBehind CountLeftBehind() { return sessions_->CountLeftBehind(); }

 private:
  absl::StatusOr<Session::Terms> Agree(const OpenCall& call) const;
  // `call` outlives it.
  OpenAsk AskOf(const OpenCall& call);
  // Whether an Open that attaches means the session that is there: FAILED_PRECONDITION names the field.
  absl::Status CheckAgrees(const OpenCall& call, const Session& session);
  absl::Status CheckTarget(const OpenCall& call, const SessionModel& model);
  // `fence`: as FetchNamed gave it.
  void OpenHere(OpenCall call, std::optional<StoreFence> fence, OpenDone done);
  void OpenWith(OpenCall call, std::optional<StoreFence> fence, std::shared_ptr<const SessionModel> model,
                SessionStatePtr state, Session::Terms terms, OpenDone done);
  void Opened(OpenedSession opened, bool attach, OpenDone done);
  // `attachment`: of the stream or call.
  void ApplyTo(const SessionPtr& session, Attachment attachment, OperationCall&& call, OperationDone done);
  void RefuseUnfound(absl::Status why, OperationDone done);
  Attachment AttachmentOf(const OperationCall& call, const SessionId& id, bool is_here);
  // Reads the session of that key, wherever it is.
  void Read(const std::string& key, const std::string& tenant, ReadRequest read);
  void With(const std::string& key, const std::string& tenant, Sessions::FetchDone then);
  void PersistForks(ForkedSessions forked, size_t at, const std::string& tenant, ForkDone done);

  const Options options_;
  Core* const core_;
  Sessions* const sessions_;
  const MonotonicClock* const clock_;
  SessionModels models_;
};

}  // namespace rnnserve
