// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/session_codec.h"

#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "client/cpp/codec.h"

namespace rnnserve::client {

void Encode(std::span<const Tensor> state, v1::StateTensors& wire) {
  for (const Tensor& tensor : state) Encode(tensor, *wire.add_tensors());
}

void Encode(std::chrono::nanoseconds time, google::protobuf::Duration& wire) {
  constexpr int64_t kNanosPerSecond = 1'000'000'000;
  wire.set_seconds(time.count() / kNanosPerSecond);
  wire.set_nanos(static_cast<int32_t>(time.count() % kNanosPerSecond));
}

v1::OpenRequest EncodeOpen(const SessionSpec& spec) {
  v1::OpenRequest wire;
  wire.set_request_id(spec.request_id);
  wire.set_name(spec.name);
  wire.set_attach(spec.attach);
  wire.set_must_exist(spec.must_exist);
  if (const auto* op = std::get_if<OperatorDef>(&spec.target)) Encode(*op, *wire.mutable_operator_());
  if (const auto* model = std::get_if<ModelRef>(&spec.target)) Encode(*model, *wire.mutable_model());
  if (const auto* fingerprint = std::get_if<Fingerprint>(&spec.target)) wire.set_fingerprint(fingerprint->hex);
  for (const Tensor& tensor : spec.weights) Encode(tensor, *wire.add_weights());
  Encode(spec.options, *wire.mutable_options());
  if (spec.rows) wire.set_rows(*spec.rows);
  if (!spec.state.empty()) Encode(spec.state, *wire.mutable_state());
  if (!spec.state_of_session.empty()) wire.set_state_of_session(spec.state_of_session);
  for (const std::string& output : spec.outputs) wire.add_outputs(output);
  if (spec.idle_timeout) Encode(*spec.idle_timeout, *wire.mutable_idle_timeout());
  if (spec.max_in_flight) wire.set_max_in_flight(*spec.max_in_flight);
  if (spec.window_operations) wire.set_window_operations(*spec.window_operations);
  if (spec.window_bytes) wire.set_window_bytes(*spec.window_bytes);
  wire.set_durability(static_cast<v1::OpenRequest::Durability>(spec.durability));
  if (spec.state_type) wire.set_state_type(static_cast<v1::DataType>(*spec.state_type));
  wire.set_engine(spec.engine);
  return wire;
}

OpenedSession DecodeOpened(const v1::OpenResponse& wire) {
  return {.key = wire.session(),
          .fingerprint = wire.fingerprint(),
          .created = wire.created(),
          .owner_epoch = wire.owner_epoch(),
          .rows = wire.rows(),
          .last_applied = wire.last_applied(),
          .position = wire.position(),
          .max_in_flight = wire.max_in_flight()};
}

absl::StatusOr<SessionState> DecodeState(v1::GetStateResponse& wire) {
  ASSIGN_OR_RETURN(std::vector<Tensor> tensors, DecodeTensors(*wire.mutable_state()->mutable_tensors()));
  return SessionState{wire.number(), wire.position(), wire.fingerprint(), std::move(tensors)};
}

SessionInfo DecodeSession(const v1::SessionInfo& wire) {
  return {wire.session(),
          wire.name(),
          wire.model(),
          wire.fingerprint(),
          wire.rows(),
          wire.last_applied(),
          wire.position(),
          DecodeDuration(wire.idle()),
          DecodeDuration(wire.expires_in()),
          wire.state_bytes()};
}

}  // namespace rnnserve::client
