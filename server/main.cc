// SPDX-License-Identifier: Apache-2.0
// rnnserve: flags, wiring, signals. The one place that names every concrete class.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "engine/cpu/cpu_engine.h"
#ifdef RNNSERVE_HAS_ONEDNN
#include "engine/onednn/onednn_engine.h"
#endif
#include "engine/reference/reference_engine.h"
#include "server/admin/admin_server.h"
#include "server/admin/health_probe.h"
#include "server/batching/cellular_scheduler.h"
#include "server/batching/request_scheduler.h"
#include "server/core/core.h"
#include "server/core/routing_thread.h"
#include "server/core/session_core.h"
#include "server/core/verifier.h"
#include "server/frontend/grpc_server.h"
#include "server/plugins/loaded_plugins.h"
#include "server/sessions/memory_sessions.h"
#include "server/sessions/sweeper.h"
#include "server/telemetry/log.h"
#include "server/telemetry/metrics.h"
#include "server/telemetry/process_metrics.h"
#include "server/telemetry/work_metrics.h"

ABSL_FLAG(std::vector<std::string>, listen, {"0.0.0.0:50051"},
          "addresses to listen on, separated by commas: host:port, [::]:port or unix:path; port 0 picks a free one");
ABSL_FLAG(std::string, port_file, "", "file that gets the port of the first address once the server listens");
constexpr char kDefaultAdminListen[] = "127.0.0.1:9464";
ABSL_FLAG(std::string, tls_cert, "",
          "PEM file of the server's certificate and its chain; empty: no TLS; read again when it changes");
ABSL_FLAG(std::string, tls_key, "", "PEM file of the certificate's private key");
ABSL_FLAG(std::string, tls_client_ca, "", "PEM file of who signs callers' certificates; empty: callers need none");
ABSL_FLAG(std::string, tokens_file, "",
          "file of bearer tokens, a line each: TENANT TOKEN [models]; empty: none needed; read again when it changes");
ABSL_FLAG(std::string, admin_listen, kDefaultAdminListen,
          "host:port of the admin port (HTTP): /metrics, /healthz, /readyz and a status page at /; empty: none");
ABSL_FLAG(std::string, admin_port_file, "", "file that gets the admin port's number once it listens");
ABSL_FLAG(std::string, models, "", "folder of models, NAME/VERSION/model.onnx; empty: none");
ABSL_FLAG(std::vector<std::string>, plugin, {},
          "shared libraries with further engines, separated by commas, e.g. librnnserve_cuda.so; one that cannot serve "
          "here is logged and left out");
ABSL_FLAG(int64_t, plugin_memory_bytes, 0,
          "bytes that a plugin's engine may hold of its device; 0: nine tenths of what is free at the start");
ABSL_FLAG(int32_t, plugin_device, 0, "ordinal of the device that a plugin's engine runs on");
ABSL_FLAG(std::string, engine, "auto",
          "engine of requests that name none and whose model names none, where it can run them; auto: whichever was "
          "measured to be the fastest here");
ABSL_FLAG(
    double, verify_share, 0,
    "share of the calls, 0 to 1, that run on a second engine as well; the largest difference is logged and counted. "
    "Such a call is answered once both have run");
ABSL_FLAG(int32_t, workers, 0, "threads that run engines; 0: one for each CPU");
ABSL_FLAG(
    bool, cpu_helper, true,
    "a second thread shares the work of a slice that runs alone on the cpu engine; it sleeps under load and where "
    "there is one CPU");
ABSL_FLAG(int32_t, max_message_bytes, 64 << 20, "bytes of a request message");
ABSL_FLAG(int64_t, max_transport_bytes, int64_t{1} << 30,
          "bytes of messages on their way in, all connections together");
ABSL_FLAG(int64_t, max_reply_bytes, 64 << 20, "bytes of a reply's tensors");
ABSL_FLAG(int64_t, max_request_bytes_in_flight, int64_t{1} << 30, "bytes of the messages of all requests being served");
ABSL_FLAG(int64_t, max_output_bytes_in_flight, int64_t{1} << 30,
          "bytes of outputs and states of all requests being served");
