// SPDX-License-Identifier: Apache-2.0
#include "server/core/core.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/choose_engine.h"
#include "server/core/infer_run.h"
#include "server/core/reply_limit.h"
#include "server/core/target.h"

namespace rnnserve {
namespace {

using Done = absl::AnyInvocable<void(absl::StatusOr<InferReply>)>;

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

}  // namespace

Core::Core(Options options, std::vector<const Engine*> engines, ModelStore* models, ProgramCache* programs,
           Scheduler* scheduler)
    : options_(options),
      engines_(std::move(engines)),
      models_(models),
      programs_(programs),
      scheduler_(scheduler),
      budget_(options.max_bytes_in_flight) {}

absl::Status Core::CheckEngineName(std::string_view name) const { return rnnserve::CheckEngineName(engines_, name); }

absl::StatusOr<Core::Accepted> Core::Accept(const InferCall& call) {
  absl::StatusOr<Target> target = ResolveTarget(call, *models_);
  if (!target.ok()) return target.status();
  const OpSpec& spec = target->model->spec();
  absl::StatusOr<RunPlan> plan = PlanRun(spec, call.inputs, call.outputs, target->run_options);
  if (!plan.ok()) return plan.status();
  absl::Status fits = CheckSequences(spec, *plan, options_.max_sequences);
  if (fits.ok()) fits = CheckReplyBytes(*plan, options_.max_reply_bytes);
  if (!fits.ok()) return fits;

  const std::vector<CellPtr>& cells = target->model->cells(target->run_options.clip_cell_input);
  absl::StatusOr<const Engine*> engine = ChooseEngine(engines_, target->engine, cells, target->engine_options);
  if (!engine.ok()) return engine.status();

  const int64_t bytes = RunBytes(spec, *plan);
  std::optional<ByteBudget::Share> share = budget_.Take(bytes);
  if (!share) {
    return absl::ResourceExhaustedError(absl::StrCat("requests in flight hold ", budget_.used(), " of ",
                                                     budget_.bytes(), " bytes, and this one needs ", bytes,
                                                     "; send it again later"));
  }
  Accepted accepted;
  accepted.run = std::make_unique<InferRun>(target->model, *std::move(plan), *std::move(share));
  if (accepted.run->empty()) return accepted;
  absl::StatusOr<std::vector<ProgramPtr>> programs = Programs(*programs_, **engine, cells, target->engine_options);
  if (!programs.ok()) return programs.status();
  accepted.tasks = accepted.run->Start(*std::move(programs), (*engine)->name());
  return accepted;
}

void Core::Infer(InferCall call, Done done) {
  absl::StatusOr<Accepted> accepted = Accept(call);
  if (!accepted.ok()) return done(accepted.status());
  if (accepted->run->empty()) {
    InferReply reply = accepted->run->Finish({});
    accepted->run.reset();
    return done(std::move(reply));
  }

  // Both live until the scheduler is done with them, or has refused.
  struct Pending {
    std::unique_ptr<InferRun> run;
    Done done;
  };
  auto pending = std::make_shared<Pending>(Pending{std::move(accepted->run), std::move(done)});
  Submission submission;
  submission.tasks = std::move(accepted->tasks);
  submission.priority = call.priority;
  submission.deadline = call.deadline;
  submission.cancelled = call.cancelled;
  // The run goes before `done` is called: it points into the caller's message and holds a share of the core's budget,
  // and the caller may let both go.
  submission.done = [pending](ScheduleOutcome outcome) {
    absl::StatusOr<InferReply> reply =
        outcome.status.ok() ? absl::StatusOr<InferReply>(pending->run->Finish(outcome)) : std::move(outcome.status);
    pending->run.reset();
    pending->done(std::move(reply));
  };
  absl::Status owned = scheduler_->Schedule(std::move(submission));
  if (owned.ok()) return;
  pending->run.reset();
  pending->done(std::move(owned));
}

}  // namespace rnnserve
