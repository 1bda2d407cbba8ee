// SPDX-License-Identifier: Apache-2.0
// The protocol's sequences on the sessions of the core: sequence_start opens a session, each request is one numbered
// chunk, sequence_end closes it. A sequence's requests run one after another, in the order of Run.
//
// Thread-safe. Bounded by what sessions may hold: a sequence here is a name and a few numbers.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/api/kserve/infer_codec.h"
#include "server/sessions/execution/session_core.h"

namespace rnnserve::kserve {

// The caller of a request, and what else is known of the request.
struct SequenceCaller {
  std::string tenant;
  uint64_t caller_id = 0;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<std::atomic<bool>> cancelled;
  std::string request_id;  // "": every request is a new one
};

struct SequenceReply {
  std::shared_ptr<const OperationResult> result;
  int64_t version = 0;  // of the model
  bool repeated = false;
  const CallMetrics* calls = nullptr;
  std::optional<ByteBudget::Share> held;  // until the reply has left
};

class Sequences {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<SequenceReply>)>;

  explicit Sequences(SessionCore* core) : core_(core) {}

  // `request.sequence` is there. What its views point to lives until `done`, which is called exactly once, during the
  // call or later. A start opens a session, which may pack weights: not for a thread that others wait for.
  void Run(InferRequest request, const LoadedModel& model, SequenceCaller caller, Done done);

 private:
  struct Work {
    InferRequest request;
    SequenceCaller caller;
    std::string model;
    Done done;
  };
  // Tenant, model and id: each may hold any character that would join them.
  using Name = std::tuple<std::string, std::string, std::string>;
  struct Sequence;
  using SequencePtr = std::shared_ptr<Sequence>;

  static Name NameOf(const Work& work);
  absl::StatusOr<SequencePtr> Find(const Work& work, const LoadedModel& model);
  absl::StatusOr<OpenReply> Open(const Work& work, const LoadedModel& model);
  // `former`, of the same name, ends with it.
  absl::StatusOr<SequencePtr> Start(const Work& work, const LoadedModel& model, SequencePtr former);
  void Pump(const SequencePtr& sequence);
  void Apply(const SequencePtr& sequence, std::shared_ptr<Work> work, bool as_new, absl::AnyInvocable<void()> over);
  void Applied(const SequencePtr& sequence, Work& work, uint64_t number, ApplyReply answer);
  // Ends it in favour of a new one of its name: what waits is refused, and what runs goes on to its end.
  void Retire(const SequencePtr& sequence);
  // The session's error as one of the sequence.
  static absl::Status SequenceStatus(absl::Status status, const Work& work);
  void Close(const SequencePtr& sequence);
  void MoveToEnded(std::list<SequencePtr>::iterator place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetOld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SessionCore* const core_;
  Mutex mutex_;
  std::map<Name, SequencePtr> by_name_ ABSL_GUARDED_BY(mutex_);
  std::list<SequencePtr> live_ ABSL_GUARDED_BY(mutex_);    // looked at in turn, to forget those that have expired
  std::deque<SequencePtr> ended_ ABSL_GUARDED_BY(mutex_);  // the oldest first, to be told from what never was
  int64_t ended_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rnnserve::kserve
