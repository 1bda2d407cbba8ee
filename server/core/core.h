// SPDX-License-Identifier: Apache-2.0
// The one entry of every dialect: takes a core request, finds the model, makes sequences, gives them to the scheduler,
// completes. Knows neither gRPC nor protobuf. docs/architecture.md has the life of a request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "server/admission/byte_budget.h"
#include "server/admission/memory_watch.h"
#include "server/batching/scheduler.h"
#include "server/core/call.h"
#include "server/core/infer_run.h"
#include "server/models/model_store.h"
#include "server/models/program_cache.h"
#include "server/routing/router.h"
#include "server/telemetry/model_calls.h"
#include "server/telemetry/work_metrics.h"

namespace rnnserve {

class Verifier;

class Core {
 public:
  struct Options {
    // Bytes of a reply's tensors; larger ones are refused before anything is computed, naming what to drop.
    int64_t max_reply_bytes = 64 << 20;
    // Rows times directions of a request: each costs a few hundred bytes besides its data.
    int64_t max_sequences = 1 << 20;
    // Elements of X or of an output, and steps.
    int64_t max_tensor_elements = int64_t{1} << 26;
    int64_t max_steps = 1 << 24;
    // Bytes of outputs and states of all requests that wait or run; RESOURCE_EXHAUSTED above. No caller gets all of
    // them (FairBound).
    int64_t max_bytes_in_flight = int64_t{1} << 30;
    // Whether the process has memory for them; outlives the core. Null: only the bounds above hold.
    MemoryWatch* memory = nullptr;
    // Where work is counted; outlives the core. Null: nowhere.
    WorkMetricsTable* metrics = nullptr;
    ModelCalls* calls = nullptr;
    RoutingOptions routing = {};
    // Runs some calls twice (verifier.h); outlives the core. Null: none.
    Verifier* verifier = nullptr;
  };
  // `engines`: their order decides where nothing is measured. All pointers outlive the core.
  Core(Options options, std::vector<const Engine*> engines, ModelStore* models, ProgramCache* programs,
       Scheduler* scheduler);

  // Finds the model, makes every check, chooses the engine.
  absl::StatusOr<InferRunPtr> Accept(const InferCall& call);
  // Resolves and packs what `call` names, weights among its inputs, for the engine that is best at `load`; the rest of
  // the call is not looked at. May measure engines, so it may take long.
  absl::StatusOr<PinnedModel> Pin(const InferCall& call, const RouteLoad& load);
  // Runs one step of a model that is about to get its name (ModelStore::SetWarmUp), 10 s at most, and writes how it
  // went into it. An error: the model cannot run. Blocks; not on the poller thread.
  absl::Status WarmUp(LoadedModel& loaded);
  // Accept for a pinned model, in two parts. The plan follows from shapes, lengths and the model alone: the same inputs
  // and outputs always have the same.
  absl::StatusOr<RunPlan> Plan(const ResolvedModel& model, std::span<const NamedTensor> inputs,
                               std::span<const std::string> outputs) const;
  // Sets memory aside. The states are the caller's to set.
  absl::StatusOr<InferRunPtr> AcceptPinned(PinnedModelPtr pinned, RunPlan&& plan, const RequestOrigin& origin);
  // `done` is called exactly once: on this thread for refusals and empty cases, else on a scheduler thread.
  void Run(InferRunPtr run, InferDone done);

  // Sets memory aside for a reply to `caller` (caller_id of an InferCall); RESOURCE_EXHAUSTED while requests hold all
  // there is, or all that this caller may have.
  absl::StatusOr<ByteBudget::Share> TakeMemory(uint64_t caller, int64_t bytes);

  // Where answers to calls of a model are counted, by its label; null: nowhere.
  const CallMetrics* CallsOf(std::string_view label) const {
    return options_.calls == nullptr ? nullptr : &options_.calls->Of(label);
  }
  // The same by the name that a caller gave; kUnknownModel where no such model is loaded.
  const CallMetrics* CallsOfNamed(std::string_view name) const;

  // OK for "", "auto" and the engines of this server, else INVALID_ARGUMENT (field `engine`) with their names.
  absl::Status CheckEngineName(std::string_view name) const;

  ModelStore& models() { return *models_; }
  const ProgramCache& programs() const { return *programs_; }
  const std::vector<const Engine*>& engines() const { return engines_; }
  Router& router() { return router_; }
  // What requests hold of max_bytes_in_flight.
  int64_t bytes_in_flight() const { return budget_.used(); }

 private:
  // `plan` of `model`, with memory set aside for a run of it.
  absl::StatusOr<InferRunPtr> Reserve(std::shared_ptr<const ResolvedModel> model, RunPlan&& plan,
                                      const RequestOrigin& origin);
  // The engine of each layer.
  absl::StatusOr<Routes> Choose(const ResolvedModel& model, const RouteLoad& load);
  // Whether there is nothing to pack and nothing to measure.
  bool IsReady(const ResolvedModel& model, const Routes& routes) const;
  // Measures those that are provisional.
  void Settle(const ResolvedModel& model, Routes& routes);
  // Without metrics.
  absl::StatusOr<EngineSet> EnginesOf(const ResolvedModel& model, const Routes& routes);
  // Without metrics, and without a second engine.
  absl::StatusOr<PinnedModel> PinResolved(ResolvedModel resolved, const RouteLoad& load);
  // Runs one step of one row; returns the names of its engines.
  absl::StatusOr<std::string> RunOneStep(const LoadedModel& loaded);
  void Start(InferRunPtr run, InferDone done);
  // Has the set's runs counted.
  void Count(EngineSet& set, std::string_view label) const;
  // Start, on a second engine as well where there is one.
  void RunOnTwo(InferRunPtr run, InferDone done);
  // The same call for another engine; null if none can run it or its memory does not fit.
  InferRunPtr OnAnotherEngine(const AcceptedCall& call);

  Options options_;
  std::vector<const Engine*> engines_;
  ModelStore* models_;
  ProgramCache* programs_;
  Scheduler* scheduler_;
  ByteBudget budget_;
  Router router_;
};

}  // namespace rnnserve
