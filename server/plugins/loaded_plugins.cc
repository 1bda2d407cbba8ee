// SPDX-License-Identifier: Apache-2.0
#include "server/plugins/loaded_plugins.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "server/telemetry/log.h"

namespace rnnserve {

class LoadedPlugins::Failures {
 public:
  void Failed(const std::string& engine) {
    MutexLock lock(mutex_);
    failed_.push_back(engine);
    if (on_failure_) on_failure_(engine);
  }
  void Subscribe(std::function<void(std::string_view)> on_failure) {
    MutexLock lock(mutex_);
    on_failure_ = std::move(on_failure);
    if (!on_failure_) return;
    for (const std::string& engine : failed_) on_failure_(engine);
  }

 private:
  Mutex mutex_;
  std::vector<std::string> failed_ ABSL_GUARDED_BY(mutex_);
  std::function<void(std::string_view)> on_failure_ ABSL_GUARDED_BY(mutex_);
};

LoadedPlugins::LoadedPlugins(const Options& options, std::span<const Engine* const> own)
    : failures_(std::make_shared<Failures>()) {
  std::vector<std::string> taken = {"auto", "verify"};
  for (const Engine* engine : own) taken.emplace_back(engine->name());
  for (const std::string& path : options.paths) {
    // Known once the plugin has loaded; nothing can fail for good before.
    const auto name = std::make_shared<std::string>();
    plugin::PluginOptions plugin_options{options.memory_limit_bytes, /*device=*/0, {}};
    plugin_options.on_failure = [failures = failures_, path, name](const std::string& reason) {
      LogError(absl::StrCat("plugin \"", path, "\" is out of service until the server is started again: ", reason));
      failures->Failed(*name);
    };
    absl::StatusOr<std::unique_ptr<plugin::PluginEngine>> engine =
        plugin::PluginEngine::Load(path, std::move(plugin_options));
    if (!engine.ok()) {
      LogWarning(absl::StrCat(engine.status().message(), "; serving without it"));
      continue;
    }
    *name = (*engine)->name();
    if (std::ranges::find(taken, *name) != taken.end()) {
      LogWarning(absl::StrCat("plugin \"", path, "\": an engine called \"", *name,
                              "\" is here already; serving without this one"));
      continue;
    }
    LogInfo(absl::StrCat("plugin \"", path, "\" serves as engine \"", *name, "\": ", (*engine)->description()));
    taken.push_back(*name);
    engines_.push_back(*std::move(engine));
  }
}

LoadedPlugins::~LoadedPlugins() { OnFailure({}); }

std::vector<const Engine*> LoadedPlugins::engines() const {
  std::vector<const Engine*> engines;
  for (const auto& engine : engines_) engines.push_back(engine.get());
  return engines;
}

int LoadedPlugins::workers_wanted() const {
  int wanted = 0;
  for (const auto& engine : engines_) wanted += engine->workers_wanted();
  return wanted;
}

void LoadedPlugins::OnFailure(std::function<void(std::string_view)> on_failure) {
  failures_->Subscribe(std::move(on_failure));
}

void LoadedPlugins::AddMetrics(Metrics& metrics) const {
  if (engines_.empty()) return;
  metrics.GaugeFunction("rnnserve_device_memory_bytes", "Memory of an engine's device: what it holds, and may hold.",
                        {"engine", "kind"}, [this] {
                          std::vector<MetricSample> samples;
                          for (const auto& engine : engines_) {
                            const auto memory = engine->Memory();
                            if (!memory.ok()) continue;
                            const std::string name(engine->name());
                            samples.push_back({{name, "used"}, static_cast<double>(memory->in_use_bytes)});
                            samples.push_back({{name, "limit"}, static_cast<double>(memory->limit_bytes)});
                          }
                          return samples;
                        });
}

void AddEngineMetrics(std::vector<const Engine*> engines, Metrics& metrics) {
  metrics.GaugeFunction("rnnserve_engine_in_service", "1 while an engine takes work, 0 once its device has failed.",
                        {"engine"}, [engines = std::move(engines)] {
                          std::vector<MetricSample> samples;
                          for (const Engine* engine : engines) {
                            samples.push_back({{std::string(engine->name())}, engine->InService().ok() ? 1.0 : 0.0});
                          }
                          return samples;
                        });
}

}  // namespace rnnserve
