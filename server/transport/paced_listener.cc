// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/status_macros.h"
#include "server/transport/acceptor.h"
#include "server/transport/listener.h"

namespace rnnserve {
namespace {

constexpr uint64_t kTlsGreetingBytes = 1024;

Acceptor::Options AcceptorOptions(const ListenerOptions& options) {
  Acceptor::Options accepting;
  accepting.max_connections = static_cast<size_t>(options.max_connections);
  if (options.has_tls) {
    accepting.connections.greeting_bytes = kTlsGreetingBytes;
    accepting.pending.parse = &ParseTlsGreeting;
    accepting.limit_handshakes = true;
  } else {
    accepting.pending.answer = Http2ServerGreeting(static_cast<uint32_t>(options.max_streams_per_connection));
  }
  accepting.accepted = options.accepted;
  accepting.refused = options.refused;
  accepting.dismissed = options.dismissed;
  return accepting;
}

class PacedListener final : public Listener {
 public:
  PacedListener(ListenerOptions options, std::vector<ListenSocket> sockets, std::vector<int> ports,
                const std::shared_ptr<grpc::ServerCredentials>& credentials, grpc::ServerBuilder& builder)
      : options_(std::move(options)),
        sockets_(std::move(sockets)),
        ports_(std::move(ports)),
        grpc_(builder.experimental().AddExternalConnectionAcceptor(
            grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials)) {}

  void Start() override {
    acceptor_ = std::make_unique<Acceptor>(AcceptorOptions(options_), std::move(sockets_), [this](int fd) {
      if (!options_.has_tls) options_.on_plain_connection(fd);
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = fd;
      grpc_->HandleNewConnection(&connection);
    });
  }
  std::vector<int> ports() const override { return ports_; }
  void CloseConnections(absl::Duration longest) override {
    if (acceptor_ != nullptr) acceptor_->CloseConnections(longest);
    acceptor_.reset();
  }

 private:
  const ListenerOptions options_;
  std::vector<ListenSocket> sockets_;
  const std::vector<int> ports_;
  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc_;
  std::unique_ptr<Acceptor> acceptor_;  // last: its thread uses everything above
};

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> MakePacedListener(ListenerOptions options,
                                                            std::shared_ptr<grpc::ServerCredentials> credentials,
                                                            grpc::ServerBuilder& builder) {
  std::vector<ListenSocket> sockets;
  std::vector<int> ports;
  for (const std::string& address : options.addresses) {
    ASSIGN_OR_RETURN(std::vector<ListenSocket> listening, Listen(address));
    ports.push_back(listening.front().port());
    std::ranges::move(listening, std::back_inserter(sockets));
  }
  return std::make_unique<PacedListener>(std::move(options), std::move(sockets), std::move(ports), credentials,
                                         builder);
}

}  // namespace rnnserve
