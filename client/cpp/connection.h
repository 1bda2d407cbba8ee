// SPDX-License-Identifier: Apache-2.0
// A channel to one server, and how unary calls over it are made and explained. Inside the library only: it names gRPC.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace rnnserve::client {

struct Connection {
  struct Kind {
    // Shares no TCP connection with another channel to the same address, so that behind a load balancer it may reach
    // another server.
    bool own_socket = false;
    // gRPC watches the server's health, and fails calls at once while it is NOT_SERVING.
    bool watches_health = false;
    // HOST:PORT by which certificates and proxies know it; "": the address.
    std::string name = {};
  };

  // Refuses the two slips that gRPC itself answers with riddles: it reads "http:" as a host, and port 0 or 443 into a
  // lone host.
  static absl::Status CheckAddress(const std::string& address);
  // Checks address and options.
  static absl::StatusOr<Connection> Make(std::string address, const ClientOptions& options, const Kind& kind);
  static absl::StatusOr<Connection> Make(std::string address, const ClientOptions& options) {
    return Make(std::move(address), options, Kind());
  }
  // UNAVAILABLE where the server says that it is NOT_SERVING, or cannot be reached; other errors are OK: not every
  // server and proxy tells its health.
  absl::Status CheckServing(grpc::ClientContext& context) const;
  absl::Status CheckServing() const;

  // `call` gets a context with the deadline set; 0: none.
  template <typename Call>
  absl::Status Run(std::chrono::milliseconds timeout, Call call) const {
    grpc::ClientContext context;
    AddMetadata(context);
    if (timeout.count() > 0) context.set_deadline(std::chrono::system_clock::now() + timeout);
    return Explain(call(context));
  }
  template <typename Call>
  absl::Status Run(Call call) const {
    return Run(options.timeout, std::move(call));
  }

  // Adds route and token, if there are any. To be called on the context of every call that is not made by Run.
  void AddMetadata(grpc::ClientContext& context) const;

  // Separates errors that share a gRPC code: a server that answers UNAVAILABLE and one that cannot be reached; a server
  // short of a resource and a message above the transport's limit.
  absl::Status Explain(const grpc::Status& status) const;

  std::string address;
  ClientOptions options;
  std::shared_ptr<grpc::Channel> channel;
  // Load balancers keep calls of one route at one server while it is there; "": they may spread the calls.
  std::string route = {};
};

}  // namespace rnnserve::client
