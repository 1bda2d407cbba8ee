// SPDX-License-Identifier: Apache-2.0
// Callers of sessions: one Recurrent.Stream, and Sessions.Apply without waiting.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rnnserve/v1/recurrent.grpc.pb.h"
#include "rnnserve/v1/sessions.grpc.pb.h"

namespace rnnserve {

// Replies are told apart by the request_id of their operations. Thread-safe but for Send.
class StreamClient {
 public:
  explicit StreamClient(v1::Recurrent::Stub& stub);
  ~StreamClient();  // cancels
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;

  // One message. Nothing happens if the stream has broken.
  void Send(const std::vector<v1::Operation>& operations);
  // Nothing: the stream has ended without it. A reply is given once.
  std::optional<v1::OperationReply> Await(const std::string& request_id);
  void Cancel() { context_.TryCancel(); }
  // No more operations; the status once all has been answered.
  grpc::Status End();
  bool is_over() const;

 private:
  void Read();

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::StreamRequest, v1::StreamResponse>> call_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::map<std::string, v1::OperationReply> replies_;
  bool over_ = false;
  grpc::Status status_;

  std::thread reading_;  // last: it uses everything above
};

// One Sessions.Apply.
class ApplyClient {
 public:
  ApplyClient(v1::Sessions::Stub& stub, const v1::Operation& operation);
  ~ApplyClient();  // cancels

  // As over a stream: errors in the reply's status. Nothing: it is unknown how it went.
  std::optional<v1::OperationReply> Await();
  void Cancel() { context_.TryCancel(); }
  bool is_over() const {
    const std::lock_guard lock(mutex_);
    return status_.has_value();
  }

 private:
  grpc::ClientContext context_;
  v1::ApplyRequest request_;
  v1::ApplyResponse response_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<grpc::Status> status_;  // guarded by mutex_
};

// The reason of rnnserve's ErrorInfo; "" without one.
std::string ReasonOf(const v1::OperationStatus& status);

}  // namespace rnnserve
