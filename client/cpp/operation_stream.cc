// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/operation_stream.h"

#include <utility>

namespace rnnserve::client {
namespace {

// Below any server's limit for messages; a lone operation may be larger.
constexpr size_t kMessageBytes = 1 << 20;

}  // namespace

OperationStream::OperationStream(const Connection& connection, Observer* observer, uint64_t id)
    : connection_(connection), observer_(observer), id_(id), stub_(v1::Recurrent::NewStub(connection.channel)) {}

std::shared_ptr<OperationStream> OperationStream::Start(const Connection& connection, Observer* observer, uint64_t id) {
  std::shared_ptr<OperationStream> stream(new OperationStream(connection, observer, id));
  stream->self_ = stream;
  connection.AddMetadata(stream->context_);
  stream->stub_->async()->Stream(&stream->context_, stream.get());
  stream->AddHold();  // writes start outside of reactions; let go when reading has ended
  stream->StartRead(&stream->incoming_);
  stream->StartCall();
  return stream;
}

void OperationStream::Send(std::vector<v1::Operation> operations) {
  MutexLock lock(mutex_);
  if (ended_ || finishing_) return;
  for (v1::Operation& operation : operations) outbox_.push_back(std::move(operation));
  if (!writing_) StartWriting();
}

void OperationStream::StartWriting() {
  if (outbox_.empty()) {
    if (finishing_) StartWritesDone();
    return;
  }
  outgoing_.Clear();
  size_t bytes = 0;
  do {
    bytes += outbox_.front().ByteSizeLong();
    *outgoing_.add_operations() = std::move(outbox_.front());
    outbox_.pop_front();
  } while (!outbox_.empty() && bytes + outbox_.front().ByteSizeLong() <= kMessageBytes);
  writing_ = true;
  StartWrite(&outgoing_);
}

void OperationStream::Finish() {
  MutexLock lock(mutex_);
  if (ended_ || finishing_) return;
  finishing_ = true;
  if (!writing_) StartWriting();
}

void OperationStream::Cancel() { context_.TryCancel(); }

void OperationStream::OnReadInitialMetadataDone(bool ok) {
  if (ok) observer_->OnTaken(id_);
}

void OperationStream::OnReadDone(bool ok) {
  if (ok) {
    observer_->OnMessage(id_, incoming_);
    StartRead(&incoming_);
    return;
  }
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  RemoveHold();
}

void OperationStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  writing_ = false;
  if (ok && !ended_) StartWriting();
}

void OperationStream::OnDone(const grpc::Status& status) {
  absl::Status why = status.ok() ? absl::UnavailableError("the server ended the stream") : connection_.Explain(status);
  std::shared_ptr<OperationStream> self = std::move(self_);
  observer_->OnEnd(id_, std::move(why), std::move(self));
}

}  // namespace rnnserve::client
