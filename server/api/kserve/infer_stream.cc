// SPDX-License-Identifier: Apache-2.0
#include "server/api/kserve/infer_stream.h"

#include <google/protobuf/arena.h>

#include <optional>
#include <utility>

#include "base/out_of_memory.h"
#include "base/steady_now.h"
#include "server/rpc/message_bytes.h"
#include "server/rpc/status_table.h"

namespace rnnserve::kserve {
namespace {

constexpr size_t kMaxPollerBytes = 1 << 20;
constexpr size_t kMaxIdBytes = 128;

grpc::Slice SliceOf(const inference::ModelStreamInferResponse& response) {
  const size_t size = response.ByteSizeLong();
  grpc::Slice slice(size);
  response.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));  // ours alone
  return slice;
}

}  // namespace

// One request, in memory until it is answered.
class InferStream::Message {
 public:
  explicit Message(absl::StatusOr<CallAdmission::InFlight> in_flight) : in_flight_(std::move(in_flight)) {}
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  // Else the request is refused.
  absl::Status entered() const { return in_flight_.status(); }
  absl::Status Parse(grpc::ByteBuffer& bytes) { return ParseBytes(bytes, *request_); }
  const inference::ModelInferRequest& request() const { return *request_; }
  inference::ModelStreamInferResponse& response() { return *response_; }
  absl::Time arrived() const { return arrived_; }

  std::optional<LoadedModel> model;

 private:
  const absl::StatusOr<CallAdmission::InFlight> in_flight_;
  const absl::Time arrived_ = SteadyNow();
  google::protobuf::Arena arena_;
  inference::ModelInferRequest* const request_ =
      google::protobuf::Arena::CreateMessage<inference::ModelInferRequest>(&arena_);
  inference::ModelStreamInferResponse* const response_ =
      google::protobuf::Arena::CreateMessage<inference::ModelStreamInferResponse>(&arena_);
};

Task<absl::Status> InferStream::OnMessage(grpc::ByteBuffer bytes, absl::StatusOr<CallAdmission::InFlight> in_flight) {
  const size_t size = bytes.Length();
  const auto message = std::make_shared<Message>(std::move(in_flight));
  if (size > kMaxPollerBytes) co_await call_->LeavePoller();
  absl::Status parsed = message->Parse(bytes);
  bytes.Clear();
  call_->Parsed();
  if (!parsed.ok()) co_return parsed;
  co_await call_->UntilRoom();
  call_->BeginWork();
  absl::Status started = message->entered();
  if (started.ok()) {
    Task<absl::Status> starting = Start(message);
    started = co_await starting;
  }
  if (!started.ok()) Finish(message, started, {});
  co_return absl::OkStatus();
}

// OK: Finish is called, now or later.
Task<absl::Status> InferStream::Start(const MessagePtr& message) {
  const inference::ModelInferRequest& sent = message->request();
  absl::StatusOr<InferRequest> request = DecodeInfer(sent);
  absl::StatusOr<LoadedModel> model = service_->Find(*call_->caller(), sent.model_name(), sent.model_version());
  const absl::Status found = model.status();
  if (found.ok()) message->model = *std::move(model);
  if (!request.ok()) co_return request.status();
  if (!found.ok()) co_return found;
  InferCall& call = request->call;
  call.target = ModelName{message->model->name, message->model->version};
  call.deadline = message->arrived() + request->timeout;
  call.cancelled = call_->cancelled();
  call.caller_id = call_->caller_id();
  call.tenant = call_->caller()->tenant;
  if (request->sequence) {
    // The next message is read when this one has its place in the sequence.
    if (request->sequence->start) co_await call_->LeavePoller();
    RunInSequence(message, *std::move(request));
    co_return absl::OkStatus();
  }
  if (absl::Status open = service_->is_open_(); !open.ok()) co_return open;
  absl::StatusOr<InferRunPtr> accepted = service_->core_->Accept(call);
  if (!accepted.ok()) co_return accepted.status();
  if ((*accepted)->takes_long()) co_await call_->LeavePoller();
  RunWhole(message, *std::move(accepted));
  co_return absl::OkStatus();
}

void InferStream::RunInSequence(const MessagePtr& message, InferRequest request) {
  SequenceCaller caller = {.tenant = call_->caller()->tenant,
                           .caller_id = call_->caller_id(),
                           .deadline = request.call.deadline,
                           .cancelled = call_->cancelled(),
                           .request_id = message->request().id()};
  service_->sequences_.Run(std::move(request), *message->model, std::move(caller),
                           [this, message](absl::StatusOr<SequenceReply> reply) {
                             if (!reply.ok()) return Finish(message, reply.status(), {});
                             auto& response = *message->response().mutable_infer_response();
                             EncodeHead(message->request(), reply->version, response);
                             for (const OutputTensor& output : reply->result->outputs) EncodeOutput(output, response);
                             service_->statistics_.Add(*message->model, {.took = SteadyNow() - message->arrived(),
                                                                         .queue = reply->result->queue_time,
                                                                         .compute = reply->result->compute_time});
                             Finish(message, absl::OkStatus(), std::move(reply->held));
                           });
}

void InferStream::RunWhole(const MessagePtr& message, InferRunPtr accepted) {
  service_->core_->Run(std::move(accepted), [this, message](absl::StatusOr<InferReply> reply) {
    if (!reply.ok()) return Finish(message, reply.status(), {});
    auto& response = *message->response().mutable_infer_response();
    EncodeHead(message->request(), message->model->version, response);
    for (const OutputTensor& output : reply->outputs) EncodeOutput(output, response);
    service_->statistics_.Add(*message->model, {.took = SteadyNow() - message->arrived(),
                                                .queue = reply->queue_time,
                                                .compute = reply->compute_time,
                                                .largest_batch = reply->largest_batch});
    Finish(message, absl::OkStatus(), std::move(reply->memory));
  });
}

void InferStream::Finish(const MessagePtr& message, const absl::Status& status, std::optional<ByteBudget::Share> held) {
  const std::shared_ptr<StreamCall> call = call_;  // the stream may end with Ended, and this object with it
  const inference::ModelInferRequest& request = message->request();
  absl::Status sent = status;
  absl::StatusOr<grpc::Slice> slice = grpc::Slice();
  if (sent.ok()) {
    (*message->response().mutable_infer_response()->mutable_parameters())["triton_final_response"].set_bool_param(true);
    slice = OrOutOfMemory([&]() -> absl::StatusOr<grpc::Slice> { return SliceOf(message->response()); });
    sent = slice.status();
  }
  if (!sent.ok()) {
    inference::ModelStreamInferResponse refusal;
    refusal.set_error_message(ToWireError(sent).message);
    refusal.mutable_infer_response()->set_id(request.id());
    slice = SliceOf(refusal);
    if (message->model) {
      service_->statistics_.Add(*message->model, {.ok = false, .took = SteadyNow() - message->arrived()});
    }
  }
  const CallMetrics* calls =
      message->model ? service_->core_->CallsOfNamed(message->model->name) : service_->core_->CallsOf(kUnknownModel);
  call->RecordOperation(sent, request.id().substr(0, kMaxIdBytes), message->arrived(), calls);
  call->Send(*std::move(slice), std::move(held));
  call->EndWork();
}

}  // namespace rnnserve::kserve
