// SPDX-License-Identifier: Apache-2.0
#include "server/batching/worker_pool.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/batching/submission_run.h"

namespace rnnserve {
namespace {

constexpr size_t kWorkspacesPerWorker = 8;

}  // namespace

WorkerPool::WorkerPool(Options options) : options_(options) {
  const int workers = std::max(options_.workers, 1);
  threads_.reserve(static_cast<size_t>(workers));
  for (int k = 0; k < workers; ++k) threads_.emplace_back([this] { Work(); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status WorkerPool::Schedule(Submission submission) {
  const int64_t sequences = static_cast<int64_t>(submission.tasks.size());
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || aborted_.load(std::memory_order_relaxed)) {
      return absl::UnavailableError("the server is shutting down; send the request to another one or later");
    }
    // A submission larger than the whole queue still runs when nothing waits before it.
    if (queued_sequences_ > 0 && sequences > options_.max_queued_sequences - queued_sequences_) {
      return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", queued_sequences_, " of ",
                                                       options_.max_queued_sequences,
                                                       " sequences are waiting; send the request again later"));
    }
    queued_sequences_ += sequences;
    queue_[submission.priority].push_back({std::move(submission), absl::Now()});
  }
  wake_.notify_one();
  return absl::OkStatus();
}

void WorkerPool::Abort() { aborted_.store(true, std::memory_order_relaxed); }

int64_t WorkerPool::queued_sequences() const {
  std::lock_guard lock(mutex_);
  return queued_sequences_;
}

void WorkerPool::Work() {
  const SliceLimits limits = {options_.max_slice_sequences, options_.max_slice_steps, options_.max_slice_work};
  WorkspaceCache workspaces(kWorkspacesPerWorker);
  for (;;) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const auto highest = queue_.begin();
      entry = std::move(highest->second.front());
      highest->second.pop_front();
      if (highest->second.empty()) queue_.erase(highest);
      queued_sequences_ -= static_cast<int64_t>(entry.submission.tasks.size());
    }
    ScheduleOutcome outcome;
    outcome.queue_time = std::max(absl::Now() - entry.queued_at, absl::ZeroDuration());
    RunSubmission(entry.submission, limits, aborted_, workspaces, outcome);
    entry.submission.done(std::move(outcome));
  }
}

}  // namespace rnnserve
