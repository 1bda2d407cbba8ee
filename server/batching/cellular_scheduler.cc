// SPDX-License-Identifier: Apache-2.0
#include "server/batching/cellular_scheduler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "base/joined_sends.h"
#include "base/out_of_memory.h"
#include "base/steady_now.h"
#include "server/telemetry/release_caches.h"

namespace rnnserve {
namespace {

constexpr size_t kWorkspacesPerWorker = 8;
// An idle worker frees the scratch of destroyed programs after this time.
constexpr std::chrono::seconds kWorkspaceCheckPeriod(1);
// Slices that follow each other on a thread that collects begin within the time of so many of the longest short ones,
// or so long, before it has to check for new calls.
constexpr int kShortSlicesInARow = 4;
constexpr absl::Duration kMostInARow = absl::Milliseconds(2);
// With more of them both threads have enough to do, and workers run beside the thread that collects.
constexpr int64_t kRowsThatCount = 64;

BatchQueue::Options WithWorkers(BatchQueue::Options options) {
  options.workers = std::max(options.workers, 1);
  return options;
}

absl::Status ShuttingDown() {
  return absl::UnavailableError("the server is shutting down; send the request to another one or later");
}

// What a thread that calls RunCollected keeps.
struct Collector {
  uint64_t scheduler_id = 0;  // the scheduler it collects for; 0: none
  std::vector<Submission> submissions;
  absl::Time since;  // the first of them
  WorkspaceCache workspaces{kWorkspacesPerWorker};
};
thread_local Collector collector;

// Another scheduler may come to the same address.
uint64_t NextId() {
  static std::atomic<uint64_t> next = 1;
  return next.fetch_add(1, std::memory_order_relaxed);
}

void Notify(BatchQueue::Finished& finished) {
  std::optional<JoinedSends> joined;
  if (finished.size() > 1) joined.emplace();
  for (; !finished.empty(); finished.pop_front()) {
    Job& job = finished.front();
    job.submission.done(std::move(job.outcome));
  }
}

// The engine's status. Where memory for the whole slice is lacking, this frees other programs' scratch and runs the
// parts one after the other: only parts that still lack memory fail (Slice::Part::ran).
absl::Status AdvanceSlice(Slice& slice, WorkspaceCache& workspaces) {
  try {
    Workspace& workspace = workspaces.For(slice.program);
    workspace.is_alone = slice.is_alone;
    return slice.program->Advance(slice.rows, workspace);
  } catch (const std::bad_alloc&) {
    workspaces.Clear();
  }
  slice.ran_in_parts = true;
  std::span<const SequenceSlice> rest = slice.rows;
  for (Slice::Part& part : slice.parts) {
    try {
      part.ran = slice.program->Advance(rest.first(part.rows), workspaces.For(slice.program));
    } catch (const std::bad_alloc&) {
      workspaces.Clear();
      part.ran = OutOfMemory();
    }
    rest = rest.subspan(part.rows);
  }
  return absl::OkStatus();
}

}  // namespace

CellularScheduler::CellularScheduler(BatchQueue::Options options, ShortSlices short_slices)
    : workers_(std::max(options.workers, 1)),
      short_slices_(short_slices),
      id_(NextId()),
      busy_(static_cast<size_t>(workers_)),
      spreads_(busy_.size() > 1 && busy_.size() <= std::thread::hardware_concurrency()),
      queue_(WithWorkers(options)) {
  threads_.reserve(busy_.size());
  for (size_t k = 0; k < busy_.size(); ++k) threads_.emplace_back([this, k] { Work(k); });
}

CellularScheduler::~CellularScheduler() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status CellularScheduler::Schedule(Submission&& submission) {
  if (collector.scheduler_id == id_) {
    if (collector.submissions.empty()) collector.since = SteadyNow();
    submission.scheduled = collector.since;
    collector.submissions.push_back(std::move(submission));
    return absl::OkStatus();
  }
  const absl::Time now = SteadyNow();
  MutexLock lock(mutex_);
  absl::Status status = Add(submission, now);
  if (status.ok()) WakeAnother();
  return status;
}

absl::Status CellularScheduler::Add(Submission& submission, absl::Time now) {
  if (stopping_ || aborted_) return ShuttingDown();
  return queue_.Add(submission, now);
}

int64_t CellularScheduler::collected() const {
  return collector.scheduler_id == id_ ? static_cast<int64_t>(collector.submissions.size()) : 0;
}

void CellularScheduler::AddCollected(MutexLock& lock, absl::Time now) {
  // By number: the `done` of what is refused may have more collected.
  for (size_t k = 0; k < collector.submissions.size(); ++k) {
    absl::Status owned =
        OrOutOfMemory([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return Add(collector.submissions[k], now); });
    // Without `done`, memory ran out after the queue had taken it over, and the queue has it.
    if (owned.ok() || !collector.submissions[k].done) continue;
    lock.unlock();
    Submission refused = std::move(collector.submissions[k]);
    refused.done({.status = std::move(owned)});
    refused = {};
    lock.lock();
  }
  collector.submissions.clear();
}

void CellularScheduler::RunCollected(int64_t callers, bool collects) {
  collector.scheduler_id = id_;
  const absl::Duration short_slice = callers <= 1   ? short_slices_.of_lone_caller
                                     : callers == 2 ? short_slices_.of_two_callers
                                                    : short_slices_.among_several;
  BatchQueue::Finished finished;
  MutexLock lock(mutex_);
  may_be_alone_ = callers <= 2;
  const absl::Time begin = SteadyNow();
  absl::Time now = begin;
  AddCollected(lock, now);
  // Others wait for this thread.
  const absl::Duration row_more = callers > 2 ? short_slices_.each_row_more : absl::ZeroDuration();
  const absl::Duration most = std::min(kShortSlicesInARow * (short_slice + kRowsThatCount * row_more), kMostInARow);
  while (queue_.has_waiting() && now - begin < most) {
    const BatchQueue::Expected next = queue_.Next();
    if (next.takes > short_slice + std::min(next.rows, kRowsThatCount) * row_more) break;
    std::optional<Slice> slice = queue_.Form(now, 1, finished);
    if (slice) RunSlice(lock, *std::move(slice), collector.workspaces, finished);
    NotifyUnlocked(lock, finished);
    now = SteadyNow();
    AddCollected(lock, now);  // what followed, as layers of the same calls
  }
  WakeAnother();
  if (!collects) collector.scheduler_id = 0;
}

void CellularScheduler::Abort() {
  BatchQueue::Finished finished;
  {
    MutexLock lock(mutex_);
    aborted_ = true;
    queue_.Fail(ShuttingDown(), finished);
  }
  Notify(finished);
}

QueueLoad CellularScheduler::load() const {
  MutexLock lock(mutex_);
  return queue_.load();
}

// At most one signal for each worker that waits.
void CellularScheduler::WakeAnother() {
  const bool has_work = queue_.has_waiting() || queue_.next_release() != absl::InfiniteFuture();
  if (!has_work || signals_ >= idle_) return;
  ++signals_;
  wake_.notify_one();
}

bool CellularScheduler::Wait(MutexLock& lock, WorkspaceCache& workspaces) {
  if (stopping_ && queue_.empty()) {
    wake_.notify_all();
    return false;
  }
  ++idle_;
  const absl::Time release = queue_.next_release();
  if (release != absl::InfiniteFuture()) {
    wake_.wait_for(lock, absl::ToChronoNanoseconds(release - SteadyNow()));
  } else if (workspaces.empty()) {
    wake_.wait(lock);
  } else if (wake_.wait_for(lock, kWorkspaceCheckPeriod) == std::cv_status::timeout) {
    lock.unlock();
    workspaces.ForgetGone();
    lock.lock();
  }
  --idle_;
  signals_ = std::max(signals_ - 1, 0);
  return true;
}

void CellularScheduler::Work(size_t worker) {
  WorkspaceCache workspaces(kWorkspacesPerWorker);
  BatchQueue::Finished finished;
  MutexLock lock(mutex_);
  for (;;) {
    std::optional<Slice> slice = queue_.Form(SteadyNow(), workers_, finished);
    if (!slice && finished.empty()) {
      if (!Wait(lock, workspaces)) return;
      continue;
    }
    WakeAnother();
    if (slice) {
      RunSlice(lock, *std::move(slice), workspaces, finished, &busy_[worker]);
      if (finished.empty()) continue;  // this worker takes what follows
      WakeAnother();
    }
    NotifyUnlocked(lock, finished);
  }
}

// Releases the lock meanwhile.
void CellularScheduler::RunSlice(MutexLock& lock, Slice slice, WorkspaceCache& workspaces,
                                 BatchQueue::Finished& finished, SeenCpu* own) {
  slice.is_alone &= may_be_alone_;
  lock.unlock();
  Notify(finished);
  if (own != nullptr) TakeCpu(*own);
  const auto start = std::chrono::steady_clock::now();
  const absl::Status ran = AdvanceSlice(slice, workspaces);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (own != nullptr) own->Forget();
  ReleaseCachesIfAsked();
  lock.lock();
  queue_.Complete(std::move(slice), ran, took.count(), SteadyNow(), finished);
}

// Beside another worker there is half a CPU for each.
void CellularScheduler::TakeCpu(SeenCpu& own) {
  if (!spreads_) return;
  for (const SeenCpu& other : busy_) {
    if (&other != &own && other.KeepOff()) break;
  }
  own.Note();
}

void CellularScheduler::NotifyUnlocked(MutexLock& lock, BatchQueue::Finished& finished) {
  if (finished.empty()) return;
  lock.unlock();
  Notify(finished);
  lock.lock();
}

}  // namespace rnnserve
