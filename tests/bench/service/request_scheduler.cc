// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/service/request_scheduler.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/out_of_memory.h"
#include "base/steady_now.h"

namespace rnnserve {
namespace {

constexpr size_t kWorkspacesPerWorker = 8;

absl::Status MayRun(const Submission& submission) {
  if (submission.deadline != absl::InfiniteFuture() && SteadyNow() >= submission.deadline) {
    return absl::DeadlineExceededError("the deadline passed before the computation began");
  }
  if (submission.cancelled != nullptr && submission.cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError("the caller cancelled the request");
  }
  return absl::OkStatus();
}

bool HasSameShape(const Submission& a, const Submission& b) {
  return std::ranges::equal(a.tasks, b.tasks, [](const SequenceTask& x, const SequenceTask& y) {
    return x.program == y.program && x.slice.steps == y.slice.steps;
  });
}

int64_t Rows(const Submission& submission) { return static_cast<int64_t>(submission.tasks.size()); }

}  // namespace

RequestScheduler::RequestScheduler(Options options) : options_(options) {
  for (int k = 0; k < std::max(options_.workers, 1); ++k) threads_.emplace_back([this] { Work(); });
}

RequestScheduler::~RequestScheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status RequestScheduler::Schedule(Submission&& submission) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(submission), SteadyNow(), {}});
  }
  wake_.notify_one();
  return absl::OkStatus();
}

std::vector<RequestScheduler::Entry> RequestScheduler::TakeBatch() {
  std::vector<Entry> batch;
  batch.push_back(std::move(queue_.front()));
  queue_.pop_front();
  int64_t rows = Rows(batch.front().submission);
  if (!options_.shares) return batch;
  std::deque<Entry> rest;
  for (Entry& entry : queue_) {
    const int64_t more = Rows(entry.submission);
    const bool joins =
        rows + more <= options_.max_batch_rows && HasSameShape(entry.submission, batch.front().submission);
    if (!joins) {
      rest.push_back(std::move(entry));
      continue;
    }
    rows += more;
    batch.push_back(std::move(entry));
  }
  queue_.swap(rest);
  return batch;
}

void RequestScheduler::Run(std::vector<Entry>& batch, WorkspaceCache& workspaces) {
  const absl::Time now = SteadyNow();
  std::map<ProgramPtr, std::vector<SequenceSlice>> slices;
  int64_t rows = 0;
  for (Entry& entry : batch) {
    entry.outcome.queue_time = now - entry.arrived;
    entry.outcome.status = MayRun(entry.submission);
    if (!entry.outcome.status.ok()) continue;
    rows += Rows(entry.submission);
    for (const SequenceTask& task : entry.submission.tasks) slices[task.program].push_back(task.slice);
  }
  absl::Status ran;
  for (const auto& [program, sequences] : slices) {
    if (ran.ok()) ran = OrOutOfMemory([&] { return program->Advance(sequences, workspaces.For(program)); });
  }
  for (Entry& entry : batch) {
    if (!entry.outcome.status.ok()) continue;
    entry.outcome.status = ran;
    entry.outcome.compute_time = SteadyNow() - now;
    entry.outcome.largest_batch = rows;
  }
}

void RequestScheduler::Work() {
  WorkspaceCache workspaces(kWorkspacesPerWorker);
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::vector<Entry> batch = TakeBatch();
    lock.unlock();
    Run(batch, workspaces);
    for (Entry& entry : batch) entry.submission.done(std::move(entry.outcome));
    batch.clear();
    lock.lock();
  }
}

}  // namespace rnnserve
