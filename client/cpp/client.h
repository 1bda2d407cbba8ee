// SPDX-License-Identifier: Apache-2.0
// A connection to an rnnserve server, or to several.
//
//   auto client = Client::Create("127.0.0.1:50051");
//   OperatorDef rnn;
//   rnn.op_type = "RNN";
//   rnn.opset = 14;
//   auto result = (*client)->Infer(rnn, {x, w, r}, {.outputs = {"Y_h"}});
//   if (!result.ok()) std::cerr << result.status() << FieldOf(result.status()).value_or("");
//   else for (double v : ValuesOf(result->outputs[0])) std::cout << v << ' ';
//
// Errors carry the server's code and text; FieldOf and ReasonOf (base/field_error.h) give the field path and the
// machine-readable reason, RetryDelayOf (client/cpp/status.h) the server's retry delay. A server that
// cannot be reached is UNAVAILABLE with reason kCannotConnect.
//
// Of several servers, an Infer goes to the one with the fewest calls of this client in flight, in turn where these are
// equal. A server that cannot be reached, that leaves, or whose health (grpc.health.v1) is NOT_SERVING gets nothing
// until it is back. LoadBalancing::kPickFirst: every Infer goes to the first address that takes it. The other calls go
// to the first address.
//
// The client retries an Infer that a server refuses as UNAVAILABLE (a draining server does) or that reaches no server.
// It tries each address in turn, the same one again after the server's retry delay or after 50 ms, 100 ms, ... 1 s,
// until the timeout has passed. It also retries an Infer whose connection broke: Infer keeps nothing on the server, so
// running it twice does no harm. Where the engine that the call names is out of service, the client tries only the
// other addresses. If no server has ever answered this client, it gives up 5 s after it has tried each address: the
// addresses may be wrong. The error says how many tries were made. Other errors and other calls are not retried.
//
// Safe from any thread. Calls block; connecting happens on the first one. To run one operator many times without
// sending its weights each time, see bound_operator.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/credentials.h"
#include "client/cpp/types.h"

namespace rnnserve::client {

inline constexpr std::string_view kCannotConnect = "CANNOT_CONNECT";

struct ClientOptions {
  // Largest reply taken, in bytes. gRPC's own default of 4 MiB is too small for the outputs of long sequences.
  int max_receive_bytes = 64 << 20;
  // Time for a call, connecting and being sent again included. 0: no limit.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  Credentials credentials = {};
  // Further servers with the same models.
  std::vector<std::string> others = {};
  LoadBalancing load_balancing = LoadBalancing::kSpread;
  // How long an Infer without a timeout retries while no server takes it. 0: each server is asked once at most, timeout
  // or not.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
};

class Client {
 public:
  // `address` as gRPC names targets: HOST:PORT, unix:PATH, dns:///HOST:PORT; several by comma. A name with several
  // addresses (of a headless Service, say) stands for all of them; it is looked up again every 30 s, and sooner after a
  // failure.
  static absl::StatusOr<std::unique_ptr<Client>> Create(std::string address, ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Runs an operator over whole sequences.
  absl::StatusOr<InferResult> Infer(const Target& target, const std::vector<Tensor>& inputs,
                                    const InferOptions& options = {});
  // The same, of a serialized rnnserve.v1.InferRequest.
  absl::StatusOr<InferResult> InferSerialized(std::string_view request);

  // A file goes in pieces, whatever the server's limit of a message is; `progress` hears of each.
  absl::StatusOr<ModelInfo> Load(const LoadRequest& request, const Progress& progress = {});
  // The ONNX file of a model, piece by piece to `write`, whose error ends the call. What it has been given is the whole
  // file only if this is OK.
  absl::StatusOr<ModelInfo> Download(const ModelRef& model, const std::function<absl::Status(std::string_view)>& write,
                                     const Progress& progress = {});
  // `tenant`, with an operator's token: the model of this tenant. Else the caller's own, or a shared one.
  absl::Status Unload(const ModelRef& model, const std::string& tenant = "");
  absl::StatusOr<ModelInfo> Get(const ModelRef& model);
  absl::StatusOr<ModelInfo> Get(const Fingerprint& fingerprint);
  // What the caller sees; with an operator's token also the models of all tenants.
  absl::StatusOr<ModelList> List(bool all_tenants = false);

  // grpc.health.v1: of the server as a whole (""), or of one service or model. One that the server does not know is
  // NOT_FOUND.
  absl::StatusOr<HealthStatus> Health(std::string_view service = "");

 private:
  friend class BoundOperator;
  // By fingerprint; a server that does not have it gets the operator and the weights.
  absl::StatusOr<InferResult> InferKnown(const Fingerprint& fingerprint, const OperatorDef& op,
                                         const std::vector<Tensor>& data, const std::vector<Tensor>& weights,
                                         const InferOptions& options);

  struct Connection;  // keeps gRPC out of this header
  explicit Client(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace rnnserve::client
