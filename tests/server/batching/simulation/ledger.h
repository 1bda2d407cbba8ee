// SPDX-License-Identifier: Apache-2.0
// The simulation's own account of what it handed to the scheduler, from which it says what went wrong. It shares no
// code with the scheduler.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/batching/batch_queue.h"
#include "tests/server/batching/simulation/scenario.h"

namespace rnnserve::simulation {

struct JobAccount;
struct LaneAccount;

// A slice may be longer than its target to have so many steps, or so many with so many rows, where nothing else waits
// and no submission of less than half of them has come for a second.
constexpr int64_t kGoodSteps = 8, kStepsIfFull = 32;
constexpr int64_t kFullRows = 16;

struct SequenceAccount final : State {  // is its own state after, so that a slice's rows lead back here
  LaneAccount* lane = nullptr;
  int64_t steps = 0;
  int64_t done = 0;
  bool is_running = false;
  bool has_before = false;
  State before;
};

// The sequences of a job that run through one program.
struct LaneAccount {
  JobAccount* job = nullptr;
  int program = 0;
  int64_t waiting = 0;  // sequences
  bool has_run = false;
  bool is_late = false;  // has waited for longer than max_wait
  absl::Time waiting_since;
};

struct JobAccount {
  size_t index = 0;
  const Arrival* arrival = nullptr;
  absl::Time arrived;
  absl::Time deadline;
  std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::unique_ptr<SequenceAccount>> sequences;
  std::map<int, LaneAccount> lanes;
  bool is_owned = false;
  bool has_ended = false;
  bool has_run = false;
  // Let in, perhaps, to see whether the cost of its program is still what it was.
  bool may_be_probe = false;
};

class Ledger {
 public:
  explicit Ledger(const Scenario& scenario);

  // The first thing found wrong; empty: nothing.
  const std::string& fault() const { return fault_; }
  void Complain(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }

  JobAccount& Open(size_t index, absl::Time start);
  static Submission SubmissionOf(JobAccount& job, const std::vector<ProgramPtr>& programs);
  // What Schedule said about it.
  void Answered(JobAccount& job, const absl::Status& status, absl::Time now);
  void Formed(const Slice& slice, int sharers, absl::Time now);
  void Completed(const std::vector<SequenceSlice>& rows, double seconds, absl::Time now);
  void Ended(JobAccount& job, const ScheduleOutcome& outcome, absl::Time now);
  // A worker found nothing to do.
  void Idle(absl::Time now);
  // Nothing will happen any more.
  void Closed();

  // Steps of answers in time while the scenario measures.
  int64_t good_steps() const { return good_steps_; }

  // What `slice` takes without disturbances.
  double TrueSeconds(const std::vector<SequenceSlice>& rows) const;

 private:
  // Alive, with waiting sequences that max_batch_delay does not hold back.
  template <typename Use>
  void ForWaiting(absl::Time now, Use use) const;
  void CheckRefusal(const JobAccount& job, const absl::Status& status, bool fits, absl::Time now);
  void CheckRow(const SequenceSlice& row, int program, absl::Time now);
  void CheckShape(const Slice& slice, int program, int sharers, absl::Time now);
  double Stretch(const Slice& slice, int program, absl::Time now) const;
  void CheckPriority(const Slice& slice, int program, bool overdue_leads, absl::Time now);
  // `lane` begins to wait: one that is late has waited for long enough already.
  void BeginWait(LaneAccount& lane, absl::Time now) const;
  void CheckOverdue(const Slice& slice, int program, absl::Time now);
  void CheckShares();
  void CountShares(const std::vector<SequenceSlice>& rows, double seconds);
  // What is left of it, if nothing else ran.
  double AloneSeconds(const JobAccount& job) const;
  // The same, with all that is owned of its programs beside it to its end, be it done before: newcomers follow.
  double SecondsInCompany(const JobAccount& job) const;
  // What is left of all that is owned, one sequence after the other.
  double SecondsOfAll() const;
  bool HasIdleProgram(const JobAccount& job, absl::Time now) const;
  // Even alone it would come too late, and the scheduler has had slices enough to know.
  bool IsHopeless(const JobAccount& job, absl::Time now) const;
  const ProgramCost& CostOf(int program) const { return scenario_.programs[static_cast<size_t>(program)]; }

  const Scenario& scenario_;
  std::string fault_;
  std::vector<std::unique_ptr<JobAccount>> jobs_;
  std::vector<JobAccount*> alive_;
  std::vector<int> slices_of_;          // completed, by program
  std::vector<absl::Time> last_slice_;  // of each program
  int64_t good_steps_ = 0;
  int64_t sequences_ = 0, bytes_ = 0, owned_jobs_ = 0;
  std::deque<std::pair<absl::Time, int64_t>> lately_;  // submissions of the last second: steps a sequence
  int slices_past_overdue_ = 0;
  double longest_slice_ = 0;        // seconds
  std::vector<double> shares_;      // seconds that each tenant got while all had work
  std::vector<int64_t> open_jobs_;  // of each tenant
};

}  // namespace rnnserve::simulation
