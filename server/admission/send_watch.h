// SPDX-License-Identifier: Apache-2.0
// Cancels calls whose callers do not read their answers. gRPC waits for such callers for ever, and meanwhile the answer
// holds memory and counts as a call in flight.
//
//   SendWatch watch(absl::Minutes(2));
//   {
//     const SendWatch::Sending sending(watch, context);   // calls context->TryCancel() after two minutes or a bit more
//     co_await ...                                        // the answer leaves
//   }
#pragma once

#include <grpcpp/server_context.h>

#include <list>
#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace rnnserve {

class SendWatch {
 public:
  // `patience` is positive; infinite: no call is ever cancelled.
  explicit SendWatch(absl::Duration patience);
  // No Sending is left.
  ~SendWatch();
  SendWatch(const SendWatch&) = delete;
  SendWatch& operator=(const SendWatch&) = delete;

 private:
  struct Entry {
    grpc::ServerContext* context;
    absl::Time ends;
    bool ended;
  };

 public:
  class Sending {
   public:
    // `context` outlives it.
    Sending(SendWatch& watch, grpc::ServerContext* context);
    ~Sending();
    Sending(const Sending&) = delete;
    Sending& operator=(const Sending&) = delete;

   private:
    SendWatch& watch_;
    std::list<Entry>::iterator place_;
  };

 private:
  void Watch();
  void EndOverdue(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration patience_;
  Mutex mutex_;
  CondVar wake_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the oldest first
  bool idle_ ABSL_GUARDED_BY(mutex_) = false;         // the thread waits for a first entry
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
