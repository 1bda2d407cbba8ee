// SPDX-License-Identifier: Apache-2.0
// One accepted Infer call: output buffers, sequences and their states, from acceptance to the reply.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/core/byte_budget.h"
#include "server/core/core.h"

namespace rnnserve {

class InferRun {
 public:
  // `plan` is of `model` and points into the caller's message; `share` covers RunBytes(...).
  InferRun(ModelPtr model, RunPlan plan, ByteBudget::Share share);

  // Whether there is anything to compute.
  bool empty() const { return sequences_.empty(); }

  // Makes the states. `programs` holds one for each direction. Call once, unless empty().
  std::vector<SequenceTask> Start(std::vector<ProgramPtr> programs, std::string_view engine);

  // The reply, once all tasks have run; `outcome` is OK.
  absl::StatusOr<InferReply> Finish(const ScheduleOutcome& outcome);

 private:
  ModelPtr model_;
  RunPlan plan_;
  ByteBudget::Share share_;  // goes on in the reply
  std::vector<OutputTensor> outputs_;
  std::vector<Sequence> sequences_;
  std::vector<ProgramPtr> programs_;
  std::vector<std::unique_ptr<State>> states_;  // one for each sequence
  std::string engine_;
};

// Memory that a run will take besides the message.
int64_t RunBytes(const OpSpec& spec, const RunPlan& plan);

}  // namespace rnnserve
