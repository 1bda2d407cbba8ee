// SPDX-License-Identifier: Apache-2.0
// What goes in and what comes out; slices are looked at in ledger_slices.cc.
#include "tests/server/batching/simulation/ledger.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/retry_delay.h"

namespace rnnserve::simulation {
namespace {

// Where the simulation cannot know what the scheduler has learned so far, it allows this factor.
constexpr double kBenefitOfDoubt = 10;

// The last eighth of a bound is for tenants that have nothing, or little with what they ask for.
bool MayHave(int64_t most, int64_t used, int64_t of_tenant, int64_t more) {
  if (used + more <= most - most / 8) return true;
  return used + more <= most && (of_tenant == 0 || of_tenant + more <= most / 64);
}

std::string Name(const JobAccount& job) { return absl::StrCat("submission ", job.index); }

}  // namespace

Ledger::Ledger(const Scenario& scenario)
    : scenario_(scenario),
      slices_of_(scenario.programs.size()),
      last_slice_(scenario.programs.size(), absl::InfiniteFuture()),
      shares_(static_cast<size_t>(scenario.tenants)),
      open_jobs_(static_cast<size_t>(scenario.tenants)) {
  for (const Arrival& arrival : scenario.arrivals) ++open_jobs_[static_cast<size_t>(arrival.tenant)];
}

JobAccount& Ledger::Open(size_t index, absl::Time start) {
  JobAccount& job = *jobs_.emplace_back(std::make_unique<JobAccount>());
  job.index = index;
  job.arrival = &scenario_.arrivals[index];
  job.arrived = start + job.arrival->at;
  job.deadline = start + job.arrival->deadline;
  for (const Arrival::Sequence& sequence : job.arrival->sequences) {
    LaneAccount& lane = job.lanes[sequence.program];
    lane.job = &job;
    lane.program = sequence.program;
    ++lane.waiting;
    lane.waiting_since = job.arrived;
    SequenceAccount& account = *job.sequences.emplace_back(std::make_unique<SequenceAccount>());
    account.lane = &lane;
    account.steps = sequence.steps;
    account.has_before = sequence.has_state;
  }
  return job;
}

Submission Ledger::SubmissionOf(JobAccount& job, const std::vector<ProgramPtr>& programs) {
  static const std::array<std::byte, 1024> x = {};
  Submission submission;
  submission.priority = job.arrival->priority;
  submission.caller_id = static_cast<uint64_t>(job.arrival->tenant) + 1;
  submission.bytes = job.arrival->bytes;
  submission.deadline = job.deadline;
  submission.cancelled = job.cancelled;
  for (const auto& sequence : job.sequences) {
    SequenceSlice slice;
    slice.x = x.data();
    slice.x_stride = 1;
    slice.steps = sequence->steps;
    slice.before = sequence->has_before ? &sequence->before : nullptr;
    slice.after = sequence.get();
    submission.tasks.push_back({programs[static_cast<size_t>(sequence->lane->program)], slice, 1});
  }
  return submission;
}

double Ledger::AloneSeconds(const JobAccount& job) const {
  double seconds = 0;
  for (const auto& sequence : job.sequences) {
    const ProgramCost& cost = CostOf(sequence->lane->program);
    const double steps = static_cast<double>(sequence->steps - sequence->done);
    seconds = std::max(seconds, steps * (cost.step_seconds + cost.row_seconds));
  }
  return seconds;
}

double Ledger::SecondsOfAll() const {
  double seconds = 0;
  for (const JobAccount* job : alive_) {
    for (const auto& sequence : job->sequences) {
      const ProgramCost& cost = CostOf(sequence->lane->program);
      seconds += static_cast<double>(sequence->steps - sequence->done) * (cost.step_seconds + cost.row_seconds);
    }
  }
  return seconds;
}

double Ledger::SecondsInCompany(const JobAccount& job) const {
  std::map<int, int64_t> rows;
  for (const JobAccount* other : alive_) {
    for (const auto& sequence : other->sequences) ++rows[sequence->lane->program];
  }
  double seconds = 0;
  for (const auto& sequence : job.sequences) {
    const ProgramCost& cost = CostOf(sequence->lane->program);
    const double row_seconds = cost.row_seconds * static_cast<double>(rows[sequence->lane->program]);
    seconds =
        std::max(seconds, static_cast<double>(sequence->steps - sequence->done) * (cost.step_seconds + row_seconds));
  }
  return seconds;
}

void Ledger::Answered(JobAccount& job, const absl::Status& status, absl::Time now) {
  const int64_t rows = static_cast<int64_t>(job.sequences.size());
  int64_t rows_of_tenant = 0, bytes_of_tenant = 0;
  for (const JobAccount* other : alive_) {
    if (other->arrival->tenant != job.arrival->tenant) continue;
    rows_of_tenant += static_cast<int64_t>(other->sequences.size());
    bytes_of_tenant += other->arrival->bytes;
  }
  const bool fits =
      alive_.empty() || (MayHave(scenario_.options.max_sequences, sequences_, rows_of_tenant, rows) &&
                         MayHave(scenario_.options.max_bytes, bytes_, bytes_of_tenant, job.arrival->bytes));
  job.may_be_probe = HasIdleProgram(job, now);
  if (!status.ok()) return CheckRefusal(job, status, fits, now);
  if (!job.may_be_probe && IsHopeless(job, now)) Complain(absl::StrCat(Name(job), " was taken though it is hopeless"));
  if (!fits) Complain(absl::StrCat(Name(job), " was taken into a full queue"));
  if (job.deadline <= now) Complain(absl::StrCat(Name(job), " was taken after its deadline"));
  int64_t steps = 0;
  for (const auto& sequence : job.sequences) steps += sequence->steps;
  lately_.emplace_back(now, steps / rows);
  while (now - lately_.front().first > absl::Seconds(1)) lately_.pop_front();
  job.is_owned = true;
  alive_.push_back(&job);
  sequences_ += rows;
  bytes_ += job.arrival->bytes;
}

void Ledger::CheckRefusal(const JobAccount& job, const absl::Status& status, bool fits, absl::Time now) {
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    if (fits) Complain(absl::StrCat(Name(job), " was refused although it fits: ", std::string(status.message())));
    const std::optional<absl::Duration> delay = RetryDelayOf(status);
    if (!delay || *delay < absl::Milliseconds(5) || *delay > absl::Seconds(30)) {
      Complain(absl::StrCat(Name(job), " was refused without a sensible retry delay"));
    }
    return;
  }
  if (status.code() != absl::StatusCode::kDeadlineExceeded) {
    return Complain(absl::StrCat(Name(job), " was refused with ", status.ToString()));
  }
  for (const auto& [program, lane] : job.lanes) {
    if (job.deadline > now && slices_of_[static_cast<size_t>(program)] == 0) {
      Complain(absl::StrCat(Name(job), " was refused by a cost that nobody has measured"));
    }
  }
  if (job.deadline - now > kBenefitOfDoubt * absl::Seconds(AloneSeconds(job) + SecondsOfAll())) {
    Complain(absl::StrCat(Name(job), " was refused although there is time enough: ", std::string(status.message())));
  }
}

