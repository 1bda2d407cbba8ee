// SPDX-License-Identifier: Apache-2.0
// Takes an accepted call's run through the scheduler, one layer or map after the other: the sequences of different
// requests meet in each layer's cells, and a deadline or cancellation between layers ends the run before the next one
// is paid for.
#pragma once

#include <memory>
#include <optional>

#include "server/batching/scheduler.h"
#include "server/core/accepted_call.h"
#include "server/core/infer_run.h"

namespace rnnserve {

class LayerChain : public std::enable_shared_from_this<LayerChain> {
 public:
  // Makes the memory of the outputs. `router` and `scheduler` outlive the chain; the router is told what has run.
  LayerChain(AcceptedCall&& call, Router* router, Scheduler* scheduler);

  // Whether nothing has to be computed.
  bool is_over() const { return run_->done(); }
  const AcceptedCall& call() const { return call_; }

  // Goes on until all layers are done or something fails; the chain keeps itself alive. `engines` run it; none where
  // the call is pinned, or over.
  void Start(EngineSet engines, InferDone done);
  // In place of Start.
  void Refuse(absl::Status status, InferDone done);

 private:
  void Next();
  void LayerDone(const ScheduleOutcome& outcome);
  absl::Status FinishStage();
  // Destroys the run before it calls `done`: the run points into the caller's message, which the caller may free.
  void End(absl::StatusOr<InferReply> reply);

  AcceptedCall call_;  // but for what the run has taken
  std::optional<InferRun> run_;
  EngineSet own_engines_;
  const EngineSet* engines_;  // null: nothing is computed
  Router* const router_;
  Scheduler* const scheduler_;
  InferDone done_;
  ScheduleOutcome sum_;  // of the layers so far
  bool first_ = true;
};

}  // namespace rnnserve
