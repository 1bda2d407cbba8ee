// SPDX-License-Identifier: Apache-2.0
#include "server/api/grpc_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/steady_now.h"
#include "server/admission/send_watch.h"
#include "server/api/health/health_service.h"
#include "server/api/kserve/inference_service.h"
#include "server/api/native/models_service.h"
#include "server/api/native/recurrent_service.h"
#include "server/api/native/sessions_service.h"
#include "server/api/reflection/reflection_service.h"
#include "server/rpc/poller.h"
#include "server/rpc/preparation_pool.h"
#include "server/rpc/unknown_methods.h"
#include "server/security/tls.h"
#include "server/telemetry/log.h"
#include "server/telemetry/log_limit.h"

namespace rnnserve {
namespace {

// Streams and sessions are looked after this often while the server drains.
constexpr absl::Duration kDrainCheckPeriod = absl::Milliseconds(20);
constexpr std::array<std::string_view, 4> kServices = {"rnnserve.v1.Recurrent", "rnnserve.v1.Models",
                                                       "rnnserve.v1.Sessions", "inference.GRPCInferenceService"};
constexpr std::array<std::string_view, 7> kListed = {kServices[0],
                                                     kServices[1],
                                                     kServices[2],
                                                     kServices[3],
                                                     "grpc.health.v1.Health",
                                                     "grpc.reflection.v1.ServerReflection",
                                                     "grpc.reflection.v1alpha.ServerReflection"};
// Between the last call and the end. gRPC cancels what comes in once it shuts down, and its callers would see CANCELLED
// as if it had been their own doing; a connection that is closed before is UNAVAILABLE, and they go elsewhere.
constexpr absl::Duration kGoAwayTime = absl::Milliseconds(500);
constexpr int kMaxReadChunkBytes = 64 << 10;
constexpr absl::Duration kPollerPatience = absl::Seconds(10);

int Milliseconds(absl::Duration duration) {
  const int64_t ms = absl::ToInt64Milliseconds(duration);
  return static_cast<int>(std::min<int64_t>(ms, std::numeric_limits<int>::max()));  // INT_MAX is gRPC's infinity
}

void ConfigureTransport(const GrpcServer::Options& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(-1);  // replies are bounded by the core
  // gRPC looks at a message's size after it has decompressed it: 64 MiB would become 64 GiB first.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(options.max_connection_idle));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(options.max_connection_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Milliseconds(options.max_connection_age_grace));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_streams_per_connection);
  // A piece of a message keeps the whole chunk that it was read with: with gRPC's own 4 MiB, halves of a few messages
  // hold many times their size.
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMaxReadChunkBytes);
  // Without it a caller may send 64 KiB until the server reads, whatever the connection's delay.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, options.adapts_windows ? 1 : 0);
}

// gRPC's own bound, behind ours. gRPC enforces it by closing connections at random, so it stays above the admitted
// bytes.
class TransportQuota {
 public:
  TransportQuota(int64_t besides, grpc::ServerBuilder& builder) : besides_(besides) {
    builder.SetResourceQuota(quota_);
    const MutexLock lock(mutex_);
    Resize();
  }
  void SetAdmitted(MessageLine::Kind kind, int64_t bytes) {
    const MutexLock lock(mutex_);
    (kind == MessageLine::Kind::kCalls ? calls_ : streams_) = bytes;
    Resize();
  }

 private:
  void Resize() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    quota_.Resize(static_cast<size_t>(besides_ + calls_ + streams_));
  }

  const int64_t besides_;
  Mutex mutex_;
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t streams_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::ResourceQuota quota_ ABSL_GUARDED_BY(mutex_){"rnnserve"};
};

MessageLine::Options LineOptions(MessageLine::Options line, const GrpcServer::Options& options, TransportQuota& quota) {
  line.max_message_bytes = options.max_message_bytes;
  line.max_bytes = options.admission.max_bytes;
  line.on_admitted_bytes = [&quota, kind = line.kind](int64_t bytes) { quota.SetAdmitted(kind, bytes); };
  return line;
}

