// SPDX-License-Identifier: Apache-2.0
// Sessions on a core with the real engines, without a wire: open, send many chunks at once, see what came.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/batching/cellular_scheduler.h"
#include "server/sessions/contract/memory_sessions.h"
#include "server/sessions/execution/session_core.h"
#include "tests/engine/support/owned_tensor.h"

namespace rnnserve {

// Hands slices on, and notes how many sequences shared each.
class SliceSizes {
 public:
  void Note(size_t sequences);
  // The median over sequences of how many shared their slice.
  int64_t Median() const;

 private:
  mutable std::mutex mutex_;
  std::vector<int64_t> sequences_by_size_;  // guarded by mutex_
};

// Engines reference, cpu and onednn.
class LiveSessions {
 public:
  LiveSessions() : LiveSessions(Core::Options()) {}
  explicit LiveSessions(Core::Options options, BatchQueue::Options queue = {.workers = 2});
  ~LiveSessions();

  Core& core() { return *core_; }
  const std::vector<const Engine*>& engines() { return core_->engines(); }
  SessionCore& sessions() { return *sessions_; }
  MemorySessions& kept() { return kept_; }
  ModelStore& models() { return models_; }
  const SliceSizes& slices() const { return slices_; }

  absl::StatusOr<std::string> Open(OpenCall call);
  // Waits for the answer.
  absl::StatusOr<InferReply> Infer(const InferCall& call);
  absl::StatusOr<StateReply> GetState(const std::string& session);

 private:
  class Counting;
  SliceSizes slices_;
  std::vector<std::unique_ptr<Engine>> engines_;
  ModelStore models_{{}};
  ProgramCache programs_{int64_t{1} << 30};
  SteadyClock clock_;
  MemorySessions kept_{{}, &clock_};  // goes after the scheduler
  CellularScheduler scheduler_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<SessionCore> sessions_;
};

// The operations of some sessions in flight, as one stream sends them: any number at once, in order of each session.
class OperationPipeline {
 public:
  explicit OperationPipeline(SessionCore& sessions) : sessions_(sessions) {}

  // Answers come in the order of Send. `inputs` are copied.
  void Send(const std::string& session, uint64_t number, std::vector<OwnedTensor> inputs,
            std::optional<std::vector<std::string>> outputs = {});
  void Reset(const std::string& session, uint64_t number);
  // Waits for all.
  std::vector<ApplyReply> Answers();

 private:
  void Apply(OperationCall call);

  SessionCore& sessions_;
  SessionOwner owner_;
  std::deque<std::vector<OwnedTensor>> inputs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::optional<ApplyReply>> answers_;
  size_t missing_ = 0;
};

}  // namespace rnnserve
