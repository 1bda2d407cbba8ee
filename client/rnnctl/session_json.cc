// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/session_json.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "client/cpp/codec.h"
#include "client/cpp/session_codec.h"
#include "client/rnnctl/json_print.h"

namespace rnnserve::rnnctl {
namespace {

void EncodeSession(const client::SessionInfo& info, v1::SessionInfo& wire) {
  wire.set_session(info.key);
  wire.set_name(info.name);
  wire.set_model(info.model);
  wire.set_fingerprint(info.fingerprint);
  wire.set_rows(info.rows);
  wire.set_last_applied(info.last_applied);
  wire.set_position(info.position);
  client::Encode(info.idle, *wire.mutable_idle());
  client::Encode(info.expires_in, *wire.mutable_expires_in());
  wire.set_state_bytes(info.state_bytes);
}

}  // namespace

std::string ToJsonLine(const client::ChunkResult& result) {
  v1::OperationReply wire;
  wire.set_number(result.number);
  wire.set_position(result.position);
  for (const client::Tensor& output : result.outputs) EncodeTyped(output, *wire.add_outputs());
  wire.set_engine(result.engine);
  client::Encode(result.queue_time, *wire.mutable_queue_time());
  client::Encode(result.compute_time, *wire.mutable_compute_time());
  return PrintJson(wire, /*in_lines=*/false) + "\n";
}

std::string ToJson(const std::vector<client::SessionInfo>& sessions) {
  v1::ListSessionsResponse wire;
  for (const client::SessionInfo& info : sessions) EncodeSession(info, *wire.add_sessions());
  return PrintJson(wire);
}

std::string ToJson(const client::SessionInfo& session) {
  v1::SessionInfo wire;
  EncodeSession(session, wire);
  return PrintJson(wire);
}

std::string ToJson(const client::OpenedSession& opened) {
  v1::OpenResponse wire;
  wire.set_session(opened.key);
  wire.set_fingerprint(opened.fingerprint);
  wire.set_created(opened.created);
  wire.set_owner_epoch(opened.owner_epoch);
  wire.set_rows(opened.rows);
  wire.set_last_applied(opened.last_applied);
  wire.set_position(opened.position);
  wire.set_max_in_flight(opened.max_in_flight);
  return PrintJson(wire);
}

std::string ToJson(const client::ForkedSessions& forked) {
  v1::ForkResponse wire;
  for (const std::string& key : forked.keys) wire.add_sessions(key);
  wire.set_number(forked.number);
  wire.set_owner_epoch(forked.owner_epoch);
  return PrintJson(wire);
}

std::string ToJson(const client::SessionState& state) {
  v1::GetStateResponse wire;
  wire.set_number(state.number);
  wire.set_position(state.position);
  wire.set_fingerprint(state.fingerprint);
  client::Encode(state.tensors, *wire.mutable_state());
  return PrintJson(wire);
}

absl::StatusOr<client::SessionState> ParseStateJson(std::string_view json) {
  v1::GetStateResponse wire;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &wire, options);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("is not the JSON form of rnnserve.v1.GetStateResponse: ",
                                                   std::string(parsed.message().data(), parsed.message().size())));
  }
  absl::StatusOr<client::SessionState> state = client::DecodeState(wire);
  if (state.ok()) return state;
  return absl::InvalidArgumentError(absl::StrCat("holds a state that cannot be used: ", state.status().message()));
}

std::string JsonField(std::string_view json, const std::string& name) {
  google::protobuf::Struct object;
  if (!google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &object).ok()) return "";
  const auto field = object.fields().find(name);
  return field == object.fields().end() ? "" : field->second.string_value();
}

std::string JsonText(const std::string& text) {
  google::protobuf::Value value;
  value.set_string_value(text);
  return PrintJson(value, /*in_lines=*/false);
}

}  // namespace rnnserve::rnnctl