ABSL_FLAG(int32_t, max_calls, 4096, "calls being served at once; further ones are told to come again");
ABSL_FLAG(int32_t, max_connections, 0,
          "connections at once; 0: 10000, or what the limit of file descriptors allows if that is less");
ABSL_FLAG(absl::Duration, max_connection_idle, absl::Minutes(30),
          "a connection without calls for so long is told to go, such as 30m or inf");
ABSL_FLAG(absl::Duration, max_connection_age, absl::InfiniteDuration(),
          "a connection of this age is told to go, such as 1h or inf; it may finish its calls");
ABSL_FLAG(absl::Duration, max_connection_age_grace, absl::Minutes(15),
          "how long a connection that was told to go may finish its calls; longer than --max_call_duration");
ABSL_FLAG(int32_t, expected_calls, 64, "about as many Infer calls as arrive at the same moment");
ABSL_FLAG(int64_t, queue_sequences, 1 << 16, "sequences waiting or running; further ones are told to come again");
ABSL_FLAG(
    absl::Duration, target_slice, absl::Milliseconds(1),
    "how long sequences run together before others may join; shorter: sooner answers, longer: a little less work");
ABSL_FLAG(
    std::string, batching, "cellular",
    "cellular: sequences of all requests share slices; for comparison: request (whole requests of equal shape run "
    "together), off (one by one)");
ABSL_FLAG(absl::Duration, short_slice, absl::Microseconds(200),
          "slices expected to take no longer run on the thread that takes calls in, without the way to a worker and "
          "back; 0: none");
ABSL_FLAG(absl::Duration, max_batch_delay, absl::ZeroDuration(),
          "how long a request waits for others to share its batch; 0: not at all, a busy server batches by itself");
ABSL_FLAG(absl::Duration, max_priority_wait, absl::Seconds(1),
          "after waiting so long a request is served whatever its priority, in at least every fourth slice");
ABSL_FLAG(int64_t, packed_weight_bytes, int64_t{4} << 30, "bytes of packed weights kept, least recently used go first");
ABSL_FLAG(int64_t, inline_weight_bytes, int64_t{1} << 30,
          "bytes of weights kept for requests that name a fingerprint, least recently used go first");
ABSL_FLAG(int64_t, model_weight_bytes, int64_t{16} << 30, "bytes of weights of all loaded models");
ABSL_FLAG(absl::Duration, max_call_duration, absl::Minutes(10),
          "deadline of a call that has none or a later one, such as 30s or 10m");
ABSL_FLAG(absl::Duration, max_send_duration, absl::Minutes(2),
          "a caller that has not taken its reply by then loses it");
ABSL_FLAG(int64_t, session_bytes, int64_t{16} << 30,
          "bytes of all sessions: states, checkpoints and the windows agreed at Open; at the limit new ones are refused");
ABSL_FLAG(int64_t, max_sessions, 1 << 20, "live sessions of one tenant");
ABSL_FLAG(double, session_operations_per_second, 0, "operations of one tenant's sessions a second; 0: no limit");
ABSL_FLAG(absl::Duration, session_idle_timeout, absl::Minutes(10), "idleness that ends a session which asks for no other");
ABSL_FLAG(absl::Duration, max_session_idle_timeout, absl::Hours(24), "idleness that a session may ask for");
ABSL_FLAG(int64_t, max_streams, 4096, "streams open at once; further ones are told to come again");
ABSL_FLAG(absl::Duration, drain_delay, absl::ZeroDuration(),
          "after SIGTERM calls are still let in for so long, while health says NOT_SERVING and balancers look away");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30),
          "the server leaves at the latest so long after SIGTERM, --drain_delay included, such as 500ms or 30s");
ABSL_FLAG(std::string, probe, "alive",
          "what `rnnserve healthcheck` asks for: alive (it turns), or ready (it takes work)");
ABSL_FLAG(std::string, log_level, "info", "debug, info, warning, error or off");
ABSL_FLAG(std::string, log_format, "text", "text or json, a line for each event");

