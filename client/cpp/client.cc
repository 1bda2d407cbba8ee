// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/client.h"

#include <grpcpp/create_channel.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/codec.h"
#include "client/cpp/health.h"
#include "client/cpp/status.h"
#include "engine/op/field_error.h"
#include "rnnserve/v1/models.grpc.pb.h"
#include "rnnserve/v1/recurrent.grpc.pb.h"

namespace rnnserve::client {
struct Client::Connection {
  std::string address;
  ClientOptions options;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Recurrent::Stub> recurrent;
  std::unique_ptr<v1::Models::Stub> models;

  // `call` gets a context with the deadline set.
  template <typename Call>
  absl::Status Run(std::chrono::milliseconds timeout, Call call) {
    grpc::ClientContext context;
    if (timeout.count() > 0) context.set_deadline(std::chrono::system_clock::now() + timeout);
    return Explain(call(context));
  }
  template <typename Call>
  absl::Status Run(Call call) {
    return Run(options.timeout, std::move(call));
  }

  absl::Status Explain(const grpc::Status& status);
};

// Tells apart what gRPC gives one code: a server that says UNAVAILABLE and one that is not there; a server that is
// short of something and a message above the transport's limit.
absl::Status Client::Connection::Explain(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/false);
  const bool not_there = status.error_code() == grpc::UNAVAILABLE && state == GRPC_CHANNEL_TRANSIENT_FAILURE;
  const bool never_connected = status.error_code() == grpc::DEADLINE_EXCEEDED && state != GRPC_CHANNEL_READY;
  if (status.error_details().empty() && (not_there || never_connected)) {
    return WithReason(absl::UnavailableError(absl::StrCat("cannot connect to ", address, ": ", status.error_message())),
                      kCannotConnect);
  }
  if (status.error_code() == grpc::RESOURCE_EXHAUSTED && status.error_details().empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(status.error_message(),
                     " (a message is above a limit: a request above the server's, or a reply above this client's ",
                     options.max_receive_bytes, " bytes; ask for fewer outputs, split the rows, or raise the limit)"));
  }
  return FromGrpc(status);
}

namespace {

// The two slips that gRPC itself answers with riddles: it reads "http:" as a host, and port 0 or 443 into a lone host.
absl::Status CheckAddress(const std::string& address) {
  const char* wrong = address.empty()                                                     ? "is empty"
                      : address.starts_with("http://") || address.starts_with("https://") ? "is a URL"
                      : address.find(':') == std::string::npos                            ? "has no port"
                                                                                          : nullptr;
  if (wrong == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the server's address \"", address, "\" ", wrong,
                                                 "; expected HOST:PORT, such as 127.0.0.1:50051, or ", "unix:PATH"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(std::string address, ClientOptions options) {
  if (absl::Status checked = CheckAddress(address); !checked.ok()) return checked;
  if (options.max_receive_bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_receive_bytes is ", options.max_receive_bytes, "; expected more than 0"));
  }
  if (options.timeout.count() < 0) return absl::InvalidArgumentError("the timeout is negative; 0 means no limit");
  auto connection = std::make_unique<Connection>();
  connection->address = std::move(address);
  connection->options = options;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_receive_bytes);
  connection->channel = grpc::CreateCustomChannel(connection->address, grpc::InsecureChannelCredentials(), arguments);
  connection->recurrent = v1::Recurrent::NewStub(connection->channel);
  connection->models = v1::Models::NewStub(connection->channel);
  return std::unique_ptr<Client>(new Client(std::move(connection)));
}

Client::Client(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Client::~Client() = default;

absl::StatusOr<InferResult> Client::Infer(const Target& target, const std::vector<Tensor>& inputs,
                                          const InferOptions& options) {
  const v1::InferRequest request = EncodeInfer(target, inputs, options);
  v1::InferResponse reply;
  const absl::Status status = connection_->Run(
      options.timeout.value_or(connection_->options.timeout),
      [&](grpc::ClientContext& context) { return connection_->recurrent->Infer(&context, request, &reply); });
  if (!status.ok()) return status;
  return DecodeInfer(reply);
}

absl::StatusOr<InferResult> Client::InferJson(std::string_view json) {
  const absl::StatusOr<v1::InferRequest> request = ParseInferJson(json);
  if (!request.ok()) return request.status();
  v1::InferResponse reply;
  const absl::Status status = connection_->Run(
      [&](grpc::ClientContext& context) { return connection_->recurrent->Infer(&context, *request, &reply); });
  if (!status.ok()) return status;
  return DecodeInfer(reply);
}

absl::StatusOr<ModelInfo> Client::Load(const LoadRequest& request) {
  const v1::LoadRequest wire = EncodeLoad(request);
  v1::LoadResponse reply;
  const absl::Status status =
      connection_->Run([&](grpc::ClientContext& context) { return connection_->models->Load(&context, wire, &reply); });
  if (!status.ok()) return status;
  return DecodeModel(reply.model());
}

absl::Status Client::Unload(const ModelRef& model) {
  v1::UnloadRequest request;
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

absl::StatusOr<ModelList> Client::List() {
  const v1::ListModelsRequest request;
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