void Ledger::Ended(JobAccount& job, const ScheduleOutcome& outcome, absl::Time now) {
  if (job.has_ended) return Complain(absl::StrCat(Name(job), " ended twice"));
  if (!job.is_owned) return Complain(absl::StrCat(Name(job), " ended though it was refused"));
  job.has_ended = true;
  const double expected = SecondsInCompany(job);
  std::erase(alive_, &job);
  sequences_ -= static_cast<int64_t>(job.sequences.size());
  bytes_ -= job.arrival->bytes;
  --open_jobs_[static_cast<size_t>(job.arrival->tenant)];
  for (const auto& sequence : job.sequences) {
    if (sequence->is_running) Complain(absl::StrCat(Name(job), " ended while a sequence of it ran"));
    if (outcome.status.ok() && sequence->done != sequence->steps) {
      Complain(absl::StrCat(Name(job), " ended after ", sequence->done, " of ", sequence->steps, " steps"));
    }
  }
  const absl::Duration at = now - (job.arrived - job.arrival->at);
  if (outcome.status.ok() && now <= job.deadline && at >= scenario_.measured_from && at < scenario_.measured_to) {
    for (const auto& sequence : job.sequences) good_steps_ += sequence->steps;
  }
  if (outcome.status.ok()) {
    if (outcome.largest_batch < 1) Complain(absl::StrCat(Name(job), " ended well without a batch"));
  } else if (outcome.status.code() == absl::StatusCode::kCancelled) {
    if (!job.cancelled->load()) Complain(absl::StrCat(Name(job), " was given up though nobody cancelled it"));
  } else if (outcome.status.code() == absl::StatusCode::kDeadlineExceeded) {
    const bool is_hopeless = !job.has_run && job.deadline - now < kBenefitOfDoubt * absl::Seconds(expected);
    if (job.deadline > now && !is_hopeless) Complain(absl::StrCat(Name(job), " was given up before its deadline"));
  } else {
    Complain(absl::StrCat(Name(job), " ended with ", outcome.status.ToString()));
  }
}

void Ledger::Closed() {
  for (const JobAccount* job : alive_) Complain(absl::StrCat(Name(*job), " never ended"));
  CheckShares();
}

// Slices are not cut finer than they are, so short measurements say nothing.
void Ledger::CheckShares() {
  if (!scenario_.is_share_test) return;
  double total = 0;
  for (const double share : shares_) total += share;
  const double fair = total / scenario_.tenants;
  if (fair < 30 * std::max(absl::ToDoubleSeconds(scenario_.options.target_slice), longest_slice_)) return;
  for (size_t tenant = 0; tenant < shares_.size(); ++tenant) {
    if (shares_[tenant] > 0.75 * fair) continue;
    Complain(absl::StrCat("tenant ", tenant, " got ", shares_[tenant] / fair, " of its fair share"));
  }
}

}  // namespace rnnserve::simulation