namespace rnnserve {
namespace {

constexpr char kUsage[] =
    "serves recurrent operators (LSTM, GRU, RNN) over gRPC.\n\n"
    "  rnnserve --listen=0.0.0.0:50051 --models=/srv/models\n"
    "  rnnserve --listen=unix:/run/rnnserve.sock,127.0.0.1:0 --port_file=port.txt\n\n"
    "  rnnserve healthcheck [--admin_listen=...] [--probe=ready]\n\n"
    "SIGTERM or SIGINT: health turns NOT_SERVING, calls being served finish, exit 0; a second one skips the waits.\n"
    "Exit codes: 0 left in good order, or healthy; 1 could not start, a flag is wrong, or not healthy.";

bool AsksForHelp(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const std::string_view word) { return word == "--help" || word == "-help" || word == "-h"; });
}

// Abseil's own help speaks of source files and ends with 1.
void PrintHelp() {
  std::map<std::string, const absl::CommandLineFlag*> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (absl::EndsWith(flag->Filename(), "server/main.cc")) flags.emplace(std::string(name), flag);
  }
  std::cout << "rnnserve " << kUsage << "\n\nFlags:\n";
  for (const auto& [name, flag] : flags) {
    const std::string value = flag->DefaultValue();
    std::cout << "  --" << name << (value.empty() ? "" : "=" + value) << "\n      " << flag->Help() << "\n";
  }
  std::cout << "  --help, --version\n";
}

// host:port with a port that exists, or unix:path. gRPC takes 99999 for 34463.
bool IsAddress(absl::string_view address) {
  if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:")) return true;
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && absl::SimpleAtoi(address.substr(colon + 1), &port) && port <= 65535;
}

// Descriptors for all but connections: models, listeners, the admin port, gRPC's own.
constexpr int64_t kOtherDescriptors = 64;
constexpr int64_t kDefaultMostConnections = 10'000;

// The soft limit of file descriptors is for programs that use select().
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t MostConnections() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto descriptors = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int32_t>::max()));
  return std::max<int64_t>(descriptors - kOtherDescriptors, 1);
}

int MaxConnections() {
  const int asked = absl::GetFlag(FLAGS_max_connections);
  return asked > 0 ? asked : static_cast<int>(std::min(MostConnections(), kDefaultMostConnections));
}

