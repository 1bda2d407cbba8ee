// SPDX-License-Identifier: Apache-2.0
#include "server/admin/status_json.h"

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "server/admin/readings.h"

namespace rnnserve {
namespace {

using Json = nlohmann::json;

// How calls ended. A call that its caller gives up is no mistake, and a refusal no failure.
struct Outcomes {
  double requests = 0;
  double cancelled = 0;
  double refused = 0;
  double failed = 0;

  void Add(std::string_view code, double calls) {
    requests += calls;
    if (code == "CANCELLED") {
      cancelled += calls;
    } else if (code == "INTERNAL" || code == "UNKNOWN" || code == "DATA_LOSS") {
      failed += calls;
    } else if (code != "OK") {
      refused += calls;
    }
  }
};

Json ToJson(const Outcomes& outcomes) {
  return {{"requests", outcomes.requests},
          {"cancelled", outcomes.cancelled},
          {"refused", outcomes.refused},
          {"failed", outcomes.failed}};
}

// By the first label, of a family with code as the second.
std::map<std::string, Outcomes> OutcomesOf(const Readings& readings, std::string_view name) {
  std::map<std::string, Outcomes> outcomes;
  for (const MetricSample& sample : readings.Samples(name)) {
    outcomes[sample.labels[0]].Add(sample.labels[1], sample.value);
  }
  return outcomes;
}

void AddQuantiles(const Readings& readings, const char* family, const std::string& label, Json& entry) {
  entry["p50_ms"] = readings.QuantileMs(family, {label}, 0.5);
  entry["p99_ms"] = readings.QuantileMs(family, {label}, 0.99);
}

Json Methods(const Readings& readings) {
  Json methods = Json::array();
  for (const auto& [method, outcomes] : OutcomesOf(readings, "rnnserve_requests_total")) {
    Json& entry = methods.emplace_back(ToJson(outcomes));
    entry["method"] = method;
    AddQuantiles(readings, "rnnserve_request_duration_seconds", method, entry);
  }
  return methods;
}

// All that have series of their own or are loaded.
Json Models(const Readings& readings) {
  std::map<std::string, Json> models;
  for (const MetricSample& sample : readings.Samples("rnnserve_model_loaded")) {
    models[sample.labels[0]]["versions"].push_back(sample.labels[1]);
  }
  for (const auto& [model, outcomes] : OutcomesOf(readings, "rnnserve_model_requests_total")) {
    Json& entry = models[model];
    entry.update(ToJson(outcomes));
    AddQuantiles(readings, "rnnserve_model_request_duration_seconds", model, entry);
    entry["queue_p99_ms"] = readings.QuantileMs("rnnserve_queue_duration_seconds", {model}, 0.99);
    entry["sessions"] = readings.Value("rnnserve_sessions_active", {model});
    entry["session_state_bytes"] = readings.Value("rnnserve_session_state_bytes", {model});
  }
  Json list = Json::array();
  for (auto& [model, entry] : models) {
    entry["model"] = model;
    list.push_back(std::move(entry));
  }
  return list;
}

Json Engines(const Readings& readings) {
  Json engines = Json::array();
  for (const MetricSample& sample : readings.Samples("rnnserve_engine_in_service")) {
    engines.push_back({{"engine", sample.labels[0]},
                       {"in_service", sample.value == 1},
                       {"packed_weight_bytes", readings.Value("rnnserve_packed_weight_bytes", sample.labels)}});
  }
  return engines;
}

Json Work(const Readings& readings) {
  Json work = Json::array();
  for (const MetricSample& slices : readings.Samples("rnnserve_slices_total")) {
    if (slices.value == 0) continue;
    work.push_back({{"model", slices.labels[0]},
                    {"engine", slices.labels[1]},
                    {"slices", slices.value},
                    {"mean_sequences", readings.Mean("rnnserve_slice_sequences", slices.labels)},
                    {"mean_steps", readings.Mean("rnnserve_slice_steps", slices.labels)},
                    {"compute_p50_ms", readings.QuantileMs("rnnserve_compute_duration_seconds", slices.labels, 0.5)},
                    {"compute_p99_ms", readings.QuantileMs("rnnserve_compute_duration_seconds", slices.labels, 0.99)}});
  }
  return work;
}

Json Now(std::span<const MetricReading> all) {
  Json now = Json::object();
  for (const MetricReading& reading : all) {
    const bool is_plain = reading.kind == MetricKind::kGauge && reading.label_names.empty();
    if (is_plain) now[reading.name] = reading.samples[0].value;
  }
  return now;
}

Json History(std::span<const StatusHistory::Point> points) {
  const auto or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  Json history = {{"step_seconds", absl::ToDoubleSeconds(StatusHistory::kStep)}};
  for (const char* series : {"requests_per_second", "sessions", "sequences_per_slice", "p99_ms"}) {
    history[series] = Json::array();
  }
  for (const StatusHistory::Point& point : points) {
    history["requests_per_second"].push_back(point.requests_per_second);
    history["sessions"].push_back(point.sessions);
    history["sequences_per_slice"].push_back(or_null(point.sequences_per_slice));
    history["p99_ms"].push_back(or_null(point.p99_ms));
  }
  return history;
}

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string StatusJson(std::span<const MetricReading> all, const StatusParts& parts) {
  const Readings readings(all);
  Json status = {{"ready", parts.is_ready},          {"methods", Methods(readings)}, {"models", Models(readings)},
                 {"engines", Engines(readings)},     {"work", Work(readings)},       {"now", Now(all)},
                 {"history", History(parts.history)}};
  if (const MetricReading* build = readings.Find("rnnserve_build_info")) {
    status["version"] = build->samples[0].labels[0];
  }
  if (readings.Find("process_start_time_seconds") != nullptr) {
    status["uptime_seconds"] = SecondsSince1970() - readings.Value("process_start_time_seconds");
  }
  status["rejected"] = Json::object();
  for (const MetricSample& sample : readings.Samples("rnnserve_rejected_total")) {
    status["rejected"][sample.labels[0]] = sample.value;
  }
  status["errors"] = Json::array();
  for (const LoggedProblem& problem : parts.problems) {
    status["errors"].push_back({{"time", problem.time}, {"level", problem.level}, {"text", problem.text}});
  }
  status["refused_files"] = {{"count", parts.refused_files.count}, {"first", Json::array()}};
  for (const RefusedFile& file : parts.refused_files.first) {
    status["refused_files"]["first"].push_back({{"path", file.path}, {"reason", file.reason}});
  }
  // Names of models may hold what is no UTF-8.
  return status.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rnnserve
