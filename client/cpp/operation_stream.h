// SPDX-License-Identifier: Apache-2.0
// One Recurrent.Stream call. Inside the library only: it names gRPC.
//
// Its reader is gRPC's: messages come to the observer on one of gRPC's threads, one at a time. Writing never blocks;
// operations that come during a write are sent as one message. When the call has ended, for any reason, the observer
// gets OnEnd once and nothing after it.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/cpp/connection.h"
#include "rnnserve/v1/recurrent.grpc.pb.h"

namespace rnnserve::client {

class OperationStream final : private grpc::ClientBidiReactor<v1::StreamRequest, v1::StreamResponse> {
 public:
  // Called with no lock held; `id` is what Start was given. The observer outlives OnEnd.
  class Observer {
   public:
    virtual ~Observer() = default;
    // The server has taken the call.
    virtual void OnTaken(uint64_t id) = 0;
    virtual void OnMessage(uint64_t id, v1::StreamResponse& message) = 0;
    // `stream` is the last reference: drop it on a thread that is not gRPC's, since the destructor of a program's last
    // channel waits for gRPC's threads.
    virtual void OnEnd(uint64_t id, absl::Status status, std::shared_ptr<OperationStream> stream) = 0;
  };

  static std::shared_ptr<OperationStream> Start(const Connection& connection, Observer* observer, uint64_t id);

  void Send(std::vector<v1::Operation> operations);
  // No more operations; the server still answers those that have been sent.
  void Finish();
  void Cancel();

 private:
  OperationStream(const Connection& connection, Observer* observer, uint64_t id);
  void StartWriting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void OnReadInitialMetadataDone(bool ok) override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const Connection connection_;
  Observer* const observer_;
  const uint64_t id_;
  const std::unique_ptr<v1::Recurrent::Stub> stub_;
  grpc::ClientContext context_;
  v1::StreamResponse incoming_;
  std::shared_ptr<OperationStream> self_;  // until OnDone

  Mutex mutex_;
  std::deque<v1::Operation> outbox_ ABSL_GUARDED_BY(mutex_);
  v1::StreamRequest outgoing_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // nothing can be written any more
};

}  // namespace rnnserve::client