// Flags that must be positive, with the reason a wrong one gives.
bool CheckFlags() {
  bool good = true;
  const auto require = [&](const char* flag, int64_t value, int64_t least) {
    if (value >= least) return;
    LogError(absl::StrCat("--", flag, "=", value, ": expected at least ", least));
    good = false;
  };
  require("plugin_memory_bytes", absl::GetFlag(FLAGS_plugin_memory_bytes), 0);
  require("plugin_device", absl::GetFlag(FLAGS_plugin_device), 0);
  require("workers", absl::GetFlag(FLAGS_workers), 0);
  require("max_message_bytes", absl::GetFlag(FLAGS_max_message_bytes), 1);
  require("max_transport_bytes", absl::GetFlag(FLAGS_max_transport_bytes), 1);
  require("max_reply_bytes", absl::GetFlag(FLAGS_max_reply_bytes), 1);
  require("max_request_bytes_in_flight", absl::GetFlag(FLAGS_max_request_bytes_in_flight), 1);
  require("max_output_bytes_in_flight", absl::GetFlag(FLAGS_max_output_bytes_in_flight), 1);
  require("max_calls", absl::GetFlag(FLAGS_max_calls), 1);
  require("max_connections", absl::GetFlag(FLAGS_max_connections), 0);
  if (absl::GetFlag(FLAGS_max_connections) > MostConnections()) {
    LogError(absl::StrCat("--max_connections=", absl::GetFlag(FLAGS_max_connections), ": expected at most ",
                          MostConnections(), ", ", kOtherDescriptors,
                          " below the limit of file descriptors (ulimit -n)"));
    good = false;
  }
  require("expected_calls", absl::GetFlag(FLAGS_expected_calls), 1);
  require("queue_sequences", absl::GetFlag(FLAGS_queue_sequences), 1);
  const auto require_duration = [&](const char* flag, absl::Duration value, absl::Duration least) {
    if (value >= least) return;
    LogError(absl::StrCat("--", flag, "=", absl::FormatDuration(value), ": expected at least ",
                          absl::FormatDuration(least)));
    good = false;
  };
  require_duration("max_connection_idle", absl::GetFlag(FLAGS_max_connection_idle), absl::Seconds(1));
  require_duration("max_connection_age", absl::GetFlag(FLAGS_max_connection_age), absl::Seconds(1));
  require_duration("max_connection_age_grace", absl::GetFlag(FLAGS_max_connection_age_grace), absl::Seconds(1));
  require_duration("target_slice", absl::GetFlag(FLAGS_target_slice), absl::Microseconds(1));
  const std::string batching = absl::GetFlag(FLAGS_batching);
  if (batching != "cellular" && batching != "request" && batching != "off") {
    LogError(absl::StrCat("--batching=", batching, ": expected cellular, request or off"));
    good = false;
  }
  require_duration("short_slice", absl::GetFlag(FLAGS_short_slice), absl::ZeroDuration());
  require_duration("max_batch_delay", absl::GetFlag(FLAGS_max_batch_delay), absl::ZeroDuration());
  require_duration("max_priority_wait", absl::GetFlag(FLAGS_max_priority_wait), absl::ZeroDuration());
  require("session_bytes", absl::GetFlag(FLAGS_session_bytes), 0);
  require("max_sessions", absl::GetFlag(FLAGS_max_sessions), 0);
  require("max_streams", absl::GetFlag(FLAGS_max_streams), 0);
  require_duration("session_idle_timeout", absl::GetFlag(FLAGS_session_idle_timeout), absl::Seconds(1));
  require_duration("max_session_idle_timeout", absl::GetFlag(FLAGS_max_session_idle_timeout), absl::Seconds(1));
  require("packed_weight_bytes", absl::GetFlag(FLAGS_packed_weight_bytes), 0);
  require("inline_weight_bytes", absl::GetFlag(FLAGS_inline_weight_bytes), 0);
  require("model_weight_bytes", absl::GetFlag(FLAGS_model_weight_bytes), 0);
  for (const auto& [flag, value] : {std::pair("max_call_duration", absl::GetFlag(FLAGS_max_call_duration)),
                                    std::pair("max_send_duration", absl::GetFlag(FLAGS_max_send_duration))}) {
    if (value > absl::ZeroDuration()) continue;
    LogError(absl::StrCat("--", flag, "=", absl::FormatDuration(value), ": expected a positive duration, e.g. 30s"));
    good = false;
  }
  const double verify_share = absl::GetFlag(FLAGS_verify_share);
  if (!(verify_share >= 0 && verify_share <= 1)) {
    LogError(absl::StrCat("--verify_share=", verify_share, ": expected 0 to 1, e.g. 0.01 for every hundredth call"));
    good = false;
  }
  if (absl::GetFlag(FLAGS_listen).empty()) {
    LogError("--listen is empty: name an address, e.g. --listen=0.0.0.0:50051");
    good = false;
  }
  for (const std::string& address : absl::GetFlag(FLAGS_listen)) {
    if (IsAddress(address)) continue;
    LogError(absl::StrCat("--listen=", address, ": expected host:port with a port from 0 to 65535, or unix:path"));
    good = false;
  }
  if (absl::GetFlag(FLAGS_tls_cert).empty() != absl::GetFlag(FLAGS_tls_key).empty()) {
    LogError("--tls_cert and --tls_key: expected both or neither");
    good = false;
  }
  if (absl::GetFlag(FLAGS_tls_cert).empty() && !absl::GetFlag(FLAGS_tls_client_ca).empty()) {
    LogError("--tls_client_ca: expected --tls_cert and --tls_key with it");
    good = false;
  }
  const std::string admin = absl::GetFlag(FLAGS_admin_listen);
  if (!admin.empty() && !IsAddress(admin)) {
    LogError(absl::StrCat("--admin_listen=", admin, ": expected host:port with a port from 0 to 65535, or nothing"));
    good = false;
  }
  if (absl::GetFlag(FLAGS_max_call_duration) <= absl::ZeroDuration()) {
    LogError("--max_call_duration: expected more than 0, such as 10m; every call would be too late");
    good = false;
  }
  require_duration("drain_delay", absl::GetFlag(FLAGS_drain_delay), absl::ZeroDuration());
  require_duration("drain_timeout", absl::GetFlag(FLAGS_drain_timeout), absl::ZeroDuration());
  return good;
}

