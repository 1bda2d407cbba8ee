// SPDX-License-Identifier: Apache-2.0
// One thread's sockets, timers and tasks.
//
//   auto loop = std::make_shared<EventLoop>(SteadyNow);
//   std::thread thread([loop] { loop->Run(); });
//   loop->Post([] { ... });      // any thread; all else on the loop's thread alone
//   loop->Stop(); thread.join();
//
// Tasks run in the order of Post, each once, on the loop's thread; those left at Stop are destroyed without running.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace rnnserve {

class EventLoop {
 public:
  using Task = absl::AnyInvocable<void()>;
  using OnReady = absl::AnyInvocable<void(uint32_t events)>;
  // Sorted by time, then by the order of At.
  using Timer = std::pair<absl::Time, uint64_t>;

  explicit EventLoop(std::function<absl::Time()> now);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // False: there are no descriptors left for it; it must not run.
  bool ok() const { return epoll_ >= 0 && wake_ >= 0; }

  // Any thread.
  void Post(Task task);
  void Stop();
  absl::Time Now() const { return now_(); }

  void Run();

  // Calls `ready` when the descriptor becomes readable or writable (edge-triggered), until Unwatch.
  uint64_t Watch(int fd, OnReady ready);
  void Unwatch(uint64_t watch, int fd);

  Timer At(absl::Time time, Task task);
  // Nothing if it has run, or was cancelled.
  void Cancel(const Timer& timer) { timers_.erase(timer); }

 private:
  // Milliseconds until the next timer, rounded up; -1: none.
  int Wait() const;
  void RunTimers();

  const std::function<absl::Time()> now_;
  const int epoll_;
  const int wake_;  // an eventfd
  uint64_t next_id_ = 1;
  std::map<Timer, Task> timers_;
  // Node-like: a handler may add others while it runs.
  absl::flat_hash_map<uint64_t, std::shared_ptr<OnReady>> watches_;

  Mutex mutex_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool sleeps_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rnnserve
