// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/copy_pool.h"

#include <sched.h>

#include <algorithm>
#include <system_error>

namespace rnnserve::cuda {
namespace {

constexpr size_t kMostHelpers = 4;
constexpr size_t kCpusPerHelper = 4;

}  // namespace

size_t CopyPool::DefaultHelpers() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;  // more CPUs than the set holds
  return std::min(kMostHelpers, static_cast<size_t>(CPU_COUNT(&allowed)) / kCpusPerHelper);
}

CopyPool::~CopyPool() {
  {
    std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  job_added_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CopyPool::CopySharesOf(Job& job) {
  for (size_t share = job.next++; share < job.copies.shares(); share = job.next++) job.copies.CopyShare(share);
}

void CopyPool::Run(const RowCopies& copies) {
  Job job{.copies = copies};
  if (helpers_ == 0 || copies.bytes() < kLeastBytes) return CopySharesOf(job);
  {
    std::lock_guard lock(mutex_);
    StartThreads();
    jobs_.push_back(&job);
  }
  job_added_.notify_all();
  CopySharesOf(job);
  std::unique_lock lock(mutex_);
  std::erase(jobs_, &job);
  helper_done_.wait(lock, [&] { return job.busy == 0; });
}

void CopyPool::StartThreads() {
  if (has_started_) return;
  has_started_ = true;
  try {
    while (threads_.size() < helpers_) threads_.emplace_back([this] { Help(); });
  } catch (const std::system_error&) {
    // The process is at its limit of threads: those that did start help.
  }
}

void CopyPool::Help() {
  std::unique_lock lock(mutex_);
  while (true) {
    job_added_.wait(lock, [this] { return is_closing_ || !jobs_.empty(); });
    if (is_closing_) return;
    Job& job = *jobs_.front();
    ++job.busy;
    lock.unlock();
    CopySharesOf(job);
    lock.lock();
    std::erase(jobs_, &job);
    if (--job.busy == 0) helper_done_.notify_all();
  }
}

}  // namespace rnnserve::cuda
