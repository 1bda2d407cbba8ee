// SPDX-License-Identifier: Apache-2.0
// BatchQueue with a fault in front of it, or none.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "server/batching/batch_queue.h"
#include "tests/engine/support/partial_programs.h"
#include "tests/server/batching/simulation/fault.h"

namespace rnnserve::simulation {

// A program that is never advanced: the simulation does it.
class SimulatedProgram final : public StatelessProgram {
 public:
  SimulatedProgram(int index, int64_t packed_bytes) : index_(index), packed_bytes_(packed_bytes) {}
  int index() const { return index_; }
  int64_t packed_bytes() const override { return packed_bytes_; }

 private:
  const int index_;
  const int64_t packed_bytes_;
};

class FaultyQueue {
 public:
  FaultyQueue(const BatchQueue::Options& options, Fault fault)
      : fault_(fault),
        is_roomy_(options.max_sequences > 1'000 && options.max_bytes > 1'000'000),
        queue_(Changed(options, fault)) {}

  absl::Status Add(Submission& submission, absl::Time now);
  std::optional<Slice> Form(absl::Time now, int sharers, BatchQueue::Finished& finished);
  void Complete(Slice slice, double seconds, absl::Time now, BatchQueue::Finished& finished);
  // Which of `finished` the simulation hears of.
  std::vector<Job*> Told(BatchQueue::Finished& finished);

  const BatchQueue& queue() const { return queue_; }

 private:
  static BatchQueue::Options Changed(BatchQueue::Options options, Fault fault);
  // The queue learns of another deadline; it is kept all the same.
  void HideDeadline(Submission& submission, absl::Time told);
  void KeepHiddenDeadlines(absl::Time now);

  struct Hidden {
    absl::Time deadline;
    std::shared_ptr<const std::atomic<bool>> cancelled;
    std::shared_ptr<std::atomic<bool>> ends;
  };

  const Fault fault_;
  const bool is_roomy_;  // nothing is ever refused
  int calls_ = 0;
  std::vector<Hidden> hidden_;
  BatchQueue queue_;
};

}  // namespace rnnserve::simulation
