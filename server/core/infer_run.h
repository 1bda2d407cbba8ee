// SPDX-License-Identifier: Apache-2.0
// One accepted call in flight: output buffers, sequences and their states, from acceptance to the reply. Its stages go
// through the scheduler one after the other, each on the memory that those before filled. A stage is a layer or, in a
// pipeline, a map: the sequences of different requests meet in each stage's programs, and a deadline or cancellation
// between stages ends the run before the next one is paid for.
//
//   auto run = std::make_unique<InferRun>(origin, model, plan, ...);      // an AcceptedCall
//   run->MakeMemory();
//   run->UseEngines(std::move(engines));
//   InferRun::Start(std::move(run), ready, &router, &scheduler, done);
//
// Without a scheduler, once there is memory:
//
//   while (!run.is_over()) {
//     absl::StatusOr<SequenceTasks> tasks = run.StartStage(programs);
//     ...                                            // all of them run
//     absl::Status status = run.FinishStage();
//   }
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/recycled.h"
#include "engine/engine.h"
#include "server/batching/scheduler.h"
#include "server/core/accepted_call.h"
#include "server/core/map_run.h"

namespace rnnserve {

class InferRun;
using InferRunPtr = std::unique_ptr<InferRun>;

class InferRun : public Recycled {
 public:
  // Of an AcceptedCall's members.
  template <typename... Members>
  explicit InferRun(Members&&... members) : call_{std::forward<Members>(members)...} {}
  InferRun(const InferRun&) = delete;
  InferRun& operator=(const InferRun&) = delete;

  AcceptedCall& call() { return call_; }
  const AcceptedCall& call() const { return call_; }
  // Running it takes long on its thread: it packs weights, measures engines, or fills much memory.
  bool takes_long() const { return call_.takes_long; }
  // Makes the memory of the outputs, and the first stage. The call does not change any more.
  void MakeMemory();

  // Whether no stage has anything to compute any more.
  bool is_over() const { return sequences_.empty() && !in_map_; }
  bool in_map() const { return in_map_; }

  // Of a call that is neither pinned nor over.
  void UseEngines(EngineSet engines) { own_engines_ = std::move(engines); }
  // Goes on until all stages are done or something fails; `ready`: an error ends it at once. Destroys the run before it
  // calls `done`: the run points into the caller's message, which the caller may free. `router` and `scheduler` outlive
  // the run; the router is told what has run.
  static void Start(InferRunPtr run, absl::Status ready, Router* router, Scheduler* scheduler, InferDone done);

  // Makes the states. `programs` holds those of each layer, one a direction, and outlives the run. A state that cannot
  // be made or gone on from fails this call here: inside a batch it would fail the others'.
  absl::StatusOr<SequenceTasks> StartStage(const LayerPrograms& programs);
  // Once all of its tasks have run: exports a layer's final states and goes on to the next stage.
  absl::Status FinishStage();

 private:
  static void Next(InferRunPtr run);
  static void Schedule(InferRunPtr run, SequenceTasks tasks);
  static void StageRan(InferRunPtr run, const ScheduleOutcome& outcome);
  static void End(InferRunPtr run, absl::StatusOr<InferReply>&& reply);

  const StackSpec& stack() const { return call_.resolved->model->stack(); }
  bool last() const { return layer_ + 1 == stack().layers.size(); }
  void MakeLayer();
  // The next stage of a pipeline that has something to compute, from `stage_` on.
  void MakeStage();
  absl::Status FinishLayer();
  size_t IndexOf(const Sequence& sequence) const;
  // Once it is over.
  absl::StatusOr<InferReply> TakeReply();

  AcceptedCall call_;
  Router* router_ = nullptr;
  Scheduler* scheduler_ = nullptr;
  EngineSet own_engines_;
  const EngineSet* engines_ = nullptr;  // null: nothing is computed
  InferDone done_;
  InferReply reply_;                            // as far as it is known
  absl::InlinedVector<std::byte*, 3> buffers_;  // of its outputs
  bool first_ = true;                           // no stage has run yet

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

}  // namespace rnnserve
