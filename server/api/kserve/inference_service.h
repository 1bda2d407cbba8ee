// SPDX-License-Identifier: Apache-2.0
// inference.GRPCInferenceService, the Open Inference Protocol, on the cores and the policies of the native services.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "inference/grpc_service.pb.h"
#include "server/api/kserve/sequences.h"
#include "server/api/kserve/statistics.h"
#include "server/api/native/models_service.h"
#include "server/core/core.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/stream_call.h"
#include "server/rpc/unary_call.h"
#include "server/sessions/execution/session_core.h"

namespace rnnserve::kserve {

class InferenceService {
 public:
  // `models` loads and unloads for it; `is_ready` as of GrpcServer; `is_open` refuses whole runs while the server
  // drains.
  InferenceService(Core* core, SessionCore* sessions, ModelsService* models, std::function<bool()> is_ready,
                   std::function<absl::Status()> is_open);

  grpc::Service* grpc() { return &service_; }
  // ModelInfer alone, and all others.
  std::vector<UnaryMethod>& infer_methods() { return infer_methods_; }
  std::vector<UnaryMethod>& methods() { return methods_; }

  StreamMethod& stream() { return stream_; }

 private:
  friend class InferStream;
  template <typename Request, typename Response>
  using Handler = std::function<absl::Status(const UnaryCall&, Request&, Response&)>;
  // One method: bytes in, message decoded, `handle` fills the response, bytes out.
  template <typename Request, typename Response>
  void Add(const char* name, const char* path, Permission permission, bool while_draining,
           Handler<Request, Response> handle);
  void AddDescriptions();
  void AddRepository();
  void AddAbsent();

  Task<UnaryReply> Infer(UnaryCall& call);
  Task<UnaryReply> RunWhole(UnaryCall& call, const inference::ModelInferRequest& message, InferRequest request,
                            const LoadedModel& model, inference::ModelInferResponse& response);
  Task<UnaryReply> RunInSequence(UnaryCall& call, const inference::ModelInferRequest& message, InferRequest request,
                                 const LoadedModel& model, inference::ModelInferResponse& response);
  absl::StatusOr<LoadedModel> Find(const Caller& caller, std::string_view name, std::string_view version) const;

  Core* const core_;
  ModelsService* const models_;
  const std::function<bool()> is_ready_;
  const std::function<absl::Status()> is_open_;
  Sequences sequences_;
  Statistics statistics_;
  RawService service_;
  std::vector<UnaryMethod> infer_methods_;
  std::vector<UnaryMethod> methods_;
  StreamMethod stream_;
};

}  // namespace rnnserve::kserve
