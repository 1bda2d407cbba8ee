// SPDX-License-Identifier: Apache-2.0
// The thread that polls one completion queue and continues the coroutines that wait there. It must never block.
// What they have gathered meanwhile is worked off when the queue is dry, or a lone caller's call is all there is, and
// after a bounded number of events.
//
//   Poller poller(builder.AddCompletionQueue(), ...);     // before the server is built
//   poller.Start();                                  // after
//   ...
//   server->Shutdown(...);                           // ends posted slots
//   poller.Stop();                                   // waits for the last Hold, then for the thread
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/frontend/rpc/busy_poll.h"

namespace rnnserve {

class Poller {
 public:
  // Called on the poller's thread; `run` takes a moment at most.
  struct Work {
    // How many calls and operations have added to it.
    std::function<int64_t()> waiting;
    // Whether all calls inside have added to it: a lone caller's call is not kept waiting for others to come.
    std::function<bool()> is_complete;
    // Told whether one caller calls alone (BusyPoll).
    std::function<void(bool is_alone)> run;
    // Whether no call is inside: only then is the next event looked for before the thread sleeps (BusyPoll), since
    // others may need its CPU to serve them.
    std::function<bool()> is_idle;
  };

  // `max_busy_poll`: see BusyPoll; zero: the thread sleeps at once.
  Poller(std::unique_ptr<grpc::ServerCompletionQueue> queue, Work work, absl::Duration max_busy_poll)
      : queue_(std::move(queue)), work_(std::move(work)), busy_poll_(max_busy_poll) {}
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  void Start();
  void Stop();

  // Whether the thread waits for events, or began with its present one less than `patience` ago.
  bool IsTurning(absl::Duration patience) const;

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

  // Held by each coroutine that uses the queue: a queue must not be shut down while operations may still be started.
  class Hold {
   public:
    explicit Hold(Poller& poller);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Poller& poller_;
  };

 private:
  void Poll();
  // The next event; TIMEOUT if none is there and work waits.
  grpc::CompletionQueue::NextStatus Next(void** tag, bool* ok);
  // The next event, however long that takes; looks for it for `window` before it sleeps.
  grpc::CompletionQueue::NextStatus Await(absl::Duration window, int64_t began_ns, void** tag, bool* ok);

  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const Work work_;
  BusyPoll busy_poll_;
  int64_t waited_ns_ = 0;  // for events, since work was run
  Mutex mutex_;
  CondVar released_;
  int64_t holds_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<int64_t> busy_since_ns_ = 0;  // 0: waits

  std::thread thread_;
};

}  // namespace rnnserve
