// SPDX-License-Identifier: Apache-2.0
// rnnserve.v1.Models. All of it runs off the poller: loading hashes and packs, and listing may be long.
#pragma once

#include <functional>
#include <string>

#include "base/mutex.h"
#include "rnnserve/v1/models.pb.h"
#include "server/api/native/model_codec.h"
#include "server/core/core.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/stream_call.h"
#include "server/rpc/unary_call.h"
#include "server/telemetry/log_limit.h"

namespace rnnserve {

// The caller of a method below.
struct ModelCaller {
  CallerPtr caller;
  std::string peer;  // its address
};

class ModelsService {
 public:
  // `serving(name, is_loaded)` is called when a shared model is loaded or its last version unloaded. On any thread.
  using Serving = std::function<void(const std::string& name, bool is_loaded)>;

  // `is_open`: whether the server takes new calls; else why not.
  ModelsService(Core* core, Serving serving, std::function<absl::Status()> is_open);

  grpc::Service* grpc() { return &service_; }
  std::vector<UnaryMethod>& methods() { return methods_; }
  std::vector<StreamMethod>& streams() { return streams_; }

  // Sets `serving_` to the present state of the model, so concurrent loads and unloads end correctly in any order.
  // For shared models only: health asks for no token, and other tenants must not learn of a tenant's models.
  void UpdateHealth(const LoadedModel& changed);

  // The kserve dialect calls these two as well.
  absl::Status Load(const UnaryCall& sent, const v1::LoadRequest& request, v1::LoadResponse& response);
  absl::Status Unload(const UnaryCall& sent, const v1::UnloadRequest& request, v1::UnloadResponse& response);

 private:
  friend class ModelDownload;
  friend class ModelUpload;

  // One method: bytes in, message decoded, `handle` fills the response, bytes out.
  template <typename Request, typename Response>
  Task<UnaryReply> Serve(UnaryCall& call,
                         absl::Status (ModelsService::*handle)(const UnaryCall&, const Request&, Response&));

  absl::Status Get(const UnaryCall& sent, const v1::GetModelRequest& request, v1::GetModelResponse& response);
  absl::Status List(const UnaryCall& sent, const v1::ListModelsRequest& request, v1::ListModelsResponse& response);

  absl::Status LoadAs(const ModelCaller& from, LoadCall call, v1::LoadResponse& response);
  absl::StatusOr<LoadedModel> LoadSource(LoadCall call);
  absl::StatusOr<LoadedModel> FindToDownload(const Caller& caller, const v1::DownloadRequest& request);
  absl::StatusOr<LoadedModel> Find(const std::string& tenant, const v1::GetModelRequest& request);
  // Logs that a caller has loaded or unloaded a model: at most a hundred a second.
  void Log(const char* what, const LoadedModel& model, const ModelCaller& by);
  void Encode(const LoadedModel& loaded, v1::ModelInfo& info) const;

  Core* const core_;
  Mutex serving_mutex_;  // held while `serving_` is called
  const Serving serving_;
  const std::function<absl::Status()> is_open_;
  LogLimit log_limit_{absl::Seconds(1), 100};
  RawService service_;
  std::vector<UnaryMethod> methods_;
  std::vector<StreamMethod> streams_;
};

}  // namespace rnnserve
