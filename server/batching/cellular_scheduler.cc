// SPDX-License-Identifier: Apache-2.0
#include "server/batching/cellular_scheduler.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "server/batching/workspace_cache.h"

namespace rnnserve {
namespace {

constexpr size_t kWorkspacesPerWorker = 8;

BatchQueue::Options WithWorkers(BatchQueue::Options options) {
  options.workers = std::max(options.workers, 1);
  return options;
}

absl::Status ShuttingDown() {
  return absl::UnavailableError("the server is shutting down; send the request to another one or later");
}

void Tell(BatchQueue::Finished& finished) {
  for (std::unique_ptr<Job>& job : finished) {
    job->submission.done(std::move(job->outcome));
    job.reset();
  }
  finished.clear();
}

}  // namespace

CellularScheduler::CellularScheduler(BatchQueue::Options options) : queue_(WithWorkers(options)) {
  const int workers = std::max(options.workers, 1);
  threads_.reserve(static_cast<size_t>(workers));
  for (int k = 0; k < workers; ++k) threads_.emplace_back([this] { Work(); });
}

CellularScheduler::~CellularScheduler() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status CellularScheduler::Schedule(Submission submission) {
  const absl::Time now = absl::Now();
  std::lock_guard lock(mutex_);
  if (stopping_ || aborted_) return ShuttingDown();
  absl::Status status = queue_.Add(submission, now);
  if (status.ok()) WakeAnother();
  return status;
}

void CellularScheduler::Abort() {
  BatchQueue::Finished finished;
  {
    std::lock_guard lock(mutex_);
    aborted_ = true;
    queue_.Fail(ShuttingDown(), finished);
  }
  Tell(finished);
}

int64_t CellularScheduler::sequences() const {
  std::lock_guard lock(mutex_);
  return queue_.sequences();
}

int64_t CellularScheduler::bytes() const {
  std::lock_guard lock(mutex_);
  return queue_.bytes();
}

// With the lock held. At most one signal for each worker that waits.
void CellularScheduler::WakeAnother() {
  const bool has_work = queue_.has_waiting() || queue_.next_release() != absl::InfiniteFuture();
  if (!has_work || signals_ >= idle_) return;
  ++signals_;
  wake_.notify_one();
}

bool CellularScheduler::Wait(std::unique_lock<std::mutex>& lock) {
  if (stopping_ && queue_.empty()) {
    wake_.notify_all();
    return false;
  }
  ++idle_;
  const absl::Time release = queue_.next_release();
  if (release == absl::InfiniteFuture()) {
    wake_.wait(lock);
  } else {
    wake_.wait_until(lock, absl::ToChronoTime(release));
  }
  --idle_;
  signals_ = std::max(signals_ - 1, 0);
  return true;
}

void CellularScheduler::Work() {
  WorkspaceCache workspaces(kWorkspacesPerWorker);
  BatchQueue::Finished finished;
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<Slice> slice = queue_.Form(absl::Now(), idle_ + 1, finished);
    if (!slice && finished.empty()) {
      if (!Wait(lock)) return;
      continue;
    }
    WakeAnother();
    lock.unlock();
    Tell(finished);
    if (!slice) {
      lock.lock();
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const absl::Status ran = slice->program->Advance(slice->rows, workspaces.For(slice->program));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    lock.lock();
    queue_.Complete(*std::move(slice), ran, took.count(), absl::Now(), finished);
    if (finished.empty()) continue;
    WakeAnother();
    lock.unlock();
    Tell(finished);
    lock.lock();
  }
}

}  // namespace rnnserve
