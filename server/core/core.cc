// SPDX-License-Identifier: Apache-2.0
#include "server/core/core.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/out_of_memory.h"
#include "base/rejection.h"
#include "base/status_macros.h"
#include "server/core/reply_limit.h"
#include "server/core/target.h"
#include "server/routing/choose_engine.h"
#include "server/routing/verifier.h"

namespace rnnserve {
namespace {

// Filling more than this takes too long for a thread that others wait for.
constexpr int64_t kLongBytes = 1 << 20;

absl::Status InLayer(const StackSpec& stack, size_t layer, const absl::Status& status) {
  if (stack.layers.size() == 1 || FieldOf(status)) return status;
  absl::Status told(status.code(), absl::StrCat("layer ", layer, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
  return told;
}

int64_t LongestRow(const RunPlan& plan) { return plan.lengths.empty() ? 0 : std::ranges::max(plan.lengths); }

}  // namespace

Core::Core(Options options, std::vector<const Engine*> engines, ModelStore* models, ProgramCache* programs,
           Scheduler* scheduler)
    : options_(options),
      engines_(std::move(engines)),
      models_(models),
      programs_(programs),
      scheduler_(scheduler),
      budget_(options.max_bytes_in_flight, options.memory),
      router_(options.routing, engines_, programs) {}

absl::Status Core::CheckEngineName(std::string_view name) const { return rnnserve::CheckEngineName(engines_, name); }

const CallMetrics* Core::CallsOfNamed(std::string_view name) const {
  return CallsOf(models_->Get(name, std::nullopt).ok() ? name : kUnknownModel);
}

absl::StatusOr<ByteBudget::Share> Core::TakeMemory(uint64_t caller, int64_t bytes) {
  // A call that is alone is always admitted.
  MemoryWatch* const memory = budget_.used() == 0 ? nullptr : options_.memory;
  if (memory != nullptr && !memory->TryPromise(ByteBudget::Twice(bytes))) {
    return Overloaded(Rejection::kMemory,
                      absl::StrCat("the server is close to the ", options_.memory->limit(),
                                   " bytes that it may take, and this request needs ", bytes, "; send it again later"));
  }
  std::optional<ByteBudget::Share> share = budget_.Take(caller, bytes);
  if (memory != nullptr) memory->Promise(-ByteBudget::Twice(bytes));  // the share has promised as much
  if (share) return *std::move(share);
  return Overloaded(Rejection::kMemory,
                    absl::StrCat("requests in flight hold ", budget_.used(), " of ", budget_.bytes(), " bytes, ",
                                 budget_.held(caller), " of them this caller's, and this one needs ", bytes,
                                 "; send it again later"));
}

absl::StatusOr<InferRunPtr> Core::Reserve(std::shared_ptr<const ResolvedModel> model, RunPlan&& plan,
                                          const RequestOrigin& origin) {
  const RouteLoad load = {.rows = plan.rows, .steps = LongestRow(plan)};
  const int64_t bytes = RunBytes(model->model->stack(), plan);
  ASSIGN_OR_RETURN(ByteBudget::Share share, TakeMemory(origin.caller_id, bytes));
  return std::make_unique<InferRun>(origin, std::move(model), std::move(plan), load, bytes, std::move(share),
                                    bytes > kLongBytes);
}

absl::StatusOr<Routes> Core::Choose(const ResolvedModel& model, const RouteLoad& load) {
  Routes routes;
  for (size_t layer = 0; layer < model.model->layers().size(); ++layer) {
    absl::StatusOr<Route> route = router_.Choose(model.engine, model.cells(layer), model.engine_options, load);
    if (!route.ok()) return InLayer(model.model->stack(), layer, route.status());
    routes.push_back(*std::move(route));
  }
  return routes;
}

bool Core::IsReady(const ResolvedModel& model, const Routes& routes) const {
  for (size_t layer = 0; layer < routes.size(); ++layer) {
    const auto is_packed = [&](const CellPtr& cell) {
      return programs_->Holds(*routes[layer].engine, *cell, model.engine_options);
    };
    if (routes[layer].is_provisional || !std::ranges::all_of(model.cells(layer), is_packed)) return false;
  }
  return true;
}

void Core::Settle(const ResolvedModel& model, Routes& routes) {
  for (size_t layer = 0; layer < routes.size(); ++layer) {
    if (!routes[layer].is_provisional) continue;
    routes[layer] = {.engine = router_.Settle(routes[layer], model.cells(layer), model.engine_options)};
  }
}

absl::StatusOr<EngineSet> Core::EnginesOf(const ResolvedModel& model, const Routes& routes) {
  EngineSet set;
  for (const Route& route : routes) {
    auto& own = set.programs.emplace_back();
    for (const CellPtr& cell : model.cells(set.engines.size())) {
      ASSIGN_OR_RETURN(ProgramPtr program, programs_->Get(*route.engine, cell, model.engine_options));
      own.push_back(std::move(program));
    }
    set.engines.push_back(route.engine);
  }
  set.names = EngineNames(set.engines);
  return set;
}

absl::StatusOr<InferRunPtr> Core::Accept(const InferCall& call) {
  ASSIGN_OR_RETURN(auto&& found, ResolveTarget(call, *models_));
  const auto resolved = MakeRecycled<const ResolvedModel>(std::move(found));
  ASSIGN_OR_RETURN(auto&& plan, Plan(*resolved, call.inputs, call.outputs));
  ASSIGN_OR_RETURN(auto&& routes, Choose(*resolved, {.rows = plan.rows, .steps = LongestRow(plan)}));
  const bool is_ready = IsReady(*resolved, routes);
  ASSIGN_OR_RETURN(InferRunPtr run, Reserve(resolved, std::move(plan), call));
  AcceptedCall& accepted = run->call();
  accepted.routes = std::move(routes);
  accepted.verify = options_.verifier != nullptr && options_.verifier->Sample();
  accepted.takes_long |= accepted.verify || !is_ready;
  return run;
}

absl::StatusOr<RunPlan> Core::Plan(const ResolvedModel& model, std::span<const NamedTensor> inputs,
                                   std::span<const std::string> outputs) const {
  KnownPlans& known = model.model->plans();
  if (std::optional<RunPlan> plan = known.Find(inputs, outputs, model.run_options)) return *std::move(plan);
  const StackSpec& stack = model.model->stack();
  absl::StatusOr<RunPlan> plan = PlanRun(stack, inputs, outputs, model.run_options);
  if (!plan.ok()) return plan;
  RETURN_IF_ERROR(CheckSize(stack, *plan,
                            {.sequences = options_.max_sequences,
                             .tensor_elements = options_.max_tensor_elements,
                             .steps = options_.max_steps,
                             .reply_bytes = options_.max_reply_bytes,
                             .bytes_between = options_.max_bytes_in_flight}));
  known.Keep(inputs, outputs, model.run_options, *plan);
  return plan;
}

absl::StatusOr<InferRunPtr> Core::AcceptPinned(PinnedModelPtr pinned, RunPlan&& plan, const RequestOrigin& origin) {
  ASSIGN_OR_RETURN(InferRunPtr run, Reserve(pinned, std::move(plan), origin));
  AcceptedCall& accepted = run->call();
  accepted.verify = pinned->second != nullptr && options_.verifier->Sample();
  accepted.takes_long |= accepted.verify;
  accepted.pinned = std::move(pinned);
  return run;
}

void Core::Run(InferRunPtr run, InferDone done) {
  AcceptedCall& call = run->call();
  Settle(*call.resolved, call.routes);
  if (call.verify) return RunOnTwo(std::move(run), std::move(done));
  Start(std::move(run), std::move(done));
}

void Core::Count(EngineSet& set, std::string_view label) const {
  if (options_.metrics != nullptr) set.metrics = options_.metrics->Of(label, set.names);
}

void Core::Start(InferRunPtr run, InferDone done) {
  absl::Status ready = OrOutOfMemory([&] {
    run->MakeMemory();
    return absl::OkStatus();
  });
  if (const AcceptedCall& call = run->call(); ready.ok() && !run->is_over() && call.pinned == nullptr) {
    absl::StatusOr<EngineSet> engines = EnginesOf(*call.resolved, call.routes);
    if (engines.ok()) {
      Count(*engines, call.resolved->label);
      run->UseEngines(*std::move(engines));
    } else {
      ready = engines.status();
    }
  }
  InferRun::Start(std::move(run), std::move(ready), &router_, scheduler_, std::move(done));
}

}  // namespace rnnserve
