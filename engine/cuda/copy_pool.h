// SPDX-License-Identifier: Apache-2.0
// Threads that help with large copies in host memory: one thread copies some 12 GB/s, far less than a device takes.
//
// Several threads may call Run at once. The calling thread copies too and waits only for shares that helpers have
// begun: a helper that wakes late or serves another call delays no caller.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/cuda/row_copies.h"

namespace rnnserve::cuda {

class CopyPool {
 public:
  // Below this the caller copies alone: 4 MiB take 0.3 ms, and helpers of an idle virtual machine woke after 0.15 ms.
  static constexpr size_t kLeastBytes = size_t{4} << 20;

  // A quarter of the CPUs that this process may use, at most 4: the server's workers need the others. 0 on machines
  // with less than four.
  static size_t DefaultHelpers();

  // The threads start with the first large copy.
  explicit CopyPool(size_t helpers) : helpers_(helpers) {}
  ~CopyPool();
  CopyPool(const CopyPool&) = delete;
  CopyPool& operator=(const CopyPool&) = delete;

  // Returns when everything is copied.
  void Run(const RowCopies& copies);

 private:
  struct Job {
    const RowCopies& copies;
    std::atomic<size_t> next{0};  // share
    int busy = 0;                 // helpers on it; guarded by mutex_
  };
  static void CopySharesOf(Job& job);
  void StartThreads();  // with mutex_ held
  void Help();

  const size_t helpers_;
  std::mutex mutex_;  // guards what follows
  bool is_closing_ = false;
  bool has_started_ = false;
  std::vector<Job*> jobs_;  // that may have shares left
  std::condition_variable job_added_;
  std::condition_variable helper_done_;
  std::vector<std::thread> threads_;
};

}  // namespace rnnserve::cuda
