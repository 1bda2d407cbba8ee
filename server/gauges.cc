// SPDX-License-Identifier: Apache-2.0
#include "server/gauges.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/telemetry/model_labels.h"
#include "server/telemetry/process_metrics.h"
#include "server/transport/guarded_reads.h"

namespace rnnserve {
namespace {

// Of model_loaded: a scrape stays small however many are loaded.
constexpr size_t kListedModels = 1000;

// `loaded`: by name and version.
std::vector<MetricSample> LoadedModels(std::span<const LoadedModel> loaded) {
  std::vector<MetricSample> samples;
  for (const LoadedModel& model : loaded.first(std::min(loaded.size(), kListedModels))) {
    std::vector<std::string> labels = {model.name, absl::StrCat(model.version)};
    if (!samples.empty() && samples.back().labels == labels) {
      ++samples.back().value;
    } else {
      samples.push_back({std::move(labels), 1});
    }
  }
  if (loaded.size() > kListedModels) {
    const std::string others(kOtherModels);
    samples.push_back({{others, others}, static_cast<double>(loaded.size() - kListedModels)});
  }
  return samples;
}

std::vector<std::string> Names(std::span<const Engine* const> engines) {
  std::vector<std::string> names;
  for (const Engine* engine : engines) names.emplace_back(engine->name());
  return names;
}

}  // namespace

void AddGauges(const ModelStore& models, const ProgramCache& programs, const Scheduler& scheduler,
               const MemorySessions& sessions, std::span<const Engine* const> engines, Metrics& metrics) {
  AddProcessMetrics(metrics);
  AddBuildInfo(metrics, RNNSERVE_VERSION);
#ifdef RNNSERVE_PACED_LISTENER
  CountAbusive(metrics);
#endif
  metrics.GaugeFunction("rnnserve_queue_sequences", "Sequences waiting or running.",
                        [&] { return static_cast<double>(scheduler.load().sequences); });
  metrics.GaugeFunction("rnnserve_queue_bytes", "Outputs and states of requests waiting or running.",
                        [&] { return static_cast<double>(scheduler.load().bytes); });
  metrics.GaugeFunction("rnnserve_session_bytes", "Bytes of all sessions: states, checkpoints and agreed windows.",
                        [&] { return static_cast<double>(sessions.bytes()); });
  metrics.GaugeFunction("rnnserve_model_loaded", "1 for each model that has a name, or how many tenants have it.",
                        {"model", "version"}, [&] { return LoadedModels(models.ListAll()); });
  metrics.GaugeFunction("rnnserve_model_files_refused", "Files of the model repository that could not be loaded.",
                        [&] { return static_cast<double>(models.Failures().size()); });
  metrics.GaugeFunction("rnnserve_packed_weight_bytes", "Bytes of weights packed for an engine.", {"engine"},
                        [&programs, names = Names(engines)] {
                          std::map<std::string, int64_t> packed = programs.bytes_by_engine();
                          for (const std::string& engine : names) packed.try_emplace(engine, 0);
                          std::vector<MetricSample> samples;
                          for (const auto& [engine, bytes] : packed) {
                            samples.push_back({{engine}, static_cast<double>(bytes)});
                          }
                          return samples;
                        });
}

void ShowKnownModels(Core& core, const ModelLabels& labels, ModelCalls& calls, WorkMetricsTable& work,
                     SessionMetrics& sessions, Metrics& metrics) {
  for (const std::string_view none : {kInlineModel, kOtherModels}) {
    for (const Engine* engine : core.engines()) work.Of(none, engine->name());
  }
  for (const std::string_view none : {kInlineModel, kOtherModels, kUnknownModel}) sessions.Of(none);
  metrics.BeforeCollect([&models = core.models(), &labels, &calls] {
    std::set<std::string> names;
    for (const LoadedModel& version : models.ListAll()) names.insert(version.name);
    calls.SetKnown(labels.Own(names));
  });
}

}  // namespace rnnserve