// Of a handshake that fails, gRPC's log is all there is: with mutual TLS, whose certificate is not taken, and why.
void LogTransport(std::string_view message) {
  static LogLimit limit;
  if (message.find("Handshake failed") == std::string_view::npos)
    return LogDebug(absl::StrCat("grpc: ", absl::string_view(message.data(), message.size())));
  const auto skipped = limit.Allow(SteadyNow());
  if (!skipped) return;
  LogWarning(absl::StrCat("TLS: ", absl::string_view(message.data(), message.size()),
                          *skipped == 0 ? "" : absl::StrCat(" (and ", *skipped, " more before it)")));
}

void AddCertificateMetric(const std::shared_ptr<const Certificates>& certificates, Metrics& metrics) {
  metrics.GaugeFunction(
      "rnnserve_tls_cert_expiry_timestamp_seconds", "When the server's certificate expires, in seconds since 1970.",
      [certificates] { return static_cast<double>(absl::ToUnixSeconds(certificates->InForce()->expiry)); });
}

// gRPC and protobuf have one log each for the whole process.
void RouteLogs() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function([](gpr_log_func_args* args) { LogTransport(args->message); });
    // Says on standard error what callers sent wrong; the caller's own error says it better.
    google::protobuf::SetLogHandler(nullptr);
  });
}

}  // namespace

struct GrpcServer::Parts {
  Parts(const Options& options, Core* core, SessionCore* session_core, grpc::ServerBuilder& builder,
        std::unique_ptr<Tokens> tokens)
      : quota(options.max_transport_bytes, builder),
        requests(options.metrics != nullptr ? *options.metrics : unseen),
        connections_total((options.metrics != nullptr ? *options.metrics : unseen)
                              .Counters("rnnserve_connections_total", "Connections that came.", {"result"})),
        gate(std::move(tokens)),
        admission(options.admission),
        send_watch(options.max_send_duration),
        poller(builder.AddCompletionQueue(),
               {options.work_waiting, [this] { return admission.calls() + line.reading(); }, options.work_unfinished,
                options.run_work},
               options.max_busy_poll),
        line(LineOptions({}, options, quota), &admission, poller.queue()),
        stream_line(LineOptions(MessageLine::ForStreams(), options, quota), &admission, poller.queue()),
        preparation(options.preparation_threads, [this](bool collects) { poller.CollectBeside(collects); }),
        health(options.max_health_watches, requests),
        streams(StreamParts(options.streams)),
        transfers(StreamParts(TransferLimits(options))),
        recurrent(core, session_core),
        sessions(session_core),
        models(
            core,
            [this](const std::string& name, bool is_loaded) {
              if (IsService(name)) return;
              if (is_loaded) {
                health.board().Set(name, true);
              } else {
                health.board().Retire(name);
              }
            },
            [this] { return admission.IsOpen(/*even_if_closed=*/false); }),
        inference(
            core, session_core, &models, [this] { return !leaving.load(); },
            [this] { return admission.IsOpen(/*even_if_closed=*/false); }) {}

  int64_t open_streams() const { return streams.open() + transfers.open(); }

  // A model may be called like a service; the service's health is not the model's.
  static bool IsService(std::string_view name) { return std::ranges::find(kServices, name) != kServices.end(); }

  // No model is called so: their names have no slash.
  void SetEngineServing(std::string_view engine, bool is_serving) {
    health.board().Set("engine/" + std::string(engine), is_serving);
  }
  void SetStoreServing(bool is_serving) { health.board().Set("store/sessions", is_serving); }

  // One slot of each method: gRPC keeps calls that come meanwhile, and looks through all slots at each completion (64
  // of Infer cost a call 5 % of its time).
  void Serve(std::vector<UnaryMethod>& methods) {
    for (UnaryMethod& method : methods) {
      method.metrics = requests.Method(method.name);
      ServeUnary(method, site);
    }
  }

