// SPDX-License-Identifier: Apache-2.0
#include "tests/client/cpp/fake_server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "rnnserve/v1/models.grpc.pb.h"
#include "rnnserve/v1/recurrent.grpc.pb.h"

namespace rnnserve {
namespace {

grpc::Status ToGrpc(const FakeStatus& fake) {
  if (fake.code == 0) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(fake.code);
  if (fake.details.empty()) return grpc::Status(code, fake.message);
  google::rpc::Status details;
  details.set_code(fake.code);
  details.set_message(fake.message);
  for (const auto& detail : fake.details) *details.add_details() = detail;
  return grpc::Status(code, fake.message, details.SerializeAsString());
}

template <typename Handler, typename... Arguments>
grpc::Status Answer(const Handler& handler, Arguments&&... arguments) {
  if (!handler) return grpc::Status(grpc::UNIMPLEMENTED, "the test did not expect this call");
  return ToGrpc(handler(arguments...));
}

class FakeRecurrent final : public v1::Recurrent::Service {
 public:
  explicit FakeRecurrent(const FakeServer* fake) : fake_(fake) {}
  grpc::Status Infer(grpc::ServerContext*, const v1::InferRequest* request, v1::InferResponse* reply) override {
    return Answer(fake_->on_infer, *request, *reply);
  }

 private:
  const FakeServer* fake_;
};

class FakeModels final : public v1::Models::Service {
 public:
  explicit FakeModels(const FakeServer* fake) : fake_(fake) {}
  grpc::Status Load(grpc::ServerContext*, const v1::LoadRequest* request, v1::LoadResponse* reply) override {
    return Answer(fake_->on_load, *request, *reply);
  }
  grpc::Status Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadRequest>* reader,
                      v1::LoadResponse* reply) override {
    v1::UploadRequest first, next;
    std::string file;
    if (!reader->Read(&first)) return grpc::Status(grpc::INVALID_ARGUMENT, "no message");
    while (reader->Read(&next)) file += next.chunk();
    return Answer(fake_->on_upload, first.begin(), file, *reply);
  }
  grpc::Status Download(grpc::ServerContext*, const v1::DownloadRequest* request,
                        grpc::ServerWriter<v1::DownloadResponse>* writer) override {
    std::vector<v1::DownloadResponse> replies;
    grpc::Status status = Answer(fake_->on_download, *request, replies);
    for (const v1::DownloadResponse& reply : replies) writer->Write(reply);
    return status;
  }
  grpc::Status Unload(grpc::ServerContext*, const v1::UnloadRequest* request, v1::UnloadResponse*) override {
    return Answer(fake_->on_unload, *request);
  }
  grpc::Status Get(grpc::ServerContext*, const v1::GetModelRequest* request, v1::GetModelResponse* reply) override {
    return Answer(fake_->on_get, *request, *reply);
  }
  grpc::Status List(grpc::ServerContext*, const v1::ListModelsRequest*, v1::ListModelsResponse* reply) override {
    return Answer(fake_->on_list, *reply);
  }

 private:
  const FakeServer* fake_;
};

}  // namespace

struct FakeServer::Services {
  explicit Services(const FakeServer* fake) : recurrent(fake), models(fake) {}
  FakeRecurrent recurrent;
  FakeModels models;
  std::unique_ptr<grpc::Server> server;
};

google::protobuf::Any FieldDetail(const std::string& field, const std::string& description) {
  google::rpc::BadRequest bad;
  auto& violation = *bad.add_field_violations();
  violation.set_field(field);
  violation.set_description(description);
  return Pack(bad);
}

google::protobuf::Any ReasonDetail(const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  return Pack(info);
}

FakeServer::FakeServer(int port) : services_(std::make_unique<Services>(this)) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(&services_->recurrent);
  builder.RegisterService(&services_->models);
  services_->server = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port_);
}

FakeServer::~FakeServer() {
  if (is_there()) services_->server->Shutdown();
}

bool FakeServer::is_there() const { return services_->server != nullptr; }

void FakeServer::SetServing(bool serving) { services_->server->GetHealthCheckService()->SetServingStatus(serving); }

}  // namespace rnnserve
