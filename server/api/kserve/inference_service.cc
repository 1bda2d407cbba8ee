// SPDX-License-Identifier: Apache-2.0
#include "server/api/kserve/inference_service.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "server/api/kserve/infer_codec.h"
#include "server/api/kserve/infer_stream.h"
#include "server/api/kserve/model_codec.h"
#include "server/rpc/callback.h"
#include "server/rpc/message_bytes.h"

namespace rnnserve::kserve {
namespace {

constexpr char kServerName[] = "rnnserve";
constexpr const char* kExtensions[] = {"sequence",   "model_repository", "model_configuration",
                                       "parameters", "statistics",       "schedule_policy"};

ViewAs ViewOf(const std::string& name) {
  return absl::EndsWith(name, absl::string_view(kSequenceView.data(), kSequenceView.size())) ? ViewAs::kSequence
                                                                                             : ViewAs::kWhole;
}

}  // namespace

InferenceService::InferenceService(Core* core, SessionCore* sessions, ModelsService* models,
                                   std::function<bool()> is_ready, std::function<absl::Status()> is_open)
    : core_(core), models_(models), is_ready_(std::move(is_ready)), is_open_(std::move(is_open)), sequences_(sessions) {
  infer_methods_.push_back({"GRPCInferenceService.ModelInfer",
                            PostUnary(service_, "/inference.GRPCInferenceService/ModelInfer"),
                            [this](UnaryCall& call) { return Infer(call); },
                            /*max_poller_bytes=*/1 << 20, Permission::kUse,
                            /*while_draining=*/true,  // sequences that have begun go on to their end
                            /*metrics=*/nullptr});
  stream_.name = "GRPCInferenceService.ModelStreamInfer";
  stream_.joins_parts = false;
  stream_.post = PostStream(service_, "/inference.GRPCInferenceService/ModelStreamInfer");
  stream_.open = [this](std::shared_ptr<StreamCall> call) {
    return std::make_unique<InferStream>(this, std::move(call));
  };
  AddDescriptions();
  AddRepository();
  AddAbsent();
}

template <typename Request, typename Response>
void InferenceService::Add(const char* name, const char* path, Permission permission, bool while_draining,
                           Handler<Request, Response> handle) {
  auto serve = [handle = std::move(handle)](UnaryCall& call) -> Task<UnaryReply> {
    google::protobuf::Arena arena;
    auto& request = *google::protobuf::Arena::CreateMessage<Request>(&arena);
    auto& response = *google::protobuf::Arena::CreateMessage<Response>(&arena);
    absl::Status status = call.Parse(request);
    if (status.ok()) status = handle(call, request, response);
    if (!status.ok()) co_return UnaryReply{std::move(status), {}};
    co_return UnaryReply{absl::OkStatus(), SerialiseBytes(response)};
  };
  methods_.push_back({absl::StrCat("GRPCInferenceService.", name), PostUnary(service_, path), std::move(serve),
                      /*max_poller_bytes=*/0, permission, while_draining,
                      /*metrics=*/nullptr});
}

void InferenceService::AddDescriptions() {
  using namespace inference;  // NOLINT: the messages of one protocol
  Add<ServerLiveRequest, ServerLiveResponse>("ServerLive", "/inference.GRPCInferenceService/ServerLive",
                                             Permission::kUse, true, [](const UnaryCall&, auto&, auto& response) {
                                               response.set_live(true);
                                               return absl::OkStatus();
                                             });
  Add<ServerReadyRequest, ServerReadyResponse>("ServerReady", "/inference.GRPCInferenceService/ServerReady",
                                               Permission::kUse, true, [this](const UnaryCall&, auto&, auto& response) {
                                                 response.set_ready(is_ready_());
                                                 return absl::OkStatus();
                                               });
  Add<ModelReadyRequest, ModelReadyResponse>(
      "ModelReady", "/inference.GRPCInferenceService/ModelReady", Permission::kUse, true,
      [this](const UnaryCall& call, auto& request, auto& response) {
        const auto found = Find(*call.caller(), request.name(), request.version());
        response.set_ready(found.ok() && is_ready_());
        return absl::OkStatus();
      });
  Add<ServerMetadataRequest, ServerMetadataResponse>("ServerMetadata", "/inference.GRPCInferenceService/ServerMetadata",
                                                     Permission::kUse, true,
                                                     [](const UnaryCall&, auto&, auto& response) {
                                                       response.set_name(kServerName);
                                                       response.set_version(RNNSERVE_VERSION);
                                                       for (const char* extension : kExtensions)
                                                         response.add_extensions(extension);
                                                       return absl::OkStatus();
                                                     });
  Add<ModelMetadataRequest, ModelMetadataResponse>(
      "ModelMetadata", "/inference.GRPCInferenceService/ModelMetadata", Permission::kUse, true,
      [this](const UnaryCall& call, auto& request, auto& response) {
        const auto found = Find(*call.caller(), request.name(), request.version());
        if (found.ok()) {
          EncodeMetadata(*found, ViewOf(request.name()), response);
          response.set_name(request.name());
        }
        return found.status();
      });
  Add<ModelConfigRequest, ModelConfigResponse>(
      "ModelConfig", "/inference.GRPCInferenceService/ModelConfig", Permission::kUse, true,
      [this](const UnaryCall& call, auto& request, auto& response) {
        const auto found = Find(*call.caller(), request.name(), request.version());
        if (found.ok()) {
          EncodeConfig(*found, ViewOf(request.name()), *response.mutable_config());
          response.mutable_config()->set_name(request.name());
        }
        return found.status();
      });
  Add<ModelStatisticsRequest, ModelStatisticsResponse>(
      "ModelStatistics", "/inference.GRPCInferenceService/ModelStatistics", Permission::kUse, true,
      [this](const UnaryCall& call, auto& request, auto& response) -> absl::Status {
        if (request.name().empty()) {
          for (const LoadedModel& loaded : core_->models().List(call.caller()->tenant)) {
            statistics_.Encode(loaded, *response.add_model_stats());
          }
          return absl::OkStatus();
        }
        const auto found = Find(*call.caller(), request.name(), request.version());
        if (!found.ok()) return found.status();
        statistics_.Encode(*found, *response.add_model_stats());
        response.mutable_model_stats(0)->set_name(request.name());
        return absl::OkStatus();
      });
}

void InferenceService::AddRepository() {
  using namespace inference;  // NOLINT: the messages of one protocol
  Add<RepositoryIndexRequest, RepositoryIndexResponse>(
      "RepositoryIndex", "/inference.GRPCInferenceService/RepositoryIndex", Permission::kUse, true,
      [this](const UnaryCall& call, auto& request, auto& response) {
        for (LoadedModel& loaded : core_->models().List(call.caller()->tenant)) {
          auto& model = *response.add_models();
          model.set_name(std::move(loaded.name));
          model.set_version(absl::StrCat(loaded.version));
          model.set_state("READY");
        }
        if (request.ready()) return absl::OkStatus();
        for (RepositoryFailure& failure : core_->models().Failures()) {
          auto& model = *response.add_models();
          model.set_name(failure.path.substr(0, failure.path.find('/')));
          model.set_state("UNAVAILABLE");
          model.set_reason(std::move(failure.reason));
        }
        return absl::OkStatus();
      });
  Add<RepositoryModelLoadRequest, RepositoryModelLoadResponse>(
      "RepositoryModelLoad", "/inference.GRPCInferenceService/RepositoryModelLoad", Permission::kChangeModels, false,
      [this](const UnaryCall& call, auto& request, auto&) -> absl::Status {
        ASSIGN_OR_RETURN(v1::LoadRequest load, DecodeLoad(request));
        v1::LoadResponse loaded;
        return models_->Load(call, load, loaded);
      });
  Add<RepositoryModelUnloadRequest, RepositoryModelUnloadResponse>(
      "RepositoryModelUnload", "/inference.GRPCInferenceService/RepositoryModelUnload", Permission::kChangeModels,
      false, [this](const UnaryCall& call, auto& request, auto&) {
        v1::UnloadRequest unload;
        unload.mutable_model()->set_name(request.model_name());
        v1::UnloadResponse unloaded;
        return models_->Unload(call, unload, unloaded);
      });
}

// What a server without shared memory, traces and settings answers.
void InferenceService::AddAbsent() {
  using namespace inference;  // NOLINT: the messages of one protocol
  const auto add_empty = [this]<typename Request, typename Response>(const char* name, const char* path) {
    Add<Request, Response>(name, path, Permission::kUse, true,
                           [](const UnaryCall&, auto&, auto&) { return absl::OkStatus(); });
  };
  const auto add_refused = [this]<typename Request, typename Response>(const char* name, const char* path,
                                                                       std::string text) {
    Add<Request, Response>(name, path, Permission::kUse, true,
                           [text = std::move(text)](const UnaryCall&, auto&, auto&) -> absl::Status {
                             return absl::UnimplementedError(text);
                           });
  };
  const char* const no_memory = "this server shares no memory with callers; send the elements in raw_input_contents";
  add_empty.operator()<SystemSharedMemoryStatusRequest, SystemSharedMemoryStatusResponse>(
      "SystemSharedMemoryStatus", "/inference.GRPCInferenceService/SystemSharedMemoryStatus");
  add_refused.operator()<SystemSharedMemoryRegisterRequest, SystemSharedMemoryRegisterResponse>(
      "SystemSharedMemoryRegister", "/inference.GRPCInferenceService/SystemSharedMemoryRegister", no_memory);
  add_empty.operator()<SystemSharedMemoryUnregisterRequest, SystemSharedMemoryUnregisterResponse>(
      "SystemSharedMemoryUnregister", "/inference.GRPCInferenceService/SystemSharedMemoryUnregister");
  add_empty.operator()<CudaSharedMemoryStatusRequest, CudaSharedMemoryStatusResponse>(
      "CudaSharedMemoryStatus", "/inference.GRPCInferenceService/CudaSharedMemoryStatus");
  add_refused.operator()<CudaSharedMemoryRegisterRequest, CudaSharedMemoryRegisterResponse>(
      "CudaSharedMemoryRegister", "/inference.GRPCInferenceService/CudaSharedMemoryRegister", no_memory);
  add_empty.operator()<CudaSharedMemoryUnregisterRequest, CudaSharedMemoryUnregisterResponse>(
      "CudaSharedMemoryUnregister", "/inference.GRPCInferenceService/CudaSharedMemoryUnregister");
  add_refused.operator()<TraceSettingRequest, TraceSettingResponse>(
      "TraceSetting", "/inference.GRPCInferenceService/TraceSetting", "this server writes no traces");
  add_refused.operator()<LogSettingsRequest, LogSettingsResponse>(
      "LogSettings", "/inference.GRPCInferenceService/LogSettings",
      "the log of this server is set by its flags, not by callers");
}

absl::StatusOr<LoadedModel> InferenceService::Find(const Caller& caller, std::string_view name,
                                                   std::string_view version) const {
  ASSIGN_OR_RETURN(const ModelName decoded, DecodeModelName(name, version));
  return core_->models().Get(decoded.name, decoded.version, caller.tenant);
}

Task<UnaryReply> InferenceService::Infer(UnaryCall& call) {
  google::protobuf::Arena arena;
  auto& message = *google::protobuf::Arena::CreateMessage<inference::ModelInferRequest>(&arena);
  absl::Status status = call.Parse(message);
  if (!status.ok()) co_return UnaryReply{std::move(status), {}};
  call.set_request_id(message.id().substr(0, 128));
  absl::StatusOr<InferRequest> request = DecodeInfer(message);
  const absl::StatusOr<LoadedModel> model = Find(*call.caller(), message.model_name(), message.model_version());
  call.set_model(model.ok() ? core_->CallsOfNamed(model->name) : core_->CallsOf(kUnknownModel));
  if (!request.ok()) co_return UnaryReply{request.status(), {}};
  if (!model.ok()) co_return UnaryReply{model.status(), {}};
  request->call.target = ModelName{model->name, model->version};
  request->call.deadline = std::min(call.deadline(), call.arrived() + request->timeout);
  request->call.cancelled = call.cancelled();
  request->call.caller_id = call.caller_id();
  request->call.tenant = call.caller()->tenant;

  auto& response = *google::protobuf::Arena::CreateMessage<inference::ModelInferResponse>(&arena);
  Task<UnaryReply> running = request->sequence ? RunInSequence(call, message, *std::move(request), *model, response)
                                               : RunWhole(call, message, *std::move(request), *model, response);
  UnaryReply reply = co_await running;
  if (!reply.status.ok()) {
    statistics_.Add(*model, {.ok = false, .took = SteadyNow() - call.arrived()});
  }
  co_return reply;
}

Task<UnaryReply> InferenceService::RunWhole(UnaryCall& call, const inference::ModelInferRequest& message,
                                            InferRequest request, const LoadedModel& model,
                                            inference::ModelInferResponse& response) {
  if (absl::Status open = is_open_(); !open.ok()) co_return UnaryReply{std::move(open), {}};
  absl::StatusOr<InferRunPtr> accepted = core_->Accept(request.call);
  if (!accepted.ok()) co_return UnaryReply{accepted.status(), {}};
  if ((*accepted)->takes_long()) co_await call.LeavePoller();
  Callback<absl::StatusOr<InferReply>> inferring([&](auto done) { core_->Run(*std::move(accepted), std::move(done)); });
  absl::StatusOr<InferReply> reply = co_await inferring;
  if (!reply.ok()) co_return UnaryReply{reply.status(), {}};
  EncodeHead(message, model.version, response);
  for (const OutputTensor& output : reply->outputs) EncodeOutput(output, response);
  statistics_.Add(model, {.took = SteadyNow() - call.arrived(),
                          .queue = reply->queue_time,
                          .compute = reply->compute_time,
                          .largest_batch = reply->largest_batch});
  std::optional<ByteBudget::Share> held = std::move(reply->memory);
  grpc::ByteBuffer body = SerialiseBytes(response);
  if (held) held->Took();
  co_return UnaryReply{absl::OkStatus(), body, std::move(held)};
}

Task<UnaryReply> InferenceService::RunInSequence(UnaryCall& call, const inference::ModelInferRequest& message,
                                                 InferRequest request, const LoadedModel& model,
                                                 inference::ModelInferResponse& response) {
  if (request.sequence->start) co_await call.LeavePoller();
  SequenceCaller caller = {.tenant = call.caller()->tenant,
                           .caller_id = call.caller_id(),
                           .deadline = request.call.deadline,
                           .cancelled = call.cancelled(),
                           .request_id = message.id()};
  Callback<absl::StatusOr<SequenceReply>> running(
      [&](auto done) { sequences_.Run(std::move(request), model, std::move(caller), std::move(done)); });
  absl::StatusOr<SequenceReply> reply = co_await running;
  if (!reply.ok()) co_return UnaryReply{reply.status(), {}};
  EncodeHead(message, reply->version, response);
  for (const OutputTensor& output : reply->result->outputs) EncodeOutput(output, response);
  statistics_.Add(model, {.took = SteadyNow() - call.arrived(),
                          .queue = reply->result->queue_time,
                          .compute = reply->result->compute_time});
  co_return UnaryReply{absl::OkStatus(), SerialiseBytes(response), std::move(reply->held)};
}

}  // namespace rnnserve::kserve
