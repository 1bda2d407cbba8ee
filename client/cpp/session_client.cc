// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/session_client.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "client/cpp/codec.h"
#include "client/cpp/connection.h"
#include "client/cpp/lookup.h"
#include "client/cpp/session_codec.h"
#include "client/cpp/status.h"
#include "rnnserve/v1/sessions.grpc.pb.h"

namespace rnnserve::client {

struct SessionClient::Calls {
  Connection connection;
  std::unique_ptr<v1::Sessions::Stub> stub;

  template <typename Request, typename Response>
  absl::Status Run(grpc::Status (v1::Sessions::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                   const Request& request, Response& response) const {
    return connection.Run([&](grpc::ClientContext& context) { return (*stub.*method)(&context, request, &response); });
  }
};

absl::StatusOr<std::unique_ptr<SessionClient>> SessionClient::Create(std::string address, ClientOptions options) {
  ASSIGN_OR_RETURN(Connection connection, Connection::Make(SplitAddresses({std::move(address)}).front(), options));
  auto calls = std::make_unique<Calls>();
  calls->stub = v1::Sessions::NewStub(connection.channel);
  calls->connection = std::move(connection);
  return std::unique_ptr<SessionClient>(new SessionClient(std::move(calls)));
}

SessionClient::SessionClient(std::unique_ptr<Calls> calls) : calls_(std::move(calls)) {}
SessionClient::~SessionClient() = default;

absl::StatusOr<OpenedSession> SessionClient::Open(const SessionSpec& spec) {
  v1::OpenResponse reply;
  RETURN_IF_ERROR(calls_->Run(&v1::Sessions::Stub::Open, EncodeOpen(spec), reply));
  return DecodeOpened(reply);
}

absl::StatusOr<SessionState> SessionClient::GetState(const std::string& key) {
  v1::GetStateRequest request;
  request.set_session(key);
  v1::GetStateResponse reply;
  RETURN_IF_ERROR(calls_->Run(&v1::Sessions::Stub::GetState, request, reply));
  return DecodeState(reply);
}

absl::StatusOr<ForkedSessions> SessionClient::Fork(const std::string& key, int32_t count,
                                                   const std::vector<std::string>& names) {
  v1::ForkRequest request;
  request.set_session(key);
  request.set_count(count);
  for (const std::string& name : names) request.add_names(name);
  v1::ForkResponse reply;
  RETURN_IF_ERROR(calls_->Run(&v1::Sessions::Stub::Fork, request, reply));
  return ForkedSessions{{reply.sessions().begin(), reply.sessions().end()}, reply.number(), reply.owner_epoch()};
}

absl::StatusOr<ClosedSession> SessionClient::Close(const std::string& key, bool return_state) {
  v1::ApplyRequest request;
  request.mutable_operation()->set_session(key);
  request.mutable_operation()->mutable_close()->set_return_state(return_state);
  v1::ApplyResponse response;
  const absl::Status status = calls_->Run(&v1::Sessions::Stub::Apply, request, response);
  if (!status.ok()) return status;
  v1::OperationReply& reply = *response.mutable_reply();
  if (const absl::Status closed = FromOperation(reply.status()); !closed.ok()) return closed;
  ASSIGN_OR_RETURN(std::vector<Tensor> state, DecodeTensors(*reply.mutable_final_state()->mutable_tensors()));
  return ClosedSession{reply.last_applied(), reply.position(), std::move(state)};
}

absl::StatusOr<std::vector<SessionInfo>> SessionClient::List(size_t limit) {
  constexpr size_t kPage = 1000;  // the server's own bound
  std::vector<SessionInfo> infos;
  v1::ListSessionsRequest request;
  v1::ListSessionsResponse reply;
  do {
    request.set_page_size(static_cast<int32_t>(std::min(limit - infos.size(), kPage)));
    request.set_page_token(reply.next_page_token());
    RETURN_IF_ERROR(calls_->Run(&v1::Sessions::Stub::List, request, reply));
    for (const v1::SessionInfo& info : reply.sessions()) infos.push_back(DecodeSession(info));
    // A page that brings nothing ends the list whatever its token says: it comes from outside.
  } while (!reply.next_page_token().empty() && reply.sessions_size() > 0 && infos.size() < limit);
  return infos;
}

}  // namespace rnnserve::client
