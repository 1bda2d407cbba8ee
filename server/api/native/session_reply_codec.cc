// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "google/rpc/error_details.pb.h"
#include "server/api/native/session_codec.h"
#include "server/rpc/status_table.h"

namespace rnnserve {

namespace {

v1::OpenRequest::Durability EncodeDurability(Durability durability) {
  return durability == Durability::kSync       ? v1::OpenRequest::SYNC
         : durability == Durability::kInterval ? v1::OpenRequest::INTERVAL
                                               : v1::OpenRequest::LOCAL;
}

}  // namespace

void EncodeDuration(absl::Duration duration, google::protobuf::Duration& message) {
  message.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  message.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

void EncodeTensor(const OutputTensor& tensor, v1::Tensor& message) {
  message.set_name(tensor.name);
  message.set_data_type(static_cast<v1::DataType>(tensor.type));
  message.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  message.set_raw(tensor.bytes.data(), tensor.bytes.size());
}

void EncodeOpen(const OpenReply& reply, v1::OpenResponse& response) {
  response.set_session(reply.key);
  response.set_fingerprint(reply.fingerprint);
  response.set_last_applied(reply.numbers.last_applied);
  EncodeDuration(reply.terms.idle_timeout, *response.mutable_idle_timeout());
  response.set_max_in_flight(reply.terms.max_in_flight);
  response.set_window_operations(reply.terms.window.operations);
  response.set_window_bytes(reply.terms.window.bytes);
  response.set_state_type(static_cast<v1::DataType>(reply.state_type));
  response.set_created(reply.created);
  response.set_rows(reply.rows);
  response.set_position(reply.numbers.position);
  response.set_owner_epoch(reply.owner_epoch);
  response.set_data_input(reply.data_input);
  response.set_durability(EncodeDurability(reply.terms.durability));
  response.set_durable_number(reply.durable_number);
}

void EncodeGetState(StateReply reply, v1::GetStateResponse& response) {
  response.set_number(reply.numbers.last_applied);
  response.set_position(reply.numbers.position);
  response.set_fingerprint(std::move(reply.fingerprint));
  response.set_rows(reply.rows);
  for (const OutputTensor& tensor : reply.state) EncodeTensor(tensor, *response.mutable_state()->add_tensors());
}

void EncodeCheckpoint(const Numbers& numbers, v1::CheckpointResponse& response) {
  response.set_number(numbers.last_applied);
  response.set_position(numbers.position);
}

void EncodeFork(ForkedSessions forked, v1::ForkResponse& response) {
  for (std::string& key : forked.keys) response.add_sessions(std::move(key));
  response.set_number(forked.number);
  response.set_owner_epoch(forked.owner_epoch);
}

void EncodeList(SessionInfos infos, v1::ListSessionsResponse& response) {
  for (SessionInfo& info : infos.sessions) {
    v1::SessionInfo& message = *response.add_sessions();
    message.set_session(std::move(info.key));
    message.set_name(std::move(info.name));
    message.set_model(std::move(info.model));
    message.set_fingerprint(std::move(info.fingerprint));
    message.set_rows(info.view.rows);
    message.set_last_applied(info.view.numbers.last_applied);
    message.set_position(info.view.numbers.position);
    EncodeDuration(info.view.idle, *message.mutable_idle());
    EncodeDuration(info.expires_in, *message.mutable_expires_in());
    message.set_state_bytes(info.view.state_bytes);
  }
  response.set_next_page_token(std::move(infos.next_token));
}

void EncodeNumbers(const Numbers& numbers, v1::OperationReply& reply) {
  reply.set_last_applied(numbers.last_applied);
  reply.set_next_expected(numbers.next_expected());
  reply.set_position(numbers.position);
}

void EncodeStatus(const absl::Status& status, v1::OperationReply& reply) {
  const WireError error = ToWireError(status);
  v1::OperationStatus& message = *reply.mutable_status();
  message.set_code(error.code);
  message.set_message(error.message);
  google::rpc::Status details;
  if (details.ParseFromString(error.details)) message.mutable_details()->Swap(details.mutable_details());
  message.set_retryable(error.retry_after_ms.has_value());
  if (const std::optional<Numbers> numbers = NumbersOf(status)) EncodeNumbers(*numbers, reply);
}

}  // namespace rnnserve
