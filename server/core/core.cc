// SPDX-License-Identifier: Apache-2.0
#include "server/core/core.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/out_of_memory.h"
#include "base/recycled.h"
#include "base/rejection.h"
#include "base/status_macros.h"
#include "server/core/infer_run.h"
#include "server/core/layer_chain.h"
#include "server/core/reply_limit.h"
#include "server/core/target.h"
#include "server/routing/choose_engine.h"
#include "server/routing/second_engine.h"
#include "server/routing/verified_reply.h"
#include "server/routing/verifier.h"

namespace rnnserve {
namespace {

// Filling more than this takes too long for a thread that others wait for.
constexpr int64_t kLongBytes = 1 << 20;

// Of a call that is not pinned.
absl::StatusOr<EngineSet> EnginesOf(ProgramCache& cache, const AcceptedCall& call) {
  EngineSet set;
  for (const Route& route : call.routes) {
    auto& own = set.programs.emplace_back();
    for (const CellPtr& cell : call.cells(set.engines.size())) {
      ASSIGN_OR_RETURN(ProgramPtr program, cache.Get(*route.engine, cell, call.engine_options));
      own.push_back(std::move(program));
    }
    set.engines.push_back(route.engine);
  }
  return set;
}

absl::Status InLayer(const StackSpec& stack, size_t layer, const absl::Status& status) {
  if (stack.layers.size() == 1 || FieldOf(status)) return status;
  absl::Status told(status.code(), absl::StrCat("layer ", layer, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { told.SetPayload(url, payload); });
  return told;
}

// "cpu", or "cpu, onednn".
std::string EngineNames(std::span<const Engine* const> engines) {
  if (engines.size() == 1) return std::string(engines[0]->name());
  std::set<std::string_view> names;
  for (const Engine* engine : engines) names.insert(engine->name());
  return absl::StrJoin(names, ", ", [](std::string* out, std::string_view name) { out->append(name); });
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

absl::Status Core::CheckSize(const StackSpec& stack, const RunPlan& plan) const {
  absl::Status fits = CheckSequences(stack, plan, options_.max_sequences);
  if (fits.ok()) fits = CheckShapes(plan, options_.max_tensor_elements, options_.max_steps);
  if (fits.ok()) fits = CheckReplyBytes(plan, options_.max_reply_bytes);
  if (fits.ok()) fits = CheckBetween(BetweenBytes(stack, plan), options_.max_bytes_in_flight);
  return fits;
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

absl::StatusOr<AcceptedCall> Core::Reserve(const ResolvedModel& model, RunPlan plan, const RouteLoad& load,
                                           const InferCall& call) {
  const int64_t bytes = RunBytes(model.model->stack(), plan);
  ASSIGN_OR_RETURN(ByteBudget::Share share, TakeMemory(call.caller_id, bytes));
  return AcceptedCall{{.model = model.model,
                       .plan = std::move(plan),
                       .load = load,
                       .clip_cell_input = model.run_options.clip_cell_input,
                       .engine_options = model.engine_options,
                       .priority = call.priority,
                       .caller_id = call.caller_id,
                       .bytes = bytes,
                       .deadline = call.deadline,
                       .cancelled = call.cancelled,
                       .label = model.label,
                       .takes_long = bytes > kLongBytes},
                      std::move(share)};
}

absl::StatusOr<AcceptedCall> Core::Accept(const InferCall& call) {
  ASSIGN_OR_RETURN(auto&& resolved, ResolveTarget(call, *models_));
  const StackSpec& stack = resolved.model->stack();
  ASSIGN_OR_RETURN(auto&& plan, PlanRun(stack, call.inputs, call.outputs, resolved.run_options));
  RETURN_IF_ERROR(CheckSize(stack, plan));

  const RouteLoad load = {.rows = plan.rows, .steps = LongestRow(plan)};
  absl::InlinedVector<Route, 1> routes;
  bool is_ready = true;  // nothing to pack, nothing to measure
  for (const ModelLayer& layer : resolved.model->layers()) {
    const std::vector<CellPtr>& cells = layer.cells(resolved.run_options.clip_cell_input);
    absl::StatusOr<Route> route = router_.Choose(resolved.engine, cells, resolved.engine_options, load);
    if (!route.ok()) return InLayer(stack, routes.size(), route.status());
    is_ready &= !route->is_provisional && std::ranges::all_of(cells, [&](const CellPtr& cell) {
      return programs_->Holds(*route->engine, *cell, resolved.engine_options);
    });
    routes.push_back(*std::move(route));
  }
  absl::StatusOr<AcceptedCall> accepted = Reserve(resolved, std::move(plan), load, call);
  if (!accepted.ok()) return accepted;
  accepted->routes = std::move(routes);
  accepted->verify = options_.verifier != nullptr && options_.verifier->Sample();
  accepted->takes_long |= accepted->verify || !is_ready;
  return accepted;
}

absl::StatusOr<PinnedModel> Core::Pin(const InferCall& call, const RouteLoad& load) {
  ASSIGN_OR_RETURN(auto&& resolved, ResolveTarget(call, *models_));
  absl::StatusOr<PinnedModel> pinned = PinResolved(std::move(resolved), load);
  if (!pinned.ok()) return pinned;
  Name(pinned->engines, pinned->label);
  if (options_.verifier == nullptr) return pinned;
  if (std::optional<PinnedModel> second = PinOnSecondEngine(*pinned, router_, *programs_)) {
    Name(second->engines, kVerifiedModel);
    pinned->second = std::make_shared<const PinnedModel>(*std::move(second));
  }
  return pinned;
}

absl::StatusOr<PinnedModel> Core::PinResolved(ResolvedModel resolved, const RouteLoad& load) {
  PinnedModel pinned = {std::move(resolved), {}};
  for (const ModelLayer& layer : pinned.model->layers()) {
    const std::vector<CellPtr>& cells = layer.cells(pinned.run_options.clip_cell_input);
    absl::StatusOr<Route> route = router_.Choose(pinned.engine, cells, pinned.engine_options, load);
    if (!route.ok()) return InLayer(pinned.model->stack(), pinned.engines.engines.size(), route.status());
    pinned.engines.engines.push_back(router_.Settle(*route, cells, pinned.engine_options));
    auto& programs = pinned.engines.programs.emplace_back();
    for (const CellPtr& cell : cells) {
      ASSIGN_OR_RETURN(ProgramPtr program, programs_->Get(*pinned.engines.engines.back(), cell, pinned.engine_options));
      programs.push_back(std::move(program));
    }
  }
  pinned.engines.names = EngineNames(pinned.engines.engines);
  return pinned;
}

absl::StatusOr<RunPlan> Core::PlanPinned(const PinnedModel& pinned, std::span<const NamedTensor> inputs,
                                         std::span<const std::string> outputs) const {
  const StackSpec& stack = pinned.model->stack();
  absl::StatusOr<RunPlan> plan = PlanRun(stack, inputs, outputs, pinned.run_options);
  if (!plan.ok()) return plan;
  RETURN_IF_ERROR(CheckSize(stack, *plan));
  return plan;
}

absl::StatusOr<AcceptedCall> Core::AcceptPinned(PinnedModelPtr pinned, RunPlan plan, const InferCall& call) {
  const RouteLoad load = {.rows = plan.rows, .steps = LongestRow(plan)};
  absl::StatusOr<AcceptedCall> accepted = Reserve(*pinned, std::move(plan), load, call);
  if (!accepted.ok()) return accepted;
  accepted->verify = pinned->second != nullptr && options_.verifier->Sample();
  accepted->takes_long |= accepted->verify;
  accepted->pinned = std::move(pinned);
  return accepted;
}

void Core::Run(AcceptedCall&& call, InferDone done) {
  for (size_t layer = 0; layer < call.routes.size(); ++layer) {
    call.routes[layer] = {.engine = router_.Settle(call.routes[layer], call.cells(layer), call.engine_options)};
  }
  std::optional<AcceptedCall> again = call.verify ? OnAnotherEngine(call) : std::nullopt;
  if (!again) return Start(std::move(call), std::move(done));
  auto both =
      std::make_shared<VerifiedReply>(options_.verifier, call.label, call.engine_options.weights, std::move(done));
  again->label = std::string(kVerifiedModel);
  Start(std::move(call), [both](absl::StatusOr<InferReply> reply) { both->First(std::move(reply)); });
  Start(*std::move(again), [both](absl::StatusOr<InferReply> reply) { both->Second(std::move(reply)); });
}

std::optional<AcceptedCall> Core::OnAnotherEngine(const AcceptedCall& call) {
  const PinnedModelPtr pinned = call.pinned != nullptr ? call.pinned->second : nullptr;
  absl::InlinedVector<Route, 1> routes = call.routes;
  bool differ = pinned != nullptr;
  if (call.states && !differ) return std::nullopt;  // they belong to the programs that made them
  // What narrow weights cost is seen beside those as given, which other engines need anyway.
  EngineOptions options = call.engine_options;
  options.weights = WeightType::kAsGiven;
  for (size_t layer = 0; layer < routes.size(); ++layer) {
    const Engine* engine = router_.Another(routes[layer].engine, call.cells(layer), options);
    if (engine == nullptr) continue;
    routes[layer].engine = engine;
    differ = true;
  }
  if (!differ) return std::nullopt;
  std::optional<ByteBudget::Share> memory = budget_.Take(call.caller_id, call.bytes);
  if (!memory) return std::nullopt;
  AcceptedCall again{call, *std::move(memory)};
  again.routes = std::move(routes);
  again.engine_options = options;
  again.pinned = pinned;
  if (!call.states) return again;
  again.states = StatesFor(*pinned, *call.pinned, *call.states);
  if (!again.states) return std::nullopt;
  return again;
}

void Core::Name(EngineSet& set, std::string_view label) const {
  set.names = EngineNames(set.engines);
  if (options_.metrics != nullptr) set.metrics = options_.metrics->Of(label, set.names);
}

void Core::Start(AcceptedCall&& call, InferDone done) {
  auto made = OrOutOfMemory([&]() -> absl::StatusOr<std::shared_ptr<LayerChain>> {
    return MakeRecycled<LayerChain>(std::move(call), &router_, scheduler_);
  });
  if (!made.ok()) return done(made.status());
  LayerChain& chain = **made;
  if (chain.is_over() || chain.call().pinned != nullptr) return chain.Start({}, std::move(done));
  absl::StatusOr<EngineSet> engines = EnginesOf(*programs_, chain.call());
  if (!engines.ok()) return chain.Refuse(engines.status(), std::move(done));
  Name(*engines, chain.call().label);
  chain.Start(*std::move(engines), std::move(done));
}

void Core::Infer(const InferCall& call, InferDone done) {
  absl::StatusOr<AcceptedCall> accepted = Accept(call);
  if (!accepted.ok()) return done(accepted.status());
  Run(*std::move(accepted), std::move(done));
}

}  // namespace rnnserve
