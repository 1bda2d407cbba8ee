// SPDX-License-Identifier: Apache-2.0
// rnnserve.v1.Recurrent: Infer, and Stream by session_stream.h.
#pragma once

#include "rnnserve/v1/recurrent.pb.h"
#include "server/core/core.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/stream_call.h"
#include "server/rpc/unary_call.h"
#include "server/sessions/execution/session_core.h"

namespace rnnserve {

class RecurrentService {
 public:
  RecurrentService(Core* core, SessionCore* sessions);

  grpc::Service* grpc() { return &service_; }
  std::vector<UnaryMethod>& methods() { return methods_; }
  StreamMethod& stream() { return stream_; }

 private:
  Task<UnaryReply> Infer(UnaryCall& call);

  Core* const core_;
  RawService service_;
  std::vector<UnaryMethod> methods_;
  StreamMethod stream_;
};

}  // namespace rnnserve
