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

std::vector<MetricSample> LoadedModels(std::span<const LoadedModel> loaded) {
  std::vector<MetricSample> samples;
  for (const LoadedModel& model : loaded.first(std::min(loaded.size(), kListedModels))) {
    samples.push_back({{model.name, absl::StrCat(model.version)}, 1});
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

// Those that run the whole of it; layers that only different ones can run have no series until they are called.
std::vector<std::string> EnginesOf(const LoadedModel& loaded, Core& core) {
  const EngineOptions options = {loaded.options.allow_reduced_precision.value_or(false),
                                 loaded.options.deterministic.value_or(false)};
  const bool clip = loaded.options.clip_cell_input.value_or(RunOptions().clip_cell_input);
  std::vector<CellPtr> cells;
  for (const ModelLayer& layer : loaded.model->layers()) {
    cells.insert(cells.end(), layer.cells(clip).begin(), layer.cells(clip).end());
  }
  return Names(core.router().Eligible(loaded.engine, cells, options));
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
  metrics.GaugeFunction("rnnserve_model_loaded", "1 for each model that has a name.", {"model", "version"},
                        [&] { return LoadedModels(models.List()); });
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

void ShowKnownModels(Core& core, bool verifies, const ModelLabels& labels, WorkMetricsTable& work,
                     SessionMetrics& sessions, Metrics& metrics) {
  std::vector<std::string> no_models = {std::string(kInlineModel), std::string(kOtherModels)};
  std::vector<std::pair<std::string, std::string>> always;
  for (const std::string& engine : Names(core.engines())) {
    for (const std::string& model : no_models) always.emplace_back(model, engine);
    if (verifies) always.emplace_back(kVerifiedModel, engine);
  }
  no_models.emplace_back(kUnknownModel);
  metrics.BeforeCollect([&core, &labels, &work, &sessions, no_models, always] {
    const std::vector<LoadedModel> loaded = core.models().List();
    std::set<std::string> names;
    for (const LoadedModel& version : loaded) names.insert(version.name);
    std::vector<std::string> models = labels.Own(names);
    auto known = always;
    for (const LoadedModel& version : std::span(loaded).first(std::min(loaded.size(), kListedModels))) {
      if (!std::ranges::binary_search(models, version.name)) continue;
      for (std::string& engine : EnginesOf(version, core)) known.emplace_back(version.name, std::move(engine));
    }
    models.insert(models.end(), no_models.begin(), no_models.end());
    work.SetKnown(known);
    sessions.SetKnown(models);
  });
}

}  // namespace rnnserve
