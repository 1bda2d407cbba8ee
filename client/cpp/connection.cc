// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "client/cpp/health.h"
#include "client/cpp/status.h"

namespace rnnserve::client {
namespace {

// Whatever http_proxy says: a proxy elsewhere would look for the server on its own machine.
bool IsThisMachine(const std::string& address) {
  return address.starts_with("localhost:") || address.starts_with("127.") || address.starts_with("[::1]:");
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const Credentials& credentials) {
  if (!credentials.tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({credentials.root_certificates, credentials.private_key, credentials.certificate});
}

}  // namespace

void Connection::AddMetadata(grpc::ClientContext& context) const {
  if (!route.empty()) context.AddMetadata("x-session-route", route);
  const std::string& token = options.credentials.token;
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
}

absl::Status Connection::CheckAddress(const std::string& address) {
  const char* wrong = address.empty()                                                     ? "is empty"
                      : address.starts_with("http://") || address.starts_with("https://") ? "is a URL"
                      : address.find(':') == std::string::npos                            ? "has no port"
                                                                                          : nullptr;
  if (wrong == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the server's address \"", address, "\" ", wrong,
                                                 "; expected HOST:PORT, such as 127.0.0.1:50051, or ", "unix:PATH"));
}

absl::StatusOr<Connection> Connection::Make(std::string address, const ClientOptions& options, const Kind& kind) {
  if (absl::Status checked = CheckAddress(address); !checked.ok()) return checked;
  if (options.max_receive_bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_receive_bytes is ", options.max_receive_bytes, "; expected more than 0"));
  }
  if (options.timeout.count() < 0) return absl::InvalidArgumentError("the timeout is negative; 0 means no limit");
  const Credentials& credentials = options.credentials;
  if (!credentials.tls && !(credentials.root_certificates.empty() && credentials.certificate.empty())) {
    return absl::InvalidArgumentError("the credentials have certificates, but tls is not set; set it");
  }
  if (credentials.token.find_first_of("\r\n") != std::string::npos) {
    return absl::InvalidArgumentError("the token has a line break in it; give the token alone");
  }
  grpc::ChannelArguments arguments;
  if (!credentials.server_name.empty()) arguments.SetSslTargetNameOverride(credentials.server_name);
  arguments.SetMaxReceiveMessageSize(options.max_receive_bytes);
  // A dead line is noticed 5 s after something was sent (gRPC sets TCP_USER_TIMEOUT from it), within a minute where the
  // stream is idle; the server allows a ping every 30 s.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 40'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A server that is back is noticed within a second, a route that is dead after five.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  if (IsThisMachine(address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!kind.name.empty()) arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, kind.name);
  if (kind.watches_health) {
    arguments.SetServiceConfigJSON(
        R"({"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}})");
  }
  if (kind.own_socket) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address, ChannelCredentials(credentials), arguments);
  return Connection{.address = std::move(address), .options = options, .channel = std::move(channel)};
}

absl::Status Connection::CheckServing(grpc::ClientContext& context) const {
  grpc::Status ended;
  const HealthStatus health = CheckHealth(channel, context, "", ended);
  absl::Status status = Explain(ended);
  if (absl::IsUnavailable(status)) return status;
  if (status.ok() && health == HealthStatus::kNotServing) {
    return WithReason(absl::UnavailableError(absl::StrCat(address, " is NOT_SERVING")), "NOT_SERVING");
  }
  return absl::OkStatus();
}

absl::Status Connection::CheckServing() const {
  grpc::ClientContext context;
  AddMetadata(context);
  if (options.timeout.count() > 0) context.set_deadline(std::chrono::system_clock::now() + options.timeout);
  return CheckServing(context);
}

absl::Status Connection::Explain(const grpc::Status& status) const {
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

}  // namespace rnnserve::client
