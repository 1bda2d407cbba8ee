// SPDX-License-Identifier: Apache-2.0
#include "server/gauges.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/config/flags.h"
#include "server/frontend/security/tls.h"
#include "server/telemetry/process_metrics.h"

namespace rnnserve {
namespace {

void AddCertificateMetric(const std::string& path, Metrics& metrics) {
  metrics.GaugeFunction("rnnserve_tls_cert_expiry_timestamp_seconds",
                        "When the server's certificate expires, in seconds since 1970.", {}, [path] {
                          const absl::StatusOr<absl::Time> expiry = CertificateExpiry(path);
                          if (!expiry.ok()) return std::vector<MetricSample>();
                          return std::vector<MetricSample>{{{}, static_cast<double>(absl::ToUnixSeconds(*expiry))}};
                        });
}

}  // namespace

void AddGauges(const ModelStore& models, const ProgramCache& programs, const Scheduler& scheduler,
               const MemorySessions& sessions, Metrics& metrics) {
  AddProcessMetrics(metrics);
  AddBuildInfo(metrics, RNNSERVE_VERSION);
  if (const std::string path = absl::GetFlag(FLAGS_tls_cert); !path.empty()) AddCertificateMetric(path, metrics);
  metrics.GaugeFunction("rnnserve_queue_sequences", "Sequences waiting or running.",
                        [&] { return static_cast<double>(scheduler.load().sequences); });
  metrics.GaugeFunction("rnnserve_queue_bytes", "Outputs and states of requests waiting or running.",
                        [&] { return static_cast<double>(scheduler.load().bytes); });
  metrics.GaugeFunction("rnnserve_session_bytes", "Bytes of all sessions: states, checkpoints and agreed windows.",
                        [&] { return static_cast<double>(sessions.bytes()); });
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

}  // namespace rnnserve