int Workers() {
  const int asked = absl::GetFlag(FLAGS_workers);
  return asked > 0 ? asked : static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
}

GrpcServer::Options ServerOptions(Metrics& metrics, CellularScheduler& scheduler) {
  GrpcServer::Options options;
  options.metrics = &metrics;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.tls = {absl::GetFlag(FLAGS_tls_cert), absl::GetFlag(FLAGS_tls_key), absl::GetFlag(FLAGS_tls_client_ca)};
  options.tokens_file = absl::GetFlag(FLAGS_tokens_file);
  options.max_transport_bytes = absl::GetFlag(FLAGS_max_transport_bytes);
  options.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  options.max_connections = MaxConnections();
  options.max_connection_idle = absl::GetFlag(FLAGS_max_connection_idle);
  options.max_connection_age = absl::GetFlag(FLAGS_max_connection_age);
  options.max_connection_age_grace = absl::GetFlag(FLAGS_max_connection_age_grace);
  options.door = {absl::GetFlag(FLAGS_max_calls), absl::GetFlag(FLAGS_max_request_bytes_in_flight)};
  options.streams.max_streams = absl::GetFlag(FLAGS_max_streams);
  options.infer_slots = absl::GetFlag(FLAGS_expected_calls);
  options.max_call_duration = absl::GetFlag(FLAGS_max_call_duration);
  options.max_send_duration = absl::GetFlag(FLAGS_max_send_duration);
  options.work_waiting = [&scheduler] { return scheduler.collected(); };
  options.run_work = [&scheduler] { scheduler.RunCollected(); };
  return options;
}

BatchQueue::Options QueueOptions() {
  BatchQueue::Options options;
  options.workers = Workers();
  options.max_sequences = absl::GetFlag(FLAGS_queue_sequences);
  // Nothing gets here that the door and the core's budget have not let in.
  options.max_bytes = absl::GetFlag(FLAGS_max_output_bytes_in_flight);
  options.target_slice = absl::GetFlag(FLAGS_target_slice);
  options.max_batch_delay = absl::GetFlag(FLAGS_max_batch_delay);
  options.max_wait = absl::GetFlag(FLAGS_max_priority_wait);
  return options;
}

MemorySessions::Options SessionLimits() {
  MemorySessions::Options options;
  options.max_bytes = absl::GetFlag(FLAGS_session_bytes);
  options.tenant.sessions = absl::GetFlag(FLAGS_max_sessions);
  options.tenant.operations_per_second = absl::GetFlag(FLAGS_session_operations_per_second);
  return options;
}

SessionCore::Options SessionOptions() {
  SessionCore::Options options;
  options.default_idle_timeout = absl::GetFlag(FLAGS_session_idle_timeout);
  options.max_idle_timeout = absl::GetFlag(FLAGS_max_session_idle_timeout);
  return options;
}

void LogModels(const ModelStore& models) {
  for (const LoadedModel& loaded : models.List()) {
    LogInfo(absl::StrCat("model ", loaded.name, " version ", loaded.version, " from ", loaded.source));
  }
  for (const RepositoryFailure& failure : models.Failures()) {
    LogWarning(absl::StrCat("model file ", failure.path, " left out: ", failure.reason));
  }
}

std::vector<std::unique_ptr<Engine>> OwnEngines() {
  std::vector<std::unique_ptr<Engine>> engines;
  const bool helps = absl::GetFlag(FLAGS_cpu_helper) && std::thread::hardware_concurrency() > 1;
  engines.push_back(helps ? MakeCpuEngineWithHelper() : MakeCpuEngine());
#ifdef RNNSERVE_HAS_ONEDNN
  engines.push_back(MakeOneDnnEngine());
#endif
  engines.push_back(MakeReferenceEngine());
  return engines;
}

