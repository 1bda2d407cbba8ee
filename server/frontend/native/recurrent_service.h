// SPDX-License-Identifier: Apache-2.0
// rnnserve.v1.Recurrent: Infer. Stream is answered by gRPC with UNIMPLEMENTED.
#pragma once

#include "rnnserve/v1/recurrent.grpc.pb.h"
#include "server/core/core.h"
#include "server/frontend/rpc/unary_call.h"

namespace rnnserve {

class RecurrentService {
 public:
  explicit RecurrentService(Core* core);

  grpc::Service* grpc() { return &service_; }
  std::vector<UnaryMethod>& methods() { return methods_; }

 private:
  Task<Answer> Infer(UnaryCall& call);

  Core* const core_;
  v1::Recurrent::WithRawMethod_Infer<v1::Recurrent::Service> service_;
  std::vector<UnaryMethod> methods_;
};

}  // namespace rnnserve
