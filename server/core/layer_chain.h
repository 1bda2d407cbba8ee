// SPDX-License-Identifier: Apache-2.0
// Takes an accepted call's run through the scheduler, one layer or map after the other: the sequences of different
// requests meet in each layer's cells, and a deadline or cancellation between layers ends the run before the next one
// is paid for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/batching/scheduler.h"
#include "server/core/core.h"
#include "server/core/infer_run.h"

namespace rnnserve {

class LayerChain : public std::enable_shared_from_this<LayerChain> {
 public:
  // What every submission of the call says.
  struct Terms {
    int32_t priority = 0;
    uint64_t tenant = 0;
    int64_t bytes = 0;
    absl::Time deadline = absl::InfiniteFuture();
    std::shared_ptr<std::atomic<bool>> cancelled;
    std::shared_ptr<const WorkMetrics> metrics;  // may be null
  };

  // Called when a layer has run, with the number of sequences in its largest slice.
  using Ran = std::function<void(size_t layer, int64_t largest_batch)>;

  // `programs[k]` are layer k's, one a direction. `engine` goes into the reply. `scheduler` outlives the chain.
  LayerChain(std::unique_ptr<InferRun> run, std::vector<std::vector<ProgramPtr>> programs, std::string engine,
             Terms terms, Ran ran, Scheduler* scheduler, Core::Done done);

  // Runs until all layers are done or one fails; the chain keeps itself alive.
  void Start();

 private:
  void LayerDone(const ScheduleOutcome& outcome);
  absl::Status FinishStage();
  // Destroys the run before it calls `done`: the run points into the caller's message, which the caller may free.
  void End(absl::StatusOr<InferReply> reply);

  std::unique_ptr<InferRun> run_;
  const std::vector<std::vector<ProgramPtr>> programs_;
  const std::string engine_;
  const Terms terms_;
  const Ran ran_;
  Scheduler* const scheduler_;
  Core::Done done_;
  ScheduleOutcome sum_;  // of the layers so far
  bool first_ = true;
};

}  // namespace rnnserve
