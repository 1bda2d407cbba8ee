// SPDX-License-Identifier: Apache-2.0
// How connections reach the gRPC server.
//
//   auto listener = MakeGrpcListener(options, credentials, builder).value();   // before the server is built
//   ... builder.BuildAndStart() ...
//   listener->Start();
//   ...
//   listener->CloseConnections(absl::Milliseconds(500));                                 // before the server shuts
//   down
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/telemetry/metric.h"

namespace rnnserve {

class Listener {
 public:
  virtual ~Listener() = default;
  // Accepts connections from now on. The server has been built.
  virtual void Start() = 0;
  // One of each address, 0 for a unix socket. Known once the server has been built.
  virtual std::vector<int> ports() const = 0;
  // Accepts no more, closes connections, and waits at most `longest` until gRPC has closed its own.
  virtual void CloseConnections(absl::Duration longest) = 0;
};

struct ListenerOptions {
  // host:port, [::]:port or unix:path; port 0 picks a free one.
  std::vector<std::string> addresses;
  // Connections at once; below the limit of file descriptors.
  int max_connections = 1000;
  // Promised to each connection.
  int max_streams_per_connection = 1024;
  bool has_tls = false;
  // Called with each connection without TLS before gRPC reads from it.
  std::function<void(int fd)> on_plain_connection = [](int) {};
  // rnnserve_connections_total by result.
  std::shared_ptr<Counter> accepted, refused, dismissed;
};

// UNAVAILABLE if an address cannot be bound.
using ListenerFactory = std::function<absl::StatusOr<std::unique_ptr<Listener>>(
    ListenerOptions, std::shared_ptr<grpc::ServerCredentials>, grpc::ServerBuilder&)>;

// gRPC's own listener: bounds no connections, counts none, and leaves floods to gRPC.
absl::StatusOr<std::unique_ptr<Listener>> MakeGrpcListener(ListenerOptions options,
                                                           std::shared_ptr<grpc::ServerCredentials> credentials,
                                                           grpc::ServerBuilder& builder);
// Acceptor: accepts connections at a limited rate, and hands them to gRPC once they call.
absl::StatusOr<std::unique_ptr<Listener>> MakePacedListener(ListenerOptions options,
                                                            std::shared_ptr<grpc::ServerCredentials> credentials,
                                                            grpc::ServerBuilder& builder);

}  // namespace rnnserve