  void Serve(StreamMethod& method) {
    method.operations = requests.Method(method.name + ".operation");
    Serve(method, streams);
  }

  void Serve(StreamMethod& method, StreamSite& at) {
    method.streams = requests.Method(method.name);
    ServeStream(method, at);
  }

  StreamSite::Parts StreamParts(const StreamLimits& limits) {
    return {&poller, &gate, &preparation, &send_watch, &stream_line, &requests, &call_log, limits};
  }

  static StreamLimits TransferLimits(const Options& options) {
    StreamLimits limits = options.transfers;
    limits.max_age = std::min(limits.max_age, options.max_call_duration);
    return limits;
  }

  ListenerOptions ListeningOptions(const Options& options) const {
    return {.addresses = options.listen,
            .max_connections = options.max_connections,
            .max_streams_per_connection = options.max_streams_per_connection,
            .has_tls = !options.tls.certificate.empty(),
            .on_plain_connection = options.on_plain_connection,
            .accepted = connections_total.With({"accepted"}),
            .refused = connections_total.With({"refused"}),
            .dismissed = connections_total.With({"dismissed"})};
  }

  std::vector<int> ports;
  std::atomic<bool> leaving = false;
  absl::Time goaway_until = absl::InfinitePast();
  TransportQuota quota;
  Metrics unseen;
  const RequestMetrics requests;
  CounterFamily& connections_total;
  Gate gate;
  CallLog call_log;
  CallAdmission admission;
  SendWatch send_watch;
  Poller poller;
  MessageLine line;
  MessageLine stream_line;
  PreparationPool preparation;
  UnarySite site;
  HealthService health;
  StreamSite streams;
  StreamSite transfers;
  ReflectionService reflection{kListed, requests};
  UnknownMethods unknown{requests};
  RecurrentService recurrent;
  SessionsService sessions;
  ModelsService models;
  kserve::InferenceService inference;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<grpc::Server> server;
};

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(Options options, Core* core, SessionCore* sessions) {
  RouteLogs();
  grpc::ServerBuilder builder;
  ConfigureTransport(options, builder);
  std::shared_ptr<Certificates> certificates;
  if (!options.tls.certificate.empty()) {
    RETURN_IF_ERROR(ApplyTlsPolicy(options.tls_policy));
    ASSIGN_OR_RETURN(certificates, Certificates::Load(options.tls));
    if (options.metrics != nullptr) AddCertificateMetric(certificates, *options.metrics);
  }
  std::unique_ptr<Tokens> tokens;
  if (!options.tokens_file.empty()) {
    absl::StatusOr<std::unique_ptr<Tokens>> loaded = Tokens::Load(options.tokens_file);
    if (!loaded.ok()) {
      return absl::FailedPreconditionError(absl::StrCat("the file of tokens, ", loaded.status().message()));
    }
    tokens = *std::move(loaded);
  }
  auto parts = std::make_unique<Parts>(options, core, sessions, builder, std::move(tokens));
  ASSIGN_OR_RETURN(parts->listener,
                   options.make_listener(parts->ListeningOptions(options), MakeCredentials(certificates), builder));
  builder.RegisterService(parts->health.grpc());
  builder.RegisterService(parts->reflection.grpc());
  builder.RegisterAsyncGenericService(parts->unknown.grpc());
  builder.RegisterService(parts->recurrent.grpc());
  builder.RegisterService(parts->models.grpc());
  builder.RegisterService(parts->sessions.grpc());
  builder.RegisterService(parts->inference.grpc());
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr) {
    return absl::UnavailableError(absl::StrCat("gRPC does not start on ", absl::StrJoin(options.listen, ", "),
                                               "; is an address taken? --log_level=debug may tell more"));
  }
  parts->ports = parts->listener->ports();
  HealthBoard& board = parts->health.board();
  board.Set("", true);  // the server
  for (const std::string_view service : kServices) board.Set(service, true);
  for (const Engine* engine : core->engines()) parts->SetEngineServing(engine->name(), engine->InService().ok());
  for (const LoadedModel& loaded : core->models().List()) {
    if (!Parts::IsService(loaded.name)) board.Set(loaded.name, true);
  }

  parts->site = {&parts->poller,   &parts->gate,        &parts->admission,
                 &parts->line,     &parts->preparation, &parts->send_watch,
                 &parts->requests, &parts->call_log,    options.max_call_duration};
  parts->Serve(parts->recurrent.methods());
  parts->Serve(parts->models.methods());
  parts->Serve(parts->sessions.methods());
  parts->Serve(parts->inference.infer_methods());
  parts->Serve(parts->inference.methods());
  parts->Serve(parts->recurrent.stream());
  parts->Serve(parts->inference.stream());
  for (StreamMethod& method : parts->models.streams()) parts->Serve(method, parts->transfers);
  parts->health.Serve(parts->poller);
  parts->reflection.Serve(parts->poller, parts->send_watch);
  parts->unknown.Serve(parts->poller);
  parts->gate.OnChange([raw = parts.get()] {
    raw->streams.EndRevoked();
    raw->transfers.EndRevoked();
  });
  parts->poller.Start();
  parts->listener->Start();
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(parts), sessions));
}

