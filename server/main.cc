// SPDX-License-Identifier: Apache-2.0
// rnnserve: wiring and its life. The one place that names every concrete class.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "engine/cpu/cpu_engine.h"
#ifdef RNNSERVE_HAS_ONEDNN
#include "engine/onednn/onednn_engine.h"
#endif
#include "base/field_error.h"
#include "base/steady_now.h"
#include "engine/reference/reference_engine.h"
#include "server/admin/admin_notice.h"
#include "server/admin/admin_server.h"
#include "server/admin/health_probe.h"
#include "server/config/check_flags.h"
#include "server/config/config_watch.h"
#include "server/config/cpu_limit.h"
#include "server/config/descriptor_limit.h"
#include "server/config/flags.h"
#include "server/config/help.h"
#include "server/config/memory_limit.h"
#include "server/config/settings.h"
#include "server/durable.h"
#include "server/gauges.h"
#include "server/models/repository_watch.h"
#include "server/options.h"
#include "server/process_memory.h"
#include "server/routing/routing_thread.h"
#include "server/routing/verifier.h"
#include "server/sessions/contract/sweeper.h"
#include "server/signals.h"
#include "server/telemetry/log.h"
#include "server/telemetry/model_calls.h"
#include "server/telemetry/model_labels.h"
#include "server/telemetry/session_metrics.h"
#include "server/telemetry/work_metrics.h"
#include "server/transport/guarded_reads.h"