LoadedPlugins::Options PluginOptions() {
  return {.paths = absl::GetFlag(FLAGS_plugin),
          .memory_limit_bytes = absl::GetFlag(FLAGS_plugin_memory_bytes),
          .device = absl::GetFlag(FLAGS_plugin_device)};
}

// The scheduler that --batching asks for in place of the usual one; null: that one.
std::unique_ptr<RequestScheduler> ComparedScheduler() {
  const std::string batching = absl::GetFlag(FLAGS_batching);
  if (batching == "cellular") return nullptr;
  RequestScheduler::Options options;
  options.workers = Workers();
  options.shares = batching == "request";
  options.max_sequences = absl::GetFlag(FLAGS_queue_sequences);
  return std::make_unique<RequestScheduler>(options);
}

void AddCertificateMetric(const std::string& path, Metrics& metrics) {
  metrics.GaugeFunction("rnnserve_tls_cert_expiry_timestamp_seconds",
                        "When the server's certificate expires, in seconds since 1970.", {}, [path] {
                          const absl::StatusOr<absl::Time> expiry = CertificateExpiry(path);
                          if (!expiry.ok()) return std::vector<MetricSample>();
                          return std::vector<MetricSample>{{{}, static_cast<double>(absl::ToUnixSeconds(*expiry))}};
                        });
}

void AddMetrics(const ModelStore& models, const ProgramCache& programs, const CellularScheduler& scheduler,
                Metrics& metrics) {
  AddProcessMetrics(metrics);
  AddBuildInfo(metrics, RNNSERVE_VERSION);
  if (const std::string path = absl::GetFlag(FLAGS_tls_cert); !path.empty()) AddCertificateMetric(path, metrics);
  metrics.GaugeFunction("rnnserve_queue_sequences", "Sequences waiting or running.",
                        [&] { return static_cast<double>(scheduler.sequences()); });
  metrics.GaugeFunction("rnnserve_queue_bytes", "Outputs and states of requests waiting or running.",
                        [&] { return static_cast<double>(scheduler.bytes()); });
  metrics.GaugeFunction("rnnserve_model_loaded", "1 for each model that has a name.", {"model", "version"}, [&] {
    std::vector<MetricSample> samples;
    for (const LoadedModel& loaded : models.List()) {
      samples.push_back({{loaded.name, absl::StrCat(loaded.version)}, 1});
    }
    return samples;
  });
  metrics.GaugeFunction("rnnserve_packed_weight_bytes", "Bytes of weights packed for an engine.", {"engine"}, [&] {
    std::vector<MetricSample> samples;
    for (const auto& [engine, bytes] : programs.bytes_by_engine()) {
      samples.push_back({{engine}, static_cast<double>(bytes)});
    }
    return samples;
  });
}

