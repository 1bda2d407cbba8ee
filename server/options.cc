// SPDX-License-Identifier: Apache-2.0
#include "server/options.h"

#include <algorithm>

#include "server/config/cpu_limit.h"
#include "server/config/descriptor_limit.h"
#include "server/config/flags.h"
#include "server/transport/guarded_reads.h"

namespace rnnserve {

int Workers(const LoadedPlugins& plugins) {
  const int asked = absl::GetFlag(FLAGS_workers);
  if (asked > 0) return asked;
  return AvailableCpus().count + plugins.workers_wanted();
}

// A connection of --max_connection_age has this long for its calls, so that none is cut off.
absl::Duration ConnectionAgeGrace() { return absl::GetFlag(FLAGS_max_call_duration) * 1.5; }

// A stream may begin right before its connection reaches the age; it then has the grace.
absl::Duration StreamAge() {
  if (absl::GetFlag(FLAGS_max_connection_age) == absl::InfiniteDuration()) return absl::InfiniteDuration();
  return ConnectionAgeGrace() * 0.9;
}

// A share of 1 loses no byte: int64_t to double and back would.
int64_t OfOneTenant(int64_t bytes) {
  const double share = absl::GetFlag(FLAGS_max_tenant_share);
  return share < 1 ? static_cast<int64_t>(share * static_cast<double>(bytes)) : bytes;
}

GrpcServer::Options ServerOptions(Metrics& metrics, CellularScheduler& scheduler, MemoryWatch* memory) {
  GrpcServer::Options options;
  options.metrics = &metrics;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.tls = {absl::GetFlag(FLAGS_tls_cert), absl::GetFlag(FLAGS_tls_key), absl::GetFlag(FLAGS_tls_client_ca)};
  options.tls_policy = {absl::GetFlag(FLAGS_tls_min_version) == "1.3", absl::GetFlag(FLAGS_tls_ciphers)};
  options.tokens_file = absl::GetFlag(FLAGS_tokens_file);
  if (memory != nullptr) {
    const int64_t share = memory->limit() / 8;
    options.adapts_windows = share >= options.max_transport_bytes;
    options.max_transport_bytes = std::min(options.max_transport_bytes, share);
  }
  options.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  options.max_connections = MaxConnections();
#ifdef RNNSERVE_PACED_LISTENER
  options.make_listener = &MakePacedListener;
  options.on_plain_connection = [streams = options.max_streams_per_connection](int fd) { GuardReads(fd, streams); };
#endif
  options.max_connection_idle = absl::GetFlag(FLAGS_max_connection_idle);
  options.max_connection_age = absl::GetFlag(FLAGS_max_connection_age);
  options.max_connection_age_grace = ConnectionAgeGrace();
  options.admission = {absl::GetFlag(FLAGS_max_calls), absl::GetFlag(FLAGS_max_bytes_in_flight), memory};
  options.streams.max_streams = absl::GetFlag(FLAGS_max_calls);
  options.streams.max_beside = AvailableCpus().count - 1;
  options.streams.max_age = StreamAge();
  options.max_call_duration = absl::GetFlag(FLAGS_max_call_duration);
  options.max_send_duration = std::min(options.max_send_duration, options.max_call_duration);
  options.work_waiting = [&scheduler] { return scheduler.collected(); };
  options.work_unfinished = [&scheduler] { return scheduler.load().submissions + scheduler.collected(); };
  // With one CPU the caller could not run meanwhile to send its next call.
  if (AvailableCpus().count <= 1) options.max_busy_poll = absl::ZeroDuration();
  options.run_work = [&scheduler](int64_t callers, bool collects) { scheduler.RunCollected(callers, collects); };
  return options;
}

BatchQueue::Options QueueOptions(int workers) {
  BatchQueue::Options options;
  options.workers = workers;
  options.max_sequences = absl::GetFlag(FLAGS_queue_sequences);
  // CallAdmission and the core's budget have admitted all that comes here.
  options.max_bytes = absl::GetFlag(FLAGS_max_bytes_in_flight);
  options.target_slice = absl::GetFlag(FLAGS_target_slice);
  options.max_batch_delay = absl::GetFlag(FLAGS_max_batch_delay);
  return options;
}

Core::Options CoreOptions(MemoryWatch* memory) {
  Core::Options options;
  options.memory = memory;
  options.max_reply_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  options.max_bytes_in_flight = absl::GetFlag(FLAGS_max_bytes_in_flight);
  options.routing.engine = absl::GetFlag(FLAGS_engine);
  return options;
}

MemorySessions::Options SessionLimits(SessionMetrics& metrics, MemoryWatch* memory) {
  MemorySessions::Options options;
  options.memory = memory;
  options.max_bytes = absl::GetFlag(FLAGS_session_bytes);
  options.unknown_model = metrics.Of(kUnknownModel);
  options.tenant.sessions = absl::GetFlag(FLAGS_max_sessions);
  options.tenant.bytes = OfOneTenant(options.max_bytes);
  options.tenant.operations_per_second = absl::GetFlag(FLAGS_session_operations_per_second);
  return options;
}

ModelStore::Options ModelOptions() {
  const int64_t bytes = absl::GetFlag(FLAGS_model_weight_bytes);
  return {.repository = absl::GetFlag(FLAGS_models),
          .inline_cache_bytes = bytes / 6,
          .named_bytes = bytes,
          .tenant_bytes = OfOneTenant(bytes)};
}

SessionCore::Options SessionOptions(SessionMetrics& metrics) {
  SessionCore::Options options;
  options.metrics = &metrics;
  options.default_idle_timeout = absl::GetFlag(FLAGS_session_idle_timeout);
  options.max_idle_timeout = std::max(options.max_idle_timeout, options.default_idle_timeout);
  return options;
}

LoadedPlugins::Options PluginOptions() {
  return {.paths = absl::GetFlag(FLAGS_plugin), .memory_limit_bytes = absl::GetFlag(FLAGS_plugin_memory_bytes)};
}

}  // namespace rnnserve
