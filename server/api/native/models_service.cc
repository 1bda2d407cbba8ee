// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/models_service.h"

#include <google/protobuf/arena.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/steady_now.h"
#include "server/api/native/infer_codec.h"
#include "server/api/native/model_download.h"
#include "server/api/native/model_upload.h"
#include "server/rpc/message_bytes.h"
#include "server/telemetry/log.h"

namespace rnnserve {

namespace {

absl::Status NeedsOperator(const Caller& caller, absl::string_view what) {
  if (caller.is_operator) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("tenant ", caller.tenant, " may not ", what, "; its token lacks `operator`"));
}

}  // namespace

ModelsService::ModelsService(Core* core, Serving serving, std::function<absl::Status()> is_open)
    : core_(core), serving_(std::move(serving)), is_open_(std::move(is_open)) {
  const auto add = [this](std::string name, Permission permission, const char* path, auto answer_function) {
    methods_.push_back({std::move(name), PostUnary(service_, path),
                        [this, answer_function](UnaryCall& call) { return Serve(call, answer_function); },
                        /*max_poller_bytes=*/0, permission,
                        /*while_draining=*/false,
                        /*metrics=*/nullptr});
  };
  add("Models.Load", Permission::kChangeModels, "/rnnserve.v1.Models/Load", &ModelsService::Load);
  add("Models.Unload", Permission::kChangeModels, "/rnnserve.v1.Models/Unload", &ModelsService::Unload);
  add("Models.Get", Permission::kUse, "/rnnserve.v1.Models/Get", &ModelsService::Get);
  add("Models.List", Permission::kUse, "/rnnserve.v1.Models/List", &ModelsService::List);
  const auto add_stream = [this](std::string name, const char* path, auto open) {
    StreamMethod& method = streams_.emplace_back();
    method.name = std::move(name);
    method.permission = Permission::kChangeModels;
    method.joins_parts = false;
    method.post = PostStream(service_, path);
    method.open = std::move(open);
  };
  add_stream("Models.Upload", "/rnnserve.v1.Models/Upload",
             [this](std::shared_ptr<StreamCall> call) { return std::make_unique<ModelUpload>(this, std::move(call)); });
  add_stream("Models.Download", "/rnnserve.v1.Models/Download", [this](std::shared_ptr<StreamCall> call) {
    return std::make_unique<ModelDownload>(this, std::move(call));
  });
}

template <typename Request, typename Response>
Task<UnaryReply> ModelsService::Serve(UnaryCall& call,
                                      absl::Status (ModelsService::*handle)(const UnaryCall&, const Request&,
                                                                            Response&)) {
  google::protobuf::Arena arena;
  auto& request = *google::protobuf::Arena::CreateMessage<Request>(&arena);
  auto& response = *google::protobuf::Arena::CreateMessage<Response>(&arena);
  absl::Status status = call.Parse(request);
  if (status.ok()) status = (this->*handle)(call, request, response);
  if (!status.ok()) co_return UnaryReply{std::move(status), {}};
  co_return UnaryReply{absl::OkStatus(), SerialiseBytes(response)};
}

absl::Status ModelsService::Load(const UnaryCall& sent, const v1::LoadRequest& request, v1::LoadResponse& response) {
  absl::StatusOr<LoadCall> call = DecodeLoad(request);
  if (!call.ok()) return call.status();
  return LoadAs({sent.caller(), sent.peer()}, *std::move(call), response);
}

absl::Status ModelsService::LoadAs(const ModelCaller& from, LoadCall call, v1::LoadResponse& response) {
  if (absl::Status known = core_->CheckEngineName(call.upload.engine); !known.ok()) return known;
  const Caller& caller = *from.caller;
  if (std::holds_alternative<FromRepository>(call.source)) {
    absl::Status may = NeedsOperator(caller, "load from the repository, whose models are everybody's");
    if (!may.ok()) return may;
  }
  // An operator's upload is shared.
  if (!caller.is_operator) call.upload.tenant = caller.tenant;
  const absl::StatusOr<LoadedModel> loaded = LoadSource(std::move(call));
  if (!loaded.ok()) return loaded.status();
  Log("loaded", *loaded, from);
  UpdateHealth(*loaded);
  Encode(*loaded, *response.mutable_model());
  return absl::OkStatus();
}

absl::StatusOr<LoadedModel> ModelsService::LoadSource(LoadCall call) {
  ModelStore& models = core_->models();
  Upload& upload = call.upload;
  if (const auto* layer = std::get_if<InlineLayer>(&call.source)) {
    return models.LoadInline(std::move(upload), layer->op, layer->weights);
  }
  if (const auto* layers = std::get_if<std::vector<InlineLayer>>(&call.source)) {
    std::vector<LayerView> views;
    for (const InlineLayer& layer : *layers) views.push_back({layer.op, layer.weights});
    return models.LoadStack(std::move(upload), views);
  }
  if (const auto* file = std::get_if<LoadCall::File>(&call.source)) return models.LoadFile(std::move(upload), *file);
  return models.LoadFromRepository(std::move(upload.name), upload.version.value_or(1), upload.options,
                                   std::move(upload.engine));
}

