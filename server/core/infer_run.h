// SPDX-License-Identifier: Apache-2.0
// One accepted call: output buffers, sequences and their states, from acceptance to the reply. Its stages run one after
// the other, each on the memory that those before filled. A stage is a layer or, in a pipeline, a map:
//
//   InferRun run(model, plan, share);
//   while (!run.done()) {
//     absl::StatusOr<SequenceTasks> tasks = run.StartStage(programs);
//     ...                                            // all of them run
//     absl::Status status = run.FinishStage();
//   }
//   InferReply reply = run.Finish(outcome, engine);
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/admission/byte_budget.h"
#include "server/core/call.h"
#include "server/core/map_run.h"

namespace rnnserve {

class InferRun {
 public:
  // `plan` is of `model` and points into the caller's message; `share` covers RunBytes(...). With `kept`, the run
  // starts from those states instead of the plan's, rows of length 0 keep theirs, and the reply has the new ones.
  // Maps run in one order of sums if `deterministic`.
  InferRun(ModelPtr model, RunPlan&& plan, ByteBudget::Share share, std::optional<RunStates>&& kept = {},
           bool deterministic = false);

  // Whether no stage has anything to compute any more.
  bool done() const { return sequences_.empty() && !in_map_; }
  bool keeps_states() const { return kept_.has_value(); }
  // The layer to start next; meaningless in a map.
  size_t layer() const { return layer_; }
  bool in_map() const { return in_map_; }

  // Makes the states. `programs` holds those of each layer, one a direction. A state that cannot be made or gone on
  // from fails this call here: inside a batch it would fail the others'.
  // `programs` outlives the run.
  absl::StatusOr<SequenceTasks> StartStage(const LayerPrograms& programs);
  // Once all of its tasks have run: exports a layer's final states and goes on to the next stage.
  absl::Status FinishStage();

  // The reply, once done(). `engine`: what ran.
  InferReply Finish(const ScheduleOutcome& outcome, std::string engine);

 private:
  bool last() const { return layer_ + 1 == model_->stack().layers.size(); }
  void MakeLayer();
  // The next stage of a pipeline that has something to compute, from `stage_` on.
  void MakeStage();
  absl::Status FinishLayer();
  size_t IndexOf(const Sequence& sequence) const;

  ModelPtr model_;
  RunPlan plan_;
  ByteBudget::Share share_;  // moves into the reply
  std::optional<RunStates> kept_;
  OutputTensors outputs_;
  absl::InlinedVector<std::byte*, 3> buffers_;  // of outputs_

  size_t layer_ = 0;
  std::optional<MapRun> maps_;  // of a pipeline
  size_t stage_ = 0;            // of it
  bool in_map_ = false;
  // What the layers give each other: this layer writes one and reads the other.
  std::array<std::unique_ptr<std::byte[]>, 2> between_;
  LayerSequences sequences_;                               // of this layer
  std::span<const ProgramPtr> programs_;                   // of this layer
  absl::InlinedVector<std::unique_ptr<State>, 1> states_;  // one for each sequence
};

// Memory that a run will take besides the message.
int64_t RunBytes(const StackSpec& stack, const RunPlan& plan);

// Memory between the layers, of that.
int64_t BetweenBytes(const StackSpec& stack, const RunPlan& plan);

}  // namespace rnnserve
