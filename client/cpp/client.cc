// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/client.h"

#include <utility>

#include "client/cpp/codec.h"
#include "client/cpp/connection.h"
#include "client/cpp/file_transfer.h"
#include "client/cpp/health.h"
#include "client/cpp/infer_calls.h"
#include "client/cpp/lookup.h"
#include "rnnserve/v1/models.grpc.pb.h"

namespace rnnserve::client {

struct Client::Connection : client::Connection {
  Connection(client::Connection first, std::vector<std::string> targets)
      : client::Connection(std::move(first)),
        infer(std::move(targets), options),
        models(v1::Models::NewStub(channel)) {}

  InferCalls infer;
  std::unique_ptr<v1::Models::Stub> models;
};

absl::StatusOr<std::unique_ptr<Client>> Client::Create(std::string address, ClientOptions options) {
  if (options.patience.count() < 0) {
    return absl::InvalidArgumentError("the patience is negative; 0 means that each server is asked once");
  }
  std::vector<std::string> targets = options.others;
  targets.insert(targets.begin(), std::move(address));
  targets = SplitAddresses(targets);
  absl::StatusOr<client::Connection> first = client::Connection::Make(targets.front(), options);
  if (!first.ok()) return first.status();
  for (const std::string& target : targets) {
    if (absl::Status checked = client::Connection::CheckAddress(target); !checked.ok()) return checked;
  }
  return std::unique_ptr<Client>(new Client(std::make_unique<Connection>(*std::move(first), std::move(targets))));
}

Client::Client(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Client::~Client() = default;

absl::StatusOr<InferResult> Client::Infer(const Target& target, const std::vector<Tensor>& inputs,
                                          const InferOptions& options) {
  const v1::InferRequest request = EncodeInfer(target, inputs, options);
  v1::InferResponse reply;
  const absl::Status status =
      connection_->infer.Run(options.timeout.value_or(connection_->options.timeout), request, reply);
  if (!status.ok()) return status;
  return DecodeInfer(reply);
}

absl::StatusOr<InferResult> Client::InferKnown(const Fingerprint& fingerprint, const OperatorDef& op,
                                               const std::vector<Tensor>& data, const std::vector<Tensor>& weights,
                                               const InferOptions& options) {
  const auto with_weights = [&] {
    std::vector<Tensor> inputs = data;
    inputs.insert(inputs.end(), weights.begin(), weights.end());
    return EncodeInfer(op, inputs, options);
  };
  v1::InferResponse reply;
  const absl::Status status = connection_->infer.Run(options.timeout.value_or(connection_->options.timeout),
                                                     EncodeInfer(fingerprint, data, options), reply, with_weights);
  if (!status.ok()) return status;
  return DecodeInfer(reply);
}

absl::StatusOr<InferResult> Client::InferSerialized(std::string_view request) {
  v1::InferRequest message;
  if (!message.ParseFromArray(request.data(), static_cast<int>(request.size()))) {
    return absl::InvalidArgumentError("not a serialized rnnserve.v1.InferRequest");
  }
  v1::InferResponse reply;
  const absl::Status status = connection_->infer.Run(connection_->options.timeout, message, reply);
  if (!status.ok()) return status;
  return DecodeInfer(reply);
}

absl::StatusOr<ModelInfo> Client::Load(const LoadRequest& request, const Progress& progress) {
  v1::LoadResponse reply;
  const auto* const file = std::get_if<OnnxFile>(&request.source);
  const absl::Status status = connection_->Run([&](grpc::ClientContext& context) {
    if (file != nullptr) {
      return SendFile(*connection_->models, context, EncodeUpload(request), file->bytes, progress, reply);
    }
    return connection_->models->Load(&context, EncodeLoad(request), &reply);
  });
  if (!status.ok()) return status;
  return DecodeModel(reply.model());
}

absl::StatusOr<ModelInfo> Client::Download(const ModelRef& model,
                                           const std::function<absl::Status(std::string_view)>& write,
                                           const Progress& progress) {
  v1::DownloadRequest request;
  Encode(model, *request.mutable_model());
  FileReceiver receiver(write, progress);
  const absl::Status status = connection_->Run(
      [&](grpc::ClientContext& context) { return receiver.Receive(*connection_->models, context, request); });
  if (absl::Status whole = receiver.Whole(status); !whole.ok()) return whole;
  return DecodeModel(receiver.model());
}

absl::Status Client::Unload(const ModelRef& model, const std::string& tenant) {
  v1::UnloadRequest request;
  request.set_tenant(tenant);
  Encode(model, *request.mutable_model());
  v1::UnloadResponse reply;
  return connection_->Run(
      [&](grpc::ClientContext& context) { return connection_->models->Unload(&context, request, &reply); });
}

absl::StatusOr<ModelInfo> Client::Get(const ModelRef& model) {
  v1::GetModelRequest request;
  Encode(model, *request.mutable_model());
  v1::GetModelResponse reply;
  const absl::Status status = connection_->Run(
      [&](grpc::ClientContext& context) { return connection_->models->Get(&context, request, &reply); });
  if (!status.ok()) return status;
  return DecodeModel(reply.model());
}

absl::StatusOr<ModelInfo> Client::Get(const Fingerprint& fingerprint) {
  v1::GetModelRequest request;
  request.set_fingerprint(fingerprint.hex);
  v1::GetModelResponse reply;
  const absl::Status status = connection_->Run(
      [&](grpc::ClientContext& context) { return connection_->models->Get(&context, request, &reply); });
  if (!status.ok()) return status;
  return DecodeModel(reply.model());
}

absl::StatusOr<ModelList> Client::List(bool all_tenants) {
  v1::ListModelsRequest request;
  request.set_all_tenants(all_tenants);
  v1::ListModelsResponse reply;
  const absl::Status status = connection_->Run(
      [&](grpc::ClientContext& context) { return connection_->models->List(&context, request, &reply); });
  if (!status.ok()) return status;
  return DecodeList(reply);
}

absl::StatusOr<HealthStatus> Client::Health(std::string_view service) {
  HealthStatus health = HealthStatus::kUnknown;
  const absl::Status status = connection_->Run([&](grpc::ClientContext& context) {
    grpc::Status call;
    health = CheckHealth(connection_->channel, context, service, call);
    return call;
  });
  if (!status.ok()) return status;
  return health;
}

}  // namespace rnnserve::client
