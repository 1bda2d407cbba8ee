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

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

namespace rnnserve {

class Poller {
 public:
  explicit Poller(std::unique_ptr<grpc::ServerCompletionQueue> queue) : queue_(std::move(queue)) {}
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  void Start();
  void Stop();

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
  int64_t guests_ = 0;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace rnnserve