GrpcServer::GrpcServer(std::unique_ptr<Parts> parts, SessionCore* sessions)
    : parts_(std::move(parts)), sessions_(sessions) {}

GrpcServer::~GrpcServer() {
  parts_->admission.Close();
  parts_->gate.OnChange({});
  parts_->listener->CloseConnections(std::max(parts_->goaway_until - SteadyNow(), absl::ZeroDuration()));
  parts_->server->Shutdown(std::chrono::system_clock::now());
  parts_->poller.Stop();
}

void GrpcServer::SetEngineServing(std::string_view engine, bool is_serving) {
  parts_->SetEngineServing(engine, is_serving);
}

void GrpcServer::SetStoreServing(bool is_serving) { parts_->SetStoreServing(is_serving); }

void GrpcServer::UpdateHealth(const LoadedModel& model) { parts_->models.UpdateHealth(model); }

bool GrpcServer::is_ready() const { return !parts_->leaving.load(); }

bool GrpcServer::is_alive() const { return parts_->poller.IsResponsive(kPollerPatience); }

const std::vector<int>& GrpcServer::ports() const { return parts_->ports; }

void GrpcServer::SetNotServing() {
  if (!parts_->leaving.exchange(true)) parts_->health.board().Leave();
}

bool GrpcServer::Drain(absl::Time deadline) {
  SetNotServing();
  parts_->admission.Close();
  sessions_->StartDrain();
  parts_->streams.Drain(deadline);
  if (!parts_->admission.WaitEmpty(deadline)) return false;
  while (parts_->open_streams() > 0 || !sessions_->IsCarriedOver() || parts_->admission.calls() > 0) {
    if (SteadyNow() >= deadline || parts_->admission.WaitCancelled(kDrainCheckPeriod)) return false;
  }
  parts_->goaway_until = std::min(SteadyNow() + kGoAwayTime, deadline);
  return true;
}

std::string GrpcServer::Remaining() const {
  const int64_t calls = parts_->admission.calls(), streams = parts_->open_streams();
  const Sessions::LeftBehind left = sessions_->CountLeftBehind();
  std::string text = absl::StrCat(calls, " calls in flight, ", streams, " streams");
  if (left.local > 0) absl::StrAppend(&text, ", ", left.local, " sessions whose state no client has fetched");
  if (left.durable > 0) {
    absl::StrAppend(&text, ", ", left.durable, " durable sessions with operations that the session store lacks");
  }
  return text;
}

void GrpcServer::EndDrain() { parts_->admission.CancelWait(); }

}  // namespace rnnserve
