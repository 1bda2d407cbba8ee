// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "server/transport/listener.h"

namespace rnnserve {
namespace {

constexpr int kGrpcPortOfUnixSocket = 1;

class GrpcListener final : public Listener {
 public:
  GrpcListener(const ListenerOptions& options, const std::shared_ptr<grpc::ServerCredentials>& credentials,
               grpc::ServerBuilder& builder)
      : ports_(options.addresses.size()) {
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    for (size_t k = 0; k < ports_.size(); ++k) {
      builder.AddListeningPort(options.addresses[k], credentials, &ports_[k]);
    }
  }
  void Start() override {}
  std::vector<int> ports() const override {
    std::vector<int> ports = ports_;
    std::ranges::replace(ports, kGrpcPortOfUnixSocket, 0);
    return ports;
  }
  void CloseConnections(absl::Duration) override {}

 private:
  std::vector<int> ports_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> MakeGrpcListener(ListenerOptions options,
                                                           std::shared_ptr<grpc::ServerCredentials> credentials,
                                                           grpc::ServerBuilder& builder) {
  return std::make_unique<GrpcListener>(options, credentials, builder);
}

}  // namespace rnnserve
