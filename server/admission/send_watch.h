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

  // A Sending is itself a link of the watch's list: a reply costs no allocation.
  class Sending {
   public:
    // `context` outlives it.
    Sending(SendWatch& watch, grpc::ServerContext* context);
    ~Sending();
    Sending(const Sending&) = delete;
    Sending& operator=(const Sending&) = delete;

   private:
    friend class SendWatch;

    SendWatch& watch_;
    grpc::ServerContext* const context_;
    const absl::Time ends_;
    bool is_cancelled_ = false;
    Sending* before_ = nullptr;
    Sending* after_ = nullptr;
  };

 private:
  void Watch();
  void EndOverdue(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration patience_;
  Mutex mutex_;
  CondVar wake_;
  Sending* oldest_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Sending* youngest_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool idle_ ABSL_GUARDED_BY(mutex_) = false;  // the thread waits for a first Sending
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
