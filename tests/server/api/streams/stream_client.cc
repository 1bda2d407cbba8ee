// SPDX-License-Identifier: Apache-2.0
#include "tests/server/api/streams/stream_client.h"

#include "google/rpc/error_details.pb.h"

namespace rnnserve {
namespace {

// Nothing here takes as long unless it hangs.
std::chrono::system_clock::time_point Late() { return std::chrono::system_clock::now() + std::chrono::seconds(120); }

}  // namespace

StreamClient::StreamClient(v1::Recurrent::Stub& stub) {
  context_.set_deadline(Late());
  call_ = stub.Stream(&context_);
  reading_ = std::thread([this] { Read(); });
}

StreamClient::~StreamClient() {
  context_.TryCancel();
  reading_.join();
}

void StreamClient::Read() {
  v1::StreamResponse response;
  while (call_->Read(&response)) {
    const std::lock_guard lock(mutex_);
    for (v1::OperationReply& reply : *response.mutable_replies()) {
      std::string id = reply.request_id();
      replies_[std::move(id)] = std::move(reply);
    }
    changed_.notify_all();
  }
  const grpc::Status status = call_->Finish();
  const std::lock_guard lock(mutex_);
  over_ = true;
  status_ = status;
  changed_.notify_all();
}

void StreamClient::Send(const std::vector<v1::Operation>& operations) {
  v1::StreamRequest request;
  for (const v1::Operation& operation : operations) *request.add_operations() = operation;
  call_->Write(request);
}

std::optional<v1::OperationReply> StreamClient::Await(const std::string& request_id) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return over_ || replies_.count(request_id) > 0; });
  auto found = replies_.extract(request_id);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

grpc::Status StreamClient::End() {
  call_->WritesDone();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return over_; });
  return status_;
}

bool StreamClient::is_over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

ApplyClient::ApplyClient(v1::Sessions::Stub& stub, const v1::Operation& operation) {
  context_.set_deadline(Late());
  *request_.mutable_operation() = operation;
  stub.async()->Apply(&context_, &request_, &response_, [this](grpc::Status status) {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    changed_.notify_all();
  });
}

ApplyClient::~ApplyClient() {
  context_.TryCancel();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return status_.has_value(); });
}

std::optional<v1::OperationReply> ApplyClient::Await() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return status_.has_value(); });
  if (status_->ok()) return response_.reply();
  google::rpc::Status details;
  details.ParseFromString(status_->error_details());
  // What the server itself says has details or a number of the session; the rest comes from the wire.
  if (details.details_size() == 0 && status_->error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) return std::nullopt;
  v1::OperationReply reply;
  reply.mutable_status()->set_code(status_->error_code());
  reply.mutable_status()->set_message(status_->error_message());
  *reply.mutable_status()->mutable_details() = details.details();
  return reply;
}

std::string ReasonOf(const v1::OperationStatus& status) {
  for (const google::protobuf::Any& any : status.details()) {
    google::rpc::ErrorInfo info;
    if (any.UnpackTo(&info)) return info.reason();
  }
  return "";
}

}  // namespace rnnserve
