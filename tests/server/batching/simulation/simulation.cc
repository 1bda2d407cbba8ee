// SPDX-License-Identifier: Apache-2.0
#include "tests/server/batching/simulation/simulation.h"

#include <algorithm>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/batching/simulation/faulty_queue.h"
#include "tests/server/batching/simulation/ledger.h"

namespace rnnserve::simulation {
namespace {

class Run {
 public:
  Run(const Scenario& scenario, Fault fault)
      : scenario_(scenario), ledger_(scenario), queue_(scenario.options, fault), dice_(scenario.seed + 1) {
    idle_ = scenario.options.workers;
    for (size_t k = 0; k < scenario.programs.size(); ++k) {
      const ProgramCost& cost = scenario.programs[k];
      programs_.push_back(std::make_shared<SimulatedProgram>(static_cast<int>(k), cost.packed_bytes));
    }
    for (size_t k = 0; k < scenario.arrivals.size(); ++k) {
      const Arrival& arrival = scenario.arrivals[k];
      At(start_ + arrival.at, [this, k] { Arrive(k); });
    }
  }

  std::string Go() {
    while (!events_.empty() && ledger_.fault().empty() && now_ < start_ + scenario_.measured_to) {
      now_ = events_.top().time;
      const auto happen = events_.top().happen;
      events_.pop();
      happen();
      Work();
    }
    if (ledger_.fault().empty() && events_.empty()) ledger_.Closed();
    return ledger_.fault();
  }

  int64_t good_steps() const { return ledger_.good_steps(); }

 private:
  struct Event {
    absl::Time time;
    uint64_t order;
    std::function<void()> happen;
    bool operator<(const Event& other) const {  // the first on top
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  void At(absl::Time time, std::function<void()> happen) { events_.push({time, next_event_++, std::move(happen)}); }

  void Arrive(size_t index) {
    JobAccount& job = ledger_.Open(index, start_);
    Submission submission = Ledger::SubmissionOf(job, programs_);
    for (SequenceTask& task : submission.tasks) {
      const int program = static_cast<const SimulatedProgram&>(*task.program).index();
      task.step_work = scenario_.programs[static_cast<size_t>(program)].step_work;
    }
    submission.done = [this, &job](ScheduleOutcome outcome) { ledger_.Ended(job, outcome, now_); };
    ledger_.Answered(job, queue_.Add(submission, now_), now_);
    if (!job.is_owned || job.arrival->cancel == absl::InfiniteDuration()) return;
    At(start_ + job.arrival->cancel, [&job] { job.cancelled->store(true); });
  }

  void Tell(BatchQueue::Finished finished) {
    for (Job* job : queue_.Told(finished)) job->submission.done(job->outcome);
  }

  // Hands slices to idle workers.
  void Work() {
    while (idle_ > 0 && ledger_.fault().empty()) {
      BatchQueue::Finished finished;
      std::optional<Slice> slice = queue_.Form(now_, scenario_.options.workers, finished);
      Tell(std::move(finished));
      if (!slice) {
        ledger_.Idle(now_);
        const absl::Time release = queue_.queue().next_release();
        if (release != absl::InfiniteFuture()) At(std::max(release, now_), [] {});
        return;
      }
      ledger_.Formed(*slice, scenario_.options.workers, now_);
      --idle_;
      const double seconds = ledger_.TrueSeconds(slice->rows) * Disturbance();
      auto running = std::make_shared<Slice>(*std::move(slice));
      At(now_ + absl::Seconds(seconds), [this, running, seconds] { Complete(*std::move(running), seconds); });
    }
  }

  void Complete(Slice slice, double seconds) {
    ++idle_;
    ledger_.Completed(slice.rows, seconds, now_);
    BatchQueue::Finished finished;
    queue_.Complete(std::move(slice), seconds, now_, finished);
    Tell(std::move(finished));
  }

  // Times scatter, and now and then another process gets the core.
  double Disturbance() {
    const double scatter = 0.9 + static_cast<double>(dice_() % 200) / 1000;
    const bool is_slow = (now_ - start_) % scenario_.slow_period < scenario_.slow_period / 4;
    return scatter * (dice_() % 100 == 0 ? 10 : 1) * (is_slow ? scenario_.slow : 1);
  }

  const Scenario& scenario_;
  const absl::Time start_ = absl::UnixEpoch();
  absl::Time now_ = start_;
  int idle_ = 0;
  uint64_t next_event_ = 0;
  std::priority_queue<Event> events_;
  std::vector<ProgramPtr> programs_;
  Ledger ledger_;
  FaultyQueue queue_;
  std::mt19937_64 dice_;
};

}  // namespace

std::string Simulate(uint64_t seed, Fault fault) {
  const Scenario scenario = MakeScenario(seed);
  return Run(scenario, fault).Go();
}

Overload SimulateOverload(uint64_t seed, Fault fault) {
  double peak = 0, beyond = 0;
  for (const double load : {0.7, 0.85, 1.0, 1.5, 4.0}) {
    const Scenario scenario = MakeOverload(seed, load);
    Run run(scenario, fault);
    std::string found = run.Go();
    if (!found.empty()) return {absl::StrCat("at ", load, " times capacity: ", found), 0};
    beyond = static_cast<double>(run.good_steps());
    peak = std::max(peak, beyond);
  }
  const double kept = beyond / peak;
  if (kept >= kLeastKept) return {"", kept};
  return {absl::StrCat("goodput at 4 times capacity is ", kept, " of its peak"), kept};
}

}  // namespace rnnserve::simulation