namespace rnnserve {
namespace {

constexpr absl::Duration kConfigCheckPeriod = absl::Seconds(1);
constexpr int kFewConnections = 500;

void LogModels(const RepositoryChanges& changes) {
  for (const LoadedModel& loaded : changes.loaded) {
    LogInfo(absl::StrCat("model ", loaded.name, " version ", loaded.version, " from ", loaded.source),
            {{"warm_up", loaded.warm_up}});
  }
  for (const RepositoryFailure& failure : changes.refused) {
    LogWarning(absl::StrCat("model file ", failure.path, " left out: ", failure.reason));
  }
}

// A folder that cannot be read is logged once.
void LogScan(const absl::StatusOr<RepositoryChanges>& changes, absl::Status& before) {
  if (changes.ok()) LogModels(*changes);
  if (!changes.ok() && changes.status() != before) LogWarning(absl::StrCat("--models: ", changes.status().message()));
  before = changes.status();
}

std::set<std::string, std::less<>> NamesOf(const ModelStore& models) {
  std::set<std::string, std::less<>> names;
  for (const LoadedModel& loaded : models.List()) names.insert(loaded.name);
  return names;
}

std::vector<std::unique_ptr<Engine>> OwnEngines() {
  std::vector<std::unique_ptr<Engine>> engines;
  const bool helps = absl::GetFlag(FLAGS_cpu_helper) && AvailableCpus().count > 1;
  engines.push_back(helps ? MakeCpuEngineWithHelper() : MakeCpuEngine());
#ifdef RNNSERVE_HAS_ONEDNN
  engines.push_back(MakeOneDnnEngine());
#endif
  engines.push_back(MakeReferenceEngine());
  return engines;
}

RefusedFiles RefusedOf(const ModelStore& models) {
  std::vector<RepositoryFailure> failures = models.Failures();
  RefusedFiles refused = {.count = failures.size(), .first = {}};
  if (failures.size() > RefusedFiles::kMostShown) failures.resize(RefusedFiles::kMostShown);
  for (RepositoryFailure& failure : failures) {
    refused.first.push_back({std::move(failure.path), std::move(failure.reason)});
  }
  return refused;
}

// Null without an admin port: --admin_listen is empty, or another process has the default port and no setting names
// another one. Two servers on one machine are no error.
absl::StatusOr<std::unique_ptr<HttpServer>> StartAdmin(const GrpcServer& server, const Metrics& metrics,
                                                       const ModelStore& models, bool is_default) {
  const std::string listen = absl::GetFlag(FLAGS_admin_listen);
  if (listen.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<HttpServer>> admin =
      StartAdminServer({.listen = listen,
                        .metrics = &metrics,
                        .is_ready = [&] { return server.is_ready(); },
                        .is_alive = [&] { return server.is_alive(); },
                        .refused_files = [&] { return RefusedOf(models); },
                        .triton_metrics = absl::GetFlag(FLAGS_triton_metrics)});
  if (!admin.ok() && is_default) {
    LogWarning(absl::StrCat("no admin port: ", admin.status().message(), " (--admin_listen names another)"));
    return nullptr;
  }
  return admin;
}

// Renames the finished file into place, so that no reader sees half a number. Logs an error and returns false if that
// fails.
bool WritePort(const std::string& path, int port) {
  const std::string unfinished = path + ".tmp";
  std::ofstream file(unfinished);
  file << port << "\n";
  file.close();
  if (file.good() && std::rename(unfinished.c_str(), path.c_str()) == 0) return true;
  LogError(absl::StrCat("--port_file: ", path, " cannot be written"));
  return false;
}

// Warns if every caller that reaches the port has all permissions. Mutual TLS admits only callers with a certificate,
// and does not tell them apart.
void WarnIfOpenToAll() {
  if (!absl::GetFlag(FLAGS_tokens_file).empty() || !absl::GetFlag(FLAGS_tls_client_ca).empty()) return;
  std::vector<std::string> open = absl::GetFlag(FLAGS_listen);
  std::erase_if(open, [](const std::string& address) { return IsLocalAddress(address); });
  if (open.empty()) return;
  LogWarning(absl::StrCat("no --tokens_file: every caller that reaches ", absl::StrJoin(open, ", "),
                          " may also load and unload models and sees all sessions; --tokens_file tells callers apart, "
                          "--tls_client_ca lets in those with a certificate"));
}

// Waits for a signal; meanwhile logs changes of the config file, and calls `look`.
int AwaitStop(const sigset_t& signals, const Settings& settings, const std::function<void()>& look) {
  ConfigWatch watch(settings);
  for (;;) {
    if (const int signal = AwaitSignal(signals, kConfigCheckPeriod); signal != 0) return signal;
    if (const std::optional<std::string> changes = watch.Check()) LogWarning(*changes);
    look();
  }
}

// Sets health to NOT_SERVING, waits until load balancers stop routing, and waits for the calls in flight; a second
// signal ends the waits.
void Drain(GrpcServer& server, const sigset_t& signals) {
  const absl::Time deadline = SteadyNow() + absl::GetFlag(FLAGS_drain_timeout);
  server.SetNotServing();
  const absl::Duration delay = std::min(absl::GetFlag(FLAGS_drain_delay), absl::GetFlag(FLAGS_drain_timeout));
  if (AwaitSignal(signals, delay) != 0) server.EndDrain();
  std::atomic<bool> drained = false;
  std::thread second_signal([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    if (!drained.load()) server.EndDrain();
  });
  const bool finished = server.Drain(deadline);
  drained.store(true);
  // Wakes its sigwait if no second signal came. NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread): it is blocked.
  pthread_kill(second_signal.native_handle(), SIGTERM);
  second_signal.join();
  if (finished) {
    LogInfo("all calls finished");
  } else {
    LogWarning(absl::StrCat("ending what is left: ", server.Remaining()));
  }
}

// Combinations that are legal and seldom meant.
void WarnOfSettings() {
  if (!absl::GetFlag(FLAGS_tokens_file).empty() && absl::GetFlag(FLAGS_tls_cert).empty()) {
    LogWarning("tokens without TLS: every host on the way sees them");
  }
  WarnIfOpenToAll();
  if (const int most = MaxConnections(); absl::GetFlag(FLAGS_max_connections) == 0 && most < kFewConnections) {
    LogWarning(
        absl::StrCat("at most ", most, " connections: the limit of file descriptors (ulimit -n) allows no more"));
  }
#ifdef RNNSERVE_PACED_LISTENER
  LogIfReadsAreUnguarded(/*with_tls=*/!absl::GetFlag(FLAGS_tls_cert).empty());
#endif
}

// Writes and logs where the server listens. False, and logged, if the port file cannot be written.
bool Announce(const GrpcServer& server, const HttpServer* admin, const ModelStore& models, int workers) {
  const int port = server.ports()[0];
  const int admin_port = admin == nullptr ? 0 : admin->port();
  if (const absl::Status posted = PostAdminNotice(absl::GetFlag(FLAGS_admin_listen), admin_port); !posted.ok()) {
    LogWarning(absl::StrCat("rnnserve healthcheck needs --admin_listen here: ", posted.message()));
  }
  const std::string file = absl::GetFlag(FLAGS_port_file);
  // A program that sees the first address's port finds the other there.
  if (!file.empty() && !(WritePort(file + ".admin", admin_port) && WritePort(file, port))) return false;
  if (admin_port > 0) LogInfo(absl::StrCat("admin port ", admin_port));
  WarnOfSettings();
  LogInfo(absl::StrCat("listening on ", absl::StrJoin(absl::GetFlag(FLAGS_listen), ", "),
                       port == 0 ? "" : absl::StrCat(" (port ", port, ")"), " with ", workers, " workers and ",
                       models.List().size(), " models"));
  return true;
}

// Looks at the repository's folder again, every --models_poll; nothing where that is infinite.
std::unique_ptr<RepositoryWatch> WatchRepository(ModelStore& models, GrpcServer& server) {
  if (absl::GetFlag(FLAGS_models_poll) == absl::InfiniteDuration()) return nullptr;
  return std::make_unique<RepositoryWatch>(
      &models, absl::GetFlag(FLAGS_models_poll),
      [&server, before = absl::Status()](const absl::StatusOr<RepositoryChanges>& changes) mutable {
        LogScan(changes, before);
        if (!changes.ok()) return;
        for (const LoadedModel& loaded : changes->loaded) server.UpdateHealth(loaded);
      });
}

// Ends when the server has drained after a signal.
void ServeUntilSignal(GrpcServer& server, ModelStore& models, LoadedPlugins& plugins, Durable& durable,
                      const sigset_t& signals, const Settings& settings) {
  plugins.OnFailure([&server](std::string_view engine) { server.SetEngineServing(engine, false); });
  std::unique_ptr<RepositoryWatch> folder = WatchRepository(models, server);
  const int signal = AwaitStop(signals, settings, [&] {
    durable.LookAtSecrets();
    if (const std::optional<bool> reachable = durable.IsStoreReachable()) server.SetStoreServing(*reachable);
  });
  folder.reset();
  LogInfo(absl::StrCat("signal ", signal, ": finishing what is being served"));
  Drain(server, signals);
}

// The exit code of a start that fails for a setting.
int Refuse(const std::string& setting, absl::string_view why) {
  LogError(absl::StrCat(setting, ": ", why));
  return 1;
}

int RefuseDurable(const Settings& settings, const absl::Status& why) {
  return Refuse(settings.Named(FieldOf(why).value_or("store")), why.message());
}

void BeginLog(const Settings& settings) {
  SetLogLevel(absl::GetFlag(FLAGS_log_level));
  LogInfo(absl::StrCat("rnnserve ", RNNSERVE_VERSION,
                       settings.path().empty() ? "" : absl::StrCat(", settings of ", settings.path())));
}

int Run(const Settings& settings, int64_t memory_limit) {
  BeginLog(settings);
  const sigset_t signals = BlockStopSignals();
  std::optional<ExitOnSignal> starting(signals);

  const std::vector<std::unique_ptr<Engine>> own_engines = OwnEngines();
  std::vector<const Engine*> engines;
  for (const auto& engine : own_engines) engines.push_back(engine.get());
  LoadedPlugins plugins(PluginOptions(), engines);
  for (const Engine* engine : plugins.engines()) engines.push_back(engine);
  ModelStore models(ModelOptions());
  if (absl::Status read = models.ScanRepository(); !read.ok()) {
    return Refuse(settings.Named("models"),
                  absl::StrCat(read.message(), "; expected a folder of NAME/VERSION/model.onnx"));
  }
  LogModels({models.List(), models.Failures()});
  Metrics metrics;
  ProgramCache programs(absl::GetFlag(FLAGS_packed_weight_bytes), &metrics);
  const SteadyClock clock;
  const std::unique_ptr<MemoryWatch> memory = WatchMemory(memory_limit, metrics);
  ModelLabels model_labels(static_cast<size_t>(absl::GetFlag(FLAGS_metrics_models)), NamesOf(models));
  WorkMetricsTable work_metrics(metrics, model_labels);
  ModelCalls model_calls(metrics, model_labels);
  SessionMetrics session_metrics(metrics, model_labels, &model_calls);
  // Goes after the schedulers: their threads may let go of a session last.
  MemorySessions sessions(SessionLimits(session_metrics, memory.get()), &clock);
  const int workers = Workers(plugins);
  CellularScheduler scheduler(QueueOptions(workers));
  AddGauges(models, programs, scheduler, sessions, engines, metrics);
  AddEngineMetrics(engines, metrics);
  plugins.AddMetrics(metrics);
  Core::Options core_options = CoreOptions(memory.get());
  core_options.metrics = &work_metrics;
  core_options.calls = &model_calls;
  Verifier verifier(absl::GetFlag(FLAGS_verify_share), &metrics);
  core_options.verifier = &verifier;
  Core core(core_options, std::move(engines), &models, &programs, &scheduler);
  if (absl::Status known = core.CheckEngineName(core_options.routing.engine); !known.ok()) {
    return Refuse(settings.Named("engine"), known.message());
  }
  models.SetWarmUp([&core](LoadedModel& loaded) { return core.WarmUp(loaded); });
  const RoutingThread routing(&core.router());
  ShowKnownModels(core, model_labels, model_calls, work_metrics, session_metrics, metrics);

  SessionCore session_core(SessionOptions(session_metrics), &core, &sessions, &clock);
  absl::StatusOr<std::unique_ptr<Durable>> durable = Durable::Start(metrics, session_core, sessions);
  if (!durable.ok()) return RefuseDurable(settings, durable.status());
  const Sweeper sweeper(&sessions, MemorySessions::Options().sweep_period);

  starting.reset();
  absl::StatusOr<std::unique_ptr<GrpcServer>> server =
      GrpcServer::Start(ServerOptions(metrics, scheduler, memory.get()), &core, &session_core);
  if (!server.ok()) {
    LogError(absl::StrCat(server.status().message()));
    return 1;
  }
  absl::StatusOr<std::unique_ptr<HttpServer>> admin =
      StartAdmin(**server, metrics, models, settings.OriginOf("admin_listen") == "default");
  if (!admin.ok()) {
    return Refuse(settings.Named("admin_listen"), admin.status().message());
  }
  if (!Announce(**server, admin->get(), models, workers)) return 1;

  ServeUntilSignal(**server, models, plugins, **durable, signals, settings);
  scheduler.Abort();
  plugins.OnFailure({});
  admin->reset();
  server->reset();
  return 0;
}

// The exit code after printing: 1, with an error, if the output could not be written, as on a full disk.
int Printed() {
  std::cout.flush();
  if (std::cout.good()) return 0;
  LogError("standard output cannot be written");
  return 1;
}

// Asks a running server how it is: that of the port which the flags name, else the one that runs here.
int HealthCheck(const Settings& settings, bool ready) {
  const absl::StatusOr<std::string> port =
      FindAdminPort(absl::GetFlag(FLAGS_admin_listen), settings.OriginOf("admin_listen") == "default");
  const absl::Status health =
      port.ok() ? ProbeHealth(*port, ready ? "/readyz" : "/healthz", absl::Seconds(5)) : port.status();
  std::cout << (health.ok() ? "ok" : std::string(health.message())) << "\n";
  return health.ok() ? 0 : 1;
}

}  // namespace
}  // namespace rnnserve

int main(int argc, char** argv) {
  // Debian builds Abseil without NDEBUG, so gRPC's mutexes would look for cycles at every lock: 2 % of a small call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  rnnserve::FillStandardDescriptors();
  rnnserve::SetUsage(RNNSERVE_VERSION);
  if (rnnserve::AsksForHelp(argc, argv)) {
    rnnserve::PrintHelp();
    return rnnserve::Printed();
  }
  absl::StatusOr<rnnserve::Settings> settings = rnnserve::Settings::Load(argc, argv);
  rnnserve::SetLogFormat(
      absl::GetFlag(FLAGS_log_format));  // for what is told of mistakes; CheckFlags checks this one, too
  if (!settings.ok()) {
    rnnserve::LogError(absl::StrCat(settings.status().message()));
    return 1;
  }
  const std::vector<std::string>& words = settings->words();
  const std::vector<std::string> alive = {"healthcheck"}, ready = {"healthcheck", "ready"};
  if (words == alive || words == ready) return rnnserve::HealthCheck(*settings, words == ready);
  const bool prints = words == std::vector<std::string>{"config", "print"};
  if (!words.empty() && !prints) {
    rnnserve::LogError(absl::StrCat("unexpected argument ", absl::StrJoin(words, " "), "; see rnnserve --help"));
    return 1;
  }
  const int64_t memory_limit = rnnserve::MemoryLimit();
  rnnserve::FitToMemory(memory_limit, *settings);
  rnnserve::ShowCpus(*settings);
  rnnserve::RaiseDescriptorLimit();
  rnnserve::ShowConnections(*settings);
  if (!rnnserve::CheckFlags(*settings)) return 1;
  if (!prints) return rnnserve::Run(*settings, memory_limit);
  std::cout << settings->Print();
  return rnnserve::Printed();
}
