// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/stream/feeding.h"

#include <chrono>
#include <deque>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/rnnctl/interrupt.h"

namespace rnnserve::rnnctl {
namespace {

using Clock = std::chrono::steady_clock;

// Prints results in their order while the input is read and fed.
class Printer {
 public:
  explicit Printer(StreamResults& results) : results_(results), thread_([this] { Run(); }) {}
  ~Printer() { Finish().IgnoreError(); }

  struct Fed {
    std::future<absl::StatusOr<client::ChunkResult>> result;
    int64_t steps;
    Clock::time_point sent;
  };
  void Add(Fed fed) {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(fed));
    changed_.notify_one();
  }
  bool failed() {
    MutexLock lock(mutex_);
    return !status_.ok();
  }
  // After the last one: how it went.
  absl::Status Finish() {
    {
      MutexLock lock(mutex_);
      finished_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  void Run() {
    MutexLock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return finished_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Fed fed = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      absl::StatusOr<client::ChunkResult> result = fed.result.get();
      const auto latency = Clock::now() - fed.sent;
      absl::Status status = result.ok() ? results_.Add(*std::move(result), fed.steps, latency) : result.status();
      lock.lock();
      status_.Update(status);
      if (!status_.ok()) return;
    }
  }

  StreamResults& results_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Fed> queue_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace

absl::Status FeedAll(ChunkSource& source, size_t step_axis, double rate, client::RnnStream& stream,
                     StreamResults& results, int64_t& steps) {
  Printer printer(results);
  const InterruptGuard interrupt;  // an interrupted stream ends as at the end of its input
  const Clock::time_point start = Clock::now();
  while (!printer.failed() && !interrupt.interrupted()) {
    absl::StatusOr<std::optional<client::Tensor>> x = source.Next();
    if (interrupt.interrupted()) break;
    if (!x.ok()) {
      printer.Finish().IgnoreError();
      return x.status();
    }
    if (!*x) break;
    const int64_t count = (*x)->shape[step_axis];
    steps += count;
    Clock::time_point sent = Clock::now();
    if (rate > 0) {
      // A microphone has the chunk when its last step has been spoken; latency counts from there.
      sent = start + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(static_cast<double>(steps) / rate));
      std::this_thread::sleep_until(sent);
    }
    std::vector<client::Tensor> inputs;
    inputs.push_back(**std::move(x));
    printer.Add({stream.FeedAsync(std::move(inputs)), count, sent});
  }
  return printer.Finish();
}

}  // namespace rnnserve::rnnctl