absl::Status ModelsService::Unload(const UnaryCall& sent, const v1::UnloadRequest& request, v1::UnloadResponse&) {
  const absl::StatusOr<ModelName> model = DecodeModelRef(request.model(), "model");
  if (!model.ok()) return model.status();
  const Caller& caller = *sent.caller();
  const bool is_of_tenant = !request.tenant().empty();
  if (is_of_tenant) {
    if (absl::Status may = NeedsOperator(caller, "unload another tenant's models"); !may.ok()) return may;
  }
  const UnloadOf whose = is_of_tenant         ? UnloadOf::kOwnAlone
                         : caller.is_operator ? UnloadOf::kOwnOrEverybodys
                                              : UnloadOf::kOwn;
  const auto removed =
      core_->models().Unload(is_of_tenant ? request.tenant() : caller.tenant, whose, model->name, model->version);
  if (!removed.ok()) return removed.status();
  for (const LoadedModel& unloaded : *removed) Log("unloaded", unloaded, {sent.caller(), sent.peer()});
  UpdateHealth(removed->front());
  return absl::OkStatus();
}

absl::Status ModelsService::Get(const UnaryCall& sent, const v1::GetModelRequest& request,
                                v1::GetModelResponse& response) {
  const absl::StatusOr<LoadedModel> loaded = Find(sent.caller()->tenant, request);
  if (!loaded.ok()) return loaded.status();
  Encode(*loaded, *response.mutable_model());
  return absl::OkStatus();
}

absl::StatusOr<LoadedModel> ModelsService::FindToDownload(const Caller& caller, const v1::DownloadRequest& request) {
  const absl::StatusOr<ModelName> model = DecodeModelRef(request.model(), "model");
  if (!model.ok()) return model.status();
  absl::StatusOr<LoadedModel> loaded = core_->models().Get(model->name, model->version, caller.tenant);
  if (!loaded.ok() || !loaded->tenant.empty()) return loaded;
  if (absl::Status may = NeedsOperator(caller, "download models that are everybody's"); !may.ok()) return may;
  return loaded;
}

absl::StatusOr<LoadedModel> ModelsService::Find(const std::string& tenant, const v1::GetModelRequest& request) {
  if (request.by_case() == v1::GetModelRequest::kModel) {
    const absl::StatusOr<ModelName> model = DecodeModelRef(request.model(), "model");
    if (!model.ok()) return model.status();
    return core_->models().Get(model->name, model->version, tenant);
  }
  if (request.by_case() != v1::GetModelRequest::kFingerprint) {
    return FieldError("by", "the request names no model; set model or fingerprint");
  }
  const absl::StatusOr<ModelFingerprint> fingerprint = DecodeFingerprint(request.fingerprint());
  if (!fingerprint.ok()) return fingerprint.status();
  for (LoadedModel& loaded : core_->models().List(tenant)) {
    if (loaded.model->fingerprint() == fingerprint->hex) return std::move(loaded);
  }
  absl::StatusOr<ModelPtr> model = core_->models().GetByFingerprint(fingerprint->hex, tenant);
  if (!model.ok()) return model.status();
  LoadedModel unnamed;
  unnamed.version = 0;
  unnamed.model = *std::move(model);
  return unnamed;
}

absl::Status ModelsService::List(const UnaryCall& sent, const v1::ListModelsRequest& request,
                                 v1::ListModelsResponse& response) {
  const Caller& caller = *sent.caller();
  if (request.all_tenants()) {
    if (absl::Status may = NeedsOperator(caller, "see the models of all tenants"); !may.ok()) return may;
  }
  const std::vector<LoadedModel> models =
      request.all_tenants() ? core_->models().ListAll() : core_->models().List(caller.tenant);
  for (const LoadedModel& loaded : models) Encode(loaded, *response.add_models());
  for (RepositoryFailure& failure : core_->models().Failures()) {
    v1::ListModelsResponse::Failure& message = *response.add_failures();
    message.set_path(std::move(failure.path));
    message.set_reason(std::move(failure.reason));
  }
  return absl::OkStatus();
}

void ModelsService::Log(const char* what, const LoadedModel& model, const ModelCaller& by) {
  const auto skipped = log_limit_.Allow(SteadyNow());
  if (!skipped) return;
  const std::string version = absl::StrCat(model.version), bytes = absl::StrCat(model.model->weight_bytes());
  const std::string more = *skipped == 0 ? "" : absl::StrCat(*skipped);
  LogInfo(absl::StrCat("model ", what), {{"model", model.name},
                                         {"version", version},
                                         {"source", model.source},
                                         {"bytes", bytes},
                                         {"warm_up", model.warm_up},
                                         {"of_tenant", model.tenant},
                                         {"tenant", by.caller->tenant},
                                         {"peer", by.peer},
                                         {"suppressed_before", more}});
}

void ModelsService::UpdateHealth(const LoadedModel& changed) {
  if (!changed.tenant.empty()) return;
  const MutexLock lock(serving_mutex_);
  serving_(changed.name, core_->models().Get(changed.name, {}).ok());
}

void ModelsService::Encode(const LoadedModel& loaded, v1::ModelInfo& info) const {
  int64_t packed_bytes = 0;
  for (const CellPtr& cell : loaded.model->distinct_cells()) packed_bytes += core_->programs().bytes_of(*cell);
  EncodeModelInfo(loaded, packed_bytes, info);
}

}  // namespace rnnserve
