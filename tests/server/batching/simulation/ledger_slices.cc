// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/server/batching/simulation/ledger.h"

namespace rnnserve::simulation {
namespace {

// After so many slices of a program its cost is expected to be known, to this factor.
constexpr int kKnownSlices = 20;
constexpr double kKnownFactor = 6;
// Where nothing of a program has run for so long, one is let in to see what it costs now.
constexpr absl::Duration kIdle = absl::Milliseconds(900);

SequenceAccount& AccountOf(const SequenceSlice& row) { return static_cast<SequenceAccount&>(*row.after); }

std::string NameOf(const JobAccount& job) { return absl::StrCat("submission ", job.index); }

}  // namespace

// Alive, with waiting sequences that max_batch_delay does not hold back.
template <typename Use>
void Ledger::ForWaiting(absl::Time now, Use use) const {
  for (const JobAccount* job : alive_) {
    if (job->cancelled->load() || job->deadline <= now) continue;
    const bool may_be_held = now - job->arrived < scenario_.options.max_batch_delay;
    for (const auto& [program, lane] : job->lanes) {
      if (lane.waiting > 0 && (lane.has_run || !may_be_held)) use(lane);
    }
  }
}

double Ledger::TrueSeconds(const std::vector<SequenceSlice>& rows) const {
  const ProgramCost& cost = CostOf(AccountOf(rows.front()).lane->program);
  int64_t longest = 0, row_steps = 0;
  for (const SequenceSlice& row : rows) {
    longest = std::max(longest, row.steps);
    row_steps += row.steps;
  }
  return cost.step_seconds * static_cast<double>(longest) + cost.row_seconds * static_cast<double>(row_steps);
}

bool Ledger::HasIdleProgram(const JobAccount& job, absl::Time now) const {
  return std::ranges::any_of(
      job.lanes, [&](const auto& lane) { return now - last_slice_[static_cast<size_t>(lane.first)] > kIdle; });
}

bool Ledger::IsHopeless(const JobAccount& job, absl::Time now) const {
  const bool is_known = std::ranges::all_of(
      job.lanes, [&](const auto& lane) { return slices_of_[static_cast<size_t>(lane.first)] > kKnownSlices; });
  return is_known && now + absl::Seconds(AloneSeconds(job) / kKnownFactor) > job.deadline;
}

void Ledger::Formed(const Slice& slice, int sharers, absl::Time now) {
  if (slice.rows.empty()) return Complain("a slice is empty");
  const int program = AccountOf(slice.rows.front()).lane->program;
  CheckOverdue(slice, program, now);
  for (const SequenceSlice& row : slice.rows) {
    CheckRow(row, program, now);
    SequenceAccount& sequence = AccountOf(row);
    sequence.is_running = true;
    sequence.lane->has_run = sequence.lane->job->has_run = true;
    sequence.lane->is_late |= now - sequence.lane->waiting_since > scenario_.options.max_wait;
    BeginWait(*sequence.lane, now);
    --sequence.lane->waiting;
  }
  CheckShape(slice, program, sharers, now);
}

// The sequence goes on exactly where it stopped, from the state it stopped in, and only if its caller waits for it.
void Ledger::CheckRow(const SequenceSlice& row, int program, absl::Time now) {
  const SequenceAccount& sequence = AccountOf(row);
  const JobAccount& job = *sequence.lane->job;
  if (sequence.lane->program != program) Complain(absl::StrCat(NameOf(job), " runs through another's program"));
  if (job.has_ended) Complain(absl::StrCat(NameOf(job), " runs after it has ended"));
  if (sequence.is_running) Complain(absl::StrCat(NameOf(job), " has a sequence in two slices at once"));
  if (row.steps < 1 || row.steps > sequence.steps - sequence.done) {
    Complain(absl::StrCat(NameOf(job), ": ", row.steps, " steps where ", sequence.steps - sequence.done, " are left"));
  }
  const State* const before = sequence.done > 0 ? &sequence : sequence.has_before ? &sequence.before : nullptr;
  if (row.before != before) Complain(absl::StrCat(NameOf(job), " does not go on from its own state"));
  if (job.deadline <= now) Complain(absl::StrCat(NameOf(job), " is computed after its deadline"));
  if (!job.has_run && !job.may_be_probe && IsHopeless(job, now)) {
    Complain(absl::StrCat(NameOf(job), " is begun though it is hopeless"));
  }
  if (job.cancelled->load()) Complain(absl::StrCat(NameOf(job), " is computed after it was cancelled"));
}

// How much longer than its target the slice may be.
double Ledger::Stretch(const Slice& slice, int program, absl::Time now) const {
  bool others_wait = false;
  ForWaiting(now, [&](const LaneAccount& lane) { others_wait |= lane.program != program; });
  int64_t shortest = slice.steps;
  for (const auto& [came, steps] : lately_) {
    if (now - came <= absl::Seconds(1)) shortest = std::min(shortest, steps);
  }
  const bool ends_early = shortest < kGoodSteps && shortest < slice.steps;
  if (others_wait || ends_early || slice.steps > 2 * shortest) return 1;
  const int64_t most = static_cast<int64_t>(slice.rows.size()) >= kFullRows ? kStepsIfFull : kGoodSteps;
  return slice.steps <= most ? static_cast<double>(most) : 1;
}

void Ledger::CheckShape(const Slice& slice, int program, int sharers, absl::Time now) {
  const int64_t rows = static_cast<int64_t>(slice.rows.size());
  if (rows > scenario_.options.max_slice_rows) Complain(absl::StrCat("a slice has ", rows, " rows"));
  const double target = absl::ToDoubleSeconds(scenario_.options.target_slice);
  const double most = kKnownFactor * target * Stretch(slice, program, now);
  const double seconds = TrueSeconds(slice.rows);
  if (slice.steps > 1 && slices_of_[static_cast<size_t>(program)] > kKnownSlices && seconds > most) {
    Complain(absl::StrCat("a slice of ", rows, " rows and ", slice.steps, " steps takes ", seconds / target,
                          " times its target"));
  }
  // A worker that is not to share with others leaves no sequence out as long as there is room.
  if (sharers > 1 || rows >= std::min<int64_t>(16, scenario_.options.max_slice_rows)) return;
  for (const JobAccount* job : alive_) {
    const auto lane = job->lanes.find(program);
    if (lane == job->lanes.end() || lane->second.waiting == 0) continue;
    // Those may be on their way out.
    if (job->cancelled->load() || job->deadline != absl::InfiniteFuture()) continue;
    Complain(absl::StrCat("a slice has ", rows, " rows, and ", NameOf(*job), " waits for the same program"));
  }
}

void Ledger::BeginWait(LaneAccount& lane, absl::Time now) const {
  lane.waiting_since = lane.is_late ? now - scenario_.options.max_wait : now;
}

// Looks at what waits before the slice's own sequences are taken off.
void Ledger::CheckOverdue(const Slice& slice, int program, absl::Time now) {
  const LaneAccount* oldest = nullptr;
  ForWaiting(now, [&](const LaneAccount& lane) {
    if (oldest == nullptr || lane.waiting_since < oldest->waiting_since) oldest = &lane;
  });
  const bool has_overdue = oldest != nullptr && now - oldest->waiting_since > scenario_.options.max_wait;
  const bool leads = has_overdue && std::ranges::any_of(slice.rows, [&](const SequenceSlice& row) {
                       return AccountOf(row).lane->waiting_since == oldest->waiting_since;
                     });
  CheckPriority(slice, program, leads, now);
  slices_past_overdue_ = has_overdue && !leads ? slices_past_overdue_ + 1 : 0;
  if (slices_past_overdue_ < 4) return;
  Complain(absl::StrCat(NameOf(*oldest->job), " has waited ", absl::FormatDuration(now - oldest->waiting_since),
                        " and was passed over four times"));
}

void Ledger::CheckPriority(const Slice& slice, int program, bool overdue_leads, absl::Time now) {
  if (overdue_leads) return;
  const auto priority_of = [](const SequenceSlice& row) { return AccountOf(row).lane->job->arrival->priority; };
  int32_t best = priority_of(slice.rows.front()), worst = best;
  for (const SequenceSlice& row : slice.rows) {
    best = std::max(best, priority_of(row));
    worst = std::min(worst, priority_of(row));
  }
  ForWaiting(now, [&](const LaneAccount& lane) {
    const JobAccount& job = *lane.job;
    if (job.deadline != absl::InfiniteFuture()) return;  // may be on its way out
    if (job.arrival->priority > best) {
      Complain(absl::StrCat(NameOf(job), " waits, and a slice of lower priority runs"));
    }
    if (lane.program != program || job.arrival->priority <= worst) return;
    const auto is_of_lane = [&](const SequenceSlice& row) { return AccountOf(row).lane == &lane; };
    if (std::ranges::any_of(slice.rows, is_of_lane)) return;
    Complain(absl::StrCat(NameOf(job), " was left out of a slice that holds one of lower priority"));
  });
}

void Ledger::Completed(const std::vector<SequenceSlice>& rows, double seconds, absl::Time now) {
  CountShares(rows, seconds);
  const auto program = static_cast<size_t>(AccountOf(rows.front()).lane->program);
  ++slices_of_[program];
  last_slice_[program] = now;
  for (const SequenceSlice& row : rows) {
    SequenceAccount& sequence = AccountOf(row);
    sequence.is_running = false;
    sequence.done += row.steps;
    if (sequence.done >= sequence.steps) continue;
    if (sequence.lane->waiting++ == 0) BeginWait(*sequence.lane, now);
  }
}

// As long as all tenants have work.
void Ledger::CountShares(const std::vector<SequenceSlice>& rows, double seconds) {
  if (!scenario_.is_share_test || std::ranges::count(open_jobs_, 0) > 0) return;
  longest_slice_ = std::max(longest_slice_, seconds);
  int64_t row_steps = 0;
  for (const SequenceSlice& row : rows) row_steps += row.steps;
  for (const SequenceSlice& row : rows) {
    const int tenant = AccountOf(row).lane->job->arrival->tenant;
    shares_[static_cast<size_t>(tenant)] += seconds * static_cast<double>(row.steps) / static_cast<double>(row_steps);
  }
}

void Ledger::Idle(absl::Time now) {
  ForWaiting(now, [&](const LaneAccount& lane) {
    Complain(absl::StrCat("a worker is idle while ", NameOf(*lane.job), " waits"));
  });
}

}  // namespace rnnserve::simulation
