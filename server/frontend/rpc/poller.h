// SPDX-License-Identifier: Apache-2.0
// The thread that polls one completion queue and continues the coroutines that wait there. It must never block.
//
//   Poller poller(builder.AddCompletionQueue());     // before the server is built
//   poller.Start();                                  // after
//   ...
//   server->Shutdown(...);                           // ends posted slots
//   poller.Stop();                                   // waits for the last guest, then for the thread
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace rnnserve {

class Poller {
 public:
  explicit Poller(std::unique_ptr<grpc::ServerCompletionQueue> queue) : queue_(std::move(queue)) {}
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  void Start();
  void Stop();

  // Whether the thread waits for events, or began with its present one less than `patience` ago.
  bool IsTurning(absl::Duration patience) const;

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

  // Held by each coroutine that uses the queue: a queue must not be shut down while operations may still be started.
  class Guest {
   public:
    explicit Guest(Poller& poller);
    ~Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

   private:
    Poller& poller_;
  };

 private:
  void Poll();

  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::mutex mutex_;
  std::condition_variable nobody_;
  int64_t guests_ = 0;                      // guarded by mutex_
  std::atomic<int64_t> busy_since_ns_ = 0;  // 0: waits

  std::thread thread_;
};

}  // namespace rnnserve
