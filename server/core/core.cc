// SPDX-License-Identifier: Apache-2.0
#include "server/core/core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/choose_engine.h"
#include "server/core/infer_run.h"
#include "server/core/nonfinite.h"
#include "server/core/reply_limit.h"
#include "server/core/target.h"
#include "server/core/verified_reply.h"
#include "server/core/verifier.h"
#include "server/telemetry/rejection.h"

namespace rnnserve {
namespace {

// Filling more than this takes too long for a thread that others wait for.
constexpr int64_t kLongBytes = 1 << 20;

absl::StatusOr<std::vector<ProgramPtr>> Programs(ProgramCache& cache, const Engine& engine,
                                                 std::span<const CellPtr> cells, const EngineOptions& options) {
  std::vector<ProgramPtr> programs;
  for (const CellPtr& cell : cells) {
    absl::StatusOr<ProgramPtr> program = cache.Get(engine, cell, options);
    if (!program.ok()) return program.status();
    programs.push_back(*std::move(program));
  }
  return programs;
}

void Count(const InferReply& reply, const WorkMetrics& metrics) {
  metrics.queue_duration->Observe(reply.queue_time);
  metrics.compute_duration->Observe(reply.compute_time);
  const auto is_nonfinite = [](const OutputTensor& output) { return HasNonfinite(output.type, output.bytes); };
  if (std::ranges::any_of(reply.outputs, is_nonfinite)) metrics.nonfinite_outputs->Add();
}

int64_t LongestRow(const RunPlan& plan) { return plan.lengths.empty() ? 0 : std::ranges::max(plan.lengths); }

// A call brings all it needs: what a failed device took with it can be computed again.
absl::StatusOr<InferReply> WithoutLoss(absl::StatusOr<InferReply> reply) {
  if (!absl::IsDataLoss(reply.status())) return reply;
  return absl::UnavailableError(
      absl::StrCat(reply.status().message(), "; nothing of this call is lost, send it again"));
}

}  // namespace

Core::Core(Options options, std::vector<const Engine*> engines, ModelStore* models, ProgramCache* programs,
           Scheduler* scheduler)
    : options_(options),
      engines_(std::move(engines)),
      models_(models),
      programs_(programs),
      scheduler_(scheduler),
      budget_(options.max_bytes_in_flight),
      router_(options.routing, engines_, programs) {}

absl::Status Core::CheckEngineName(std::string_view name) const { return rnnserve::CheckEngineName(engines_, name); }

absl::StatusOr<AcceptedCall> Core::Accept(const InferCall& call) {
  absl::StatusOr<Target> target = ResolveTarget(call, *models_);
  if (!target.ok()) return target.status();
  const OpSpec& spec = target->model->spec();
  absl::StatusOr<RunPlan> plan = PlanRun(spec, call.inputs, call.outputs, target->run_options);
  if (!plan.ok()) return plan.status();
  absl::Status fits = CheckSequences(spec, *plan, options_.max_sequences);
  if (fits.ok()) fits = CheckReplyBytes(*plan, options_.max_reply_bytes);
  if (!fits.ok()) return fits;

  const std::vector<CellPtr>& cells = target->model->cells(target->run_options.clip_cell_input);
  const RouteLoad load = {.rows = plan->rows, .steps = LongestRow(*plan)};
  absl::StatusOr<Route> route = router_.Choose(target->engine, cells, target->engine_options, load);
  if (!route.ok()) return route.status();

  const int64_t bytes = RunBytes(spec, *plan);
  std::optional<ByteBudget::Share> share = budget_.Take(bytes);
  if (!share) {
    return Overloaded(Rejection::kMemory,
                      absl::StrCat("requests in flight hold ", budget_.used(), " of ", budget_.bytes(),
                                   " bytes, and this one needs ", bytes, "; send it again later"));
  }
  const auto is_packed = [&](const CellPtr& cell) {
    return programs_->Holds(*route->engine, *cell, target->engine_options);
  };
  const bool verify = options_.verifier != nullptr && options_.verifier->Sample();
  const bool takes_long =
      bytes > kLongBytes || verify || route->is_provisional || !std::ranges::all_of(cells, is_packed);
  return AcceptedCall{.model = target->model,
                      .plan = *std::move(plan),
                      .memory = *std::move(share),
                      .route = *std::move(route),
                      .load = load,
                      .cells = cells,
                      .engine_options = target->engine_options,
                      .priority = call.priority,
                      .tenant = call.tenant,
                      .bytes = bytes,
                      .deadline = call.deadline,
                      .cancelled = call.cancelled,
                      .label = target->label,
                      .takes_long = takes_long,
                      .verify = verify};
}

void Core::Run(AcceptedCall call, Done done) {
  call.route = {.engine = router_.Settle(call.route, call.cells, call.engine_options)};
  std::optional<AcceptedCall> again = call.verify ? OnAnotherEngine(call) : std::nullopt;
  if (!again) return Start(std::move(call), std::move(done));
  auto both = std::make_shared<VerifiedReply>(options_.verifier, call.label, std::move(done));
  again->label = "(verify)";
  Start(std::move(call), [both](absl::StatusOr<InferReply> reply) { both->First(std::move(reply)); });
  Start(*std::move(again), [both](absl::StatusOr<InferReply> reply) { both->Second(std::move(reply)); });
}

std::optional<AcceptedCall> Core::OnAnotherEngine(const AcceptedCall& call) {
  const Engine* engine = router_.Another(call.route.engine, call.cells, call.engine_options);
  if (engine == nullptr) return std::nullopt;
  std::optional<ByteBudget::Share> memory = budget_.Take(call.bytes);
  if (!memory) return std::nullopt;
  Route route;
  route.engine = engine;
  return AcceptedCall{.model = call.model,
                      .plan = call.plan,
                      .memory = *std::move(memory),
                      .route = std::move(route),
                      .load = call.load,
                      .cells = call.cells,
                      .engine_options = call.engine_options,
                      .priority = call.priority,
                      .tenant = call.tenant,
                      .bytes = call.bytes,
                      .deadline = call.deadline,
                      .cancelled = call.cancelled,
                      .label = call.label};
}

void Core::Start(AcceptedCall call, Done done) {
  auto run = std::make_unique<InferRun>(std::move(call.model), std::move(call.plan), std::move(call.memory));
  if (run->empty()) {
    absl::StatusOr<InferReply> reply = run->Finish({});
    run.reset();
    return done(std::move(reply));
  }
  const Engine* engine = call.route.engine;
  absl::StatusOr<std::vector<ProgramPtr>> programs = Programs(*programs_, *engine, call.cells, call.engine_options);
  if (!programs.ok()) {
    run.reset();
    return done(programs.status());
  }
  Submission submission;
  submission.tasks = run->Start(*std::move(programs), engine->name());
  submission.priority = call.priority;
  submission.tenant = call.tenant;
  submission.bytes = call.bytes;
  submission.deadline = call.deadline;
  submission.cancelled = std::move(call.cancelled);
  if (options_.metrics != nullptr) submission.metrics = options_.metrics->Of(call.label, engine->name());

  // Both live until the scheduler is done with them, or has refused.
  struct Pending {
    std::unique_ptr<InferRun> run;
    Done done;
    std::shared_ptr<const WorkMetrics> metrics;
  };
  auto pending = std::make_shared<Pending>(Pending{std::move(run), std::move(done), submission.metrics});
  // The run goes before `done` is called: it points into the caller's message, which the caller may let go.
  submission.done = [this, pending, cells = std::move(call.cells), options = call.engine_options,
                     load = call.load](ScheduleOutcome outcome) {
    if (outcome.status.ok()) router_.Ran(cells, options, load, outcome.largest_batch);
    absl::StatusOr<InferReply> reply =
        outcome.status.ok() ? pending->run->Finish(outcome) : absl::StatusOr<InferReply>(std::move(outcome.status));
    reply = WithoutLoss(std::move(reply));
    pending->run.reset();
    if (reply.ok() && pending->metrics != nullptr) Count(*reply, *pending->metrics);
    pending->done(std::move(reply));
  };
  absl::Status owned = scheduler_->Schedule(std::move(submission));
  if (owned.ok()) return;
  pending->run.reset();
  pending->done(std::move(owned));
}

void Core::Infer(const InferCall& call, Done done) {
  absl::StatusOr<AcceptedCall> accepted = Accept(call);
  if (!accepted.ok()) return done(accepted.status());
  Run(*std::move(accepted), std::move(done));
}

}  // namespace rnnserve
