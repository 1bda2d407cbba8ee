// SPDX-License-Identifier: Apache-2.0
// The engines that come from shared libraries. One that cannot serve here costs a line in the log, and no more.
//
//   LoadedPlugins plugins({.paths = {"librnnserve_cuda.so"}}, own_engines);
//   for (const Engine* engine : plugins.engines()) engines.push_back(engine);
//   plugins.OnFailure([&](std::string_view engine) { server->SetEngineServing(engine, false); });
//   ...
//   plugins.OnFailure({});   // before the server goes
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/plugin/plugin_engine.h"
#include "server/telemetry/metrics.h"

namespace rnnserve {

class LoadedPlugins {
 public:
  struct Options {
    std::vector<std::string> paths;  // as dlopen takes them
    int64_t memory_limit_bytes = 0;  // of each plugin's device; 0: nine tenths of what is free
  };
  // `own`: engines whose names are taken. A line in the log for each path: what serves, or why not.
  LoadedPlugins(const Options& options, std::span<const Engine* const> own);
  ~LoadedPlugins();

  std::vector<const Engine*> engines() const;
  // Threads that all of their devices together want; they compute nothing themselves.
  int workers_wanted() const;

  // `told` is called once with each engine that has failed for good or does so from now on, from whichever thread
  // noticed. Empty: none; once this has returned, the one before is not called any more.
  void OnFailure(std::function<void(std::string_view engine)> told);

  // rnnserve_device_memory_bytes, if there is a device.
  void AddMetrics(Metrics& metrics) const;

 private:
  class Failures;

  const std::shared_ptr<Failures> failures_;  // plugins tell it, maybe while this one goes
  std::vector<std::unique_ptr<plugin::PluginEngine>> engines_;
};

// rnnserve_engine_in_service, of all engines; they outlive the metrics' readers.
void AddEngineMetrics(std::vector<const Engine*> engines, Metrics& metrics);

}  // namespace rnnserve
