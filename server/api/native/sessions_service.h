// SPDX-License-Identifier: Apache-2.0
// rnnserve.v1.Sessions: the unary calls.
#pragma once

#include <vector>

#include "rnnserve/v1/sessions.pb.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/unary_call.h"
#include "server/sessions/execution/session_core.h"

namespace rnnserve {

class SessionsService {
 public:
  explicit SessionsService(SessionCore* core);

  grpc::Service* grpc() { return &service_; }
  std::vector<UnaryMethod>& methods() { return methods_; }

 private:
  Task<UnaryReply> Open(UnaryCall& call);
  Task<UnaryReply> Apply(UnaryCall& call);
  Task<UnaryReply> GetState(UnaryCall& call);
  Task<UnaryReply> Fork(UnaryCall& call);
  Task<UnaryReply> Checkpoint(UnaryCall& call);
  Task<UnaryReply> List(UnaryCall& call);

  SessionCore* const core_;
  RawService service_;
  std::vector<UnaryMethod> methods_;
};

}  // namespace rnnserve
