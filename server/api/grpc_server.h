// SPDX-License-Identifier: Apache-2.0
// The gRPC server: listeners, services, health, reflection, limits, and leaving in good order.
//
//   auto server = GrpcServer::Start({.listen = {"0.0.0.0:50051"}}, &core).value();
//   ...
//   server->SetNotServing();                        // health NOT_SERVING: load balancers stop routing
//   server->Drain(SteadyNow() + absl::Seconds(30));   // refuses new calls, waits for those in flight
//   server.reset();                                   // cancels the rest
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/admission/call_admission.h"
#include "server/core/core.h"
#include "server/rpc/stream_call.h"
#include "server/security/certificates.h"
#include "server/security/tls_policy.h"
#include "server/sessions/execution/session_core.h"
#include "server/telemetry/metrics.h"
#include "server/transport/listener.h"

namespace rnnserve {

class GrpcServer {
 public:
  struct Options {
    // host:port, [::]:port or unix:path; port 0 picks a free one.
    std::vector<std::string> listen = {"0.0.0.0:50051"};
    TlsFiles tls = {};
    TlsPolicy tls_policy = {};
    // File of bearer tokens; empty: calls need none.
    std::string tokens_file = {};
    // Bytes of a request message; gRPC answers larger ones with RESOURCE_EXHAUSTED.
    int max_message_bytes = 64 << 20;
    // Bytes that gRPC may hold on all connections together, besides the messages of admitted calls (MessageLine): what
    // comes unread of messages, and parts of messages on streams. Above, gRPC stops reading, and closes connections if
    // that does not help.
    int64_t max_transport_bytes = int64_t{1} << 30;
    // Whether gRPC grants a connection more than 64 KiB of unread bytes: 4 MiB while it holds little of
    // max_transport_bytes, at a tenth of them twice what the connection's delay needs (at most 32 MiB), and less from
    // eight tenths on.
    bool adapts_windows = false;
    // How connections come in.
    ListenerFactory make_listener = &MakeGrpcListener;
    // Open connections. At the limit the server closes connections that have never called, or refuses new ones.
    // Must stay below the limit of file descriptors. gRPC's own listener has no such bound.
    int max_connections = 1000;
    // Idle time and age after which a connection gets GOAWAY, so that load spreads again over new servers. Its calls
    // may finish within the grace; infinite: never.
    absl::Duration max_connection_idle = absl::InfiniteDuration();
    absl::Duration max_connection_age = absl::InfiniteDuration();
    absl::Duration max_connection_age_grace = absl::InfiniteDuration();
    // Calls and streams of one connection at once; its further ones wait at the client.
    int max_streams_per_connection = 1024;
    // Called with each connection without TLS before gRPC reads from it.
    std::function<void(int fd)> on_plain_connection = [](int) {};
    // Calls and request bytes inside at once.
    CallAdmission::Options admission = {};
    StreamLimits streams = {};
    // Uploads and downloads of models at once, and the time that they may take, max_call_duration at most.
    StreamLimits transfers = {.max_streams = 16, .max_pause = absl::Seconds(30)};
    // Short slices of the scheduler, which the poller thread runs between events, and a preparation thread for a
    // message of many operations (Poller::Work).
    std::function<int64_t()> work_waiting = [] { return 0; };
    std::function<int64_t()> work_unfinished = [] { return 0; };
    std::function<void(int64_t callers, bool collects)> run_work = [](int64_t, bool) {};
    // How long the poller thread busy-polls for few callers' next call before it sleeps (BusyPoll).
    absl::Duration max_busy_poll = absl::Microseconds(200);
    // Watch calls of grpc.health.v1 at once.
    int max_health_watches = 1000;
    // Threads for parsing and hashing large messages and for loading models.
    int preparation_threads = 2;
    // A call without a deadline, or with a later one, gets this one.
    absl::Duration max_call_duration = absl::Minutes(10);
    // Maximum time for a caller to read its reply; then the call ends without it.
    absl::Duration max_send_duration = absl::Minutes(2);
    // Where calls are counted; outlives the server. Null: not counted.
    Metrics* metrics = nullptr;
  };

  // Listening when it returns. UNAVAILABLE if an address cannot be bound, FAILED_PRECONDITION if a file
  // cannot be used. Both cores outlive the server.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(Options options, Core* core, SessionCore* sessions);
  ~GrpcServer();

  // Whether the server accepts calls and is not draining.
  bool is_ready() const;
  // Whether calls move: false if the thread that moves them has been stuck for several seconds.
  bool is_alive() const;

  // Sets the health of a shared model that the server itself has loaded or unloaded. From any thread.
  void UpdateHealth(const LoadedModel& model);
  // Health of the service engine/NAME; at first what Engine::InService says. From any thread.
  void SetEngineServing(std::string_view engine, bool is_serving);
  // Health of the service store/sessions. The server itself serves without its store. From any thread.
  void SetStoreServing(bool is_serving);

  // The ports of Options::listen, in its order; 0 for a unix socket.
  const std::vector<int>& ports() const;

  // Sets health of all services to NOT_SERVING, notifies Watch calls, and is_ready to false; calls are still served.
  void SetNotServing();
  // The same; also refuses new calls as UNAVAILABLE and notifies streams. Waits for calls in flight, then for streams
  // and for sessions whose state no client has fetched yet. False: some were left at `deadline` or at EndDrain.
  bool Drain(absl::Time deadline);
  // What Drain still waits for, as a text for the log.
  std::string Remaining() const;
  // Ends Drain at once. From any thread.
  void EndDrain();

 private:
  struct Parts;
  GrpcServer(std::unique_ptr<Parts> parts, SessionCore* sessions);
  std::unique_ptr<Parts> parts_;
  SessionCore* sessions_;
};

}  // namespace rnnserve
