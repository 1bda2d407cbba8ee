// SPDX-License-Identifier: Apache-2.0
// The maps of one run of a pipeline, and the memory between its stages: each stream lives from the stage that gives it
// to the last one that takes it.
//
//   MapRun maps(stack, plan, outputs, programs);
//   SequenceTasks tasks = maps.Start(0);   // a sequence a row; all of them run
//   maps.Finish(0);
//   ... MakeSequences(stack, plan, {}, 0, maps.LayerMemory(0)) ...
//   maps.Finish(1);
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/map/map_program.h"
#include "engine/op/stack.h"
#include "server/batching/scheduler.h"

namespace rnnserve {

class MapRun {
 public:
  // Stages are the pipeline's. `outputs` is memory of plan.outputs; all but `programs` outlive this.
  MapRun(const StackSpec& stack, const RunPlan& plan, std::span<std::byte* const> outputs,
         std::vector<ProgramPtr> programs);

  size_t stages() const { return LayerStage(stack_.layers.size()) + 1; }
  bool is_layer(size_t stage) const { return stage > 0 && stage % 2 == 0 && stage + 1 < stages(); }
  size_t layer(size_t stage) const { return stage / 2 - 1; }

  bool has_work(size_t stage) const;
  // The tasks of a map stage: one for each row that has steps; of what is computed once a row, one for each row.
  SequenceTasks Start(size_t stage);
  // The memory between which a layer runs: its inputs and outputs.
  Between LayerMemory(size_t stage);
  // Once the stage has run, or has had nothing to do.
  void Finish(size_t stage);

 private:
  bool is_once(size_t stage) const { return stage == 0 || stage + 1 == stages(); }
  const MapUse& UseOf(size_t stage) const;
  // Memory of a place, made if it is not there.
  std::byte* Room(int place);
  // Gives the rows that end before the others what lies beyond their ends.
  void BeginBeyond(const Place& place, std::byte* memory) const;
  // Steps of the others beyond the row's end.
  int64_t StepsBeyond(int64_t row) const { return plan_.steps - plan_.lengths[static_cast<size_t>(row)]; }
  MapRow::In Source(int place, int64_t row);
  MapRow::Out ToPlace(const MapUse::Target& target, int64_t row);
  MapRow::Out ToOutput(int output, int64_t row) const;

  const StackSpec& stack_;
  const Pipeline& pipeline_;
  const RunPlan& plan_;
  const std::span<std::byte* const> outputs_;
  const std::vector<ProgramPtr> programs_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;  // of each place; a layer's final states lie at their first place
  std::vector<std::unique_ptr<State>> rows_;          // of the stage that runs
};

// The most that the places of a run take at one time; INT64_MAX if it cannot be counted.
int64_t PlaceBytes(const StackSpec& stack, const RunPlan& plan);

}  // namespace rnnserve