// Null if there is to be none, or if another process has the default port: two servers on one machine are no error.
absl::StatusOr<std::unique_ptr<HttpServer>> StartAdmin(const GrpcServer& server, const Metrics& metrics) {
  const std::string listen = absl::GetFlag(FLAGS_admin_listen);
  if (listen.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<HttpServer>> admin = StartAdminServer({.listen = listen,
                                                                        .metrics = &metrics,
                                                                        .is_ready = [&] { return server.is_ready(); },
                                                                        .is_alive = [&] { return server.is_alive(); }});
  if (!admin.ok() && listen == kDefaultAdminListen) {
    LogWarning(absl::StrCat("no admin port: ", admin.status().message(), " (--admin_listen names another)"));
    return nullptr;
  }
  return admin;
}

// Whole or not at all: whoever waits for the file must not read half a number. False, and told, if that fails.
bool WritePortFile(const char* flag, const std::string& path, int port) {
  if (path.empty()) return true;
  const std::string unfinished = path + ".tmp";
  std::ofstream file(unfinished);
  file << port << "\n";
  file.close();
  if (file.good() && std::rename(unfinished.c_str(), path.c_str()) == 0) return true;
  LogError(absl::StrCat("--", flag, "=", path, ": cannot be written"));
  return false;
}

sigset_t LeaveSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Waits for one of `signals`; false if none came in that time.
bool AwaitSignal(const sigset_t& signals, absl::Duration longest) {
  const absl::Time deadline = absl::Now() + longest;
  for (absl::Duration left = longest; left > absl::ZeroDuration(); left = deadline - absl::Now()) {
    const timespec wait = absl::ToTimespec(left);
    if (sigtimedwait(&signals, nullptr, &wait) > 0) return true;
  }
  return false;
}

// Tells that the server leaves, waits until balancers have heard it, and finishes what is being served; a second signal
// ends the waits.
void Drain(GrpcServer& server, const sigset_t& signals) {
  const absl::Time deadline = absl::Now() + absl::GetFlag(FLAGS_drain_timeout);
  server.AnnounceLeaving();
  const absl::Duration delay = std::min(absl::GetFlag(FLAGS_drain_delay), absl::GetFlag(FLAGS_drain_timeout));
  if (AwaitSignal(signals, delay)) server.HurryUp();
  std::atomic<bool> drained = false;
  std::thread second_signal([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    if (!drained.load()) server.HurryUp();
  });
  const bool finished = server.Drain(deadline);
  drained.store(true);
  pthread_kill(second_signal.native_handle(), SIGTERM);  // wakes its sigwait if no second signal came
  second_signal.join();
  LogInfo(finished ? "all calls finished" : "calls, streams or sessions are left; ending them");
}

int Run() {
  if (!SetLogLevel(absl::GetFlag(FLAGS_log_level))) {
    LogError(
        absl::StrCat("--log_level=", absl::GetFlag(FLAGS_log_level), ": expected debug, info, warning, error or off"));
    return 1;
  }
  if (!SetLogFormat(absl::GetFlag(FLAGS_log_format))) {
    LogError(absl::StrCat("--log_format=", absl::GetFlag(FLAGS_log_format), ": expected text or json"));
    return 1;
  }
  RaiseDescriptorLimit();
  if (!CheckFlags()) return 1;
  // Before any thread exists, so that all inherit it and signals wait for sigwait.
  const sigset_t signals = LeaveSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const std::vector<std::unique_ptr<Engine>> own_engines = OwnEngines();
  std::vector<const Engine*> engines;
  for (const auto& engine : own_engines) engines.push_back(engine.get());
  LoadedPlugins plugins(PluginOptions(), engines);
  for (const Engine* engine : plugins.engines()) engines.push_back(engine);
  ModelStore models(
      {absl::GetFlag(FLAGS_models), absl::GetFlag(FLAGS_inline_weight_bytes), absl::GetFlag(FLAGS_model_weight_bytes)});
  models.ScanRepository();
  LogModels(models);
  ProgramCache programs(absl::GetFlag(FLAGS_packed_weight_bytes));
  const SteadyClock clock;
  MemorySessions sessions(SessionLimits(), &clock);
  CellularScheduler scheduler(QueueOptions(), absl::GetFlag(FLAGS_short_slice));
  const std::unique_ptr<RequestScheduler> compared = ComparedScheduler();
  Metrics metrics;
  WorkMetricsTable work_metrics(metrics);
  AddMetrics(models, programs, scheduler, metrics);
  AddEngineMetrics(engines, metrics);
  plugins.AddMetrics(metrics);
  Core::Options core_options;
  core_options.max_reply_bytes = absl::GetFlag(FLAGS_max_reply_bytes);
  core_options.max_bytes_in_flight = absl::GetFlag(FLAGS_max_output_bytes_in_flight);
  core_options.metrics = &work_metrics;
  Verifier verifier(absl::GetFlag(FLAGS_verify_share), &metrics);
  core_options.verifier = &verifier;
  core_options.routing.engine = absl::GetFlag(FLAGS_engine);
  Core core(core_options, std::move(engines), &models, &programs,
            compared == nullptr ? static_cast<Scheduler*>(&scheduler) : compared.get());
  if (absl::Status known = core.CheckEngineName(core_options.routing.engine); !known.ok()) {
    LogError(absl::StrCat("--engine: ", known.message()));
    return 1;
  }
  const RoutingThread routing(&core.router());

  SessionCore session_core(SessionOptions(), &core, &sessions, &clock);
  const Sweeper sweeper(&sessions, MemorySessions::Options().sweep_period);

  absl::StatusOr<std::unique_ptr<GrpcServer>> server =
      GrpcServer::Start(ServerOptions(metrics, scheduler), &core, &session_core);
  if (!server.ok()) {
    LogError(absl::StrCat(server.status().message()));
    return 1;
  }
  absl::StatusOr<std::unique_ptr<HttpServer>> admin = StartAdmin(**server, metrics);
  if (!admin.ok()) {
    LogError(absl::StrCat("--admin_listen: ", admin.status().message()));
    return 1;
  }
  const int port = (*server)->ports()[0];
  const int admin_port = *admin == nullptr ? 0 : (*admin)->port();
  if (!WritePortFile("port_file", absl::GetFlag(FLAGS_port_file), port)) return 1;
  if (!WritePortFile("admin_port_file", absl::GetFlag(FLAGS_admin_port_file), admin_port)) return 1;
  if (admin_port > 0) LogInfo(absl::StrCat("admin port ", admin_port));
  if (!absl::GetFlag(FLAGS_tokens_file).empty() && absl::GetFlag(FLAGS_tls_cert).empty()) {
    LogWarning("tokens without TLS: whoever sees the network sees them");
  }
  LogInfo(absl::StrCat("listening on ", absl::StrJoin(absl::GetFlag(FLAGS_listen), ", "),
                       port == 0 ? "" : absl::StrCat(" (port ", port, ")"), " with ", Workers(), " workers"));

  plugins.OnFailure([&](std::string_view engine) { (*server)->SetEngineServing(engine, false); });

  int signal = 0;
  sigwait(&signals, &signal);
  LogInfo(absl::StrCat("signal ", signal, ": finishing what is being served"));
  Drain(**server, signals);
  scheduler.Abort();
  plugins.OnFailure({});
  if (compared != nullptr) compared->Abort();
  admin->reset();
  server->reset();
  return 0;
}

// Asks the server that runs with these flags how it is.
int HealthCheck() {
  const std::string probe = absl::GetFlag(FLAGS_probe);
  if (probe != "alive" && probe != "ready") {
    LogError(absl::StrCat("--probe=", probe, ": expected alive or ready"));
    return 1;
  }
  const absl::Status health =
      ProbeHealth(absl::GetFlag(FLAGS_admin_listen), probe == "alive" ? "/healthz" : "/readyz", absl::Seconds(5));
  std::cout << (health.ok() ? "ok" : std::string(health.message())) << "\n";
  return health.ok() ? 0 : 1;
}

}  // namespace
}  // namespace rnnserve

int main(int argc, char** argv) {
  absl::FlagsUsageConfig usage;
  usage.version_string = [] { return std::string("rnnserve " RNNSERVE_VERSION "\n"); };
  usage.contains_help_flags = [](absl::string_view file) { return absl::EndsWith(file, "server/main.cc"); };
  absl::SetFlagsUsageConfig(usage);
  absl::SetProgramUsageMessage(rnnserve::kUsage);
  if (rnnserve::AsksForHelp(argc, argv)) {
    rnnserve::PrintHelp();
    return 0;
  }
  std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  // Some of those who run a HEALTHCHECK add an empty word.
  std::erase_if(rest, [](const char* word) { return *word == '\0'; });
  if (rest.size() == 2 && std::string_view(rest[1]) == "healthcheck") return rnnserve::HealthCheck();
  if (rest.size() > 1) {
    rnnserve::LogError(absl::StrCat("unexpected argument ", rest[1], "; see rnnserve --help"));
    return 1;
  }
  return rnnserve::Run();
}
