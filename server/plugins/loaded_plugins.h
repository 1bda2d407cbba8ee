// SPDX-License-Identifier: Apache-2.0
// The engines of shared libraries. The server logs and skips a library that cannot run here.
//
//   LoadedPlugins plugins({.paths = {"librnnserve_cuda.so"}}, own_engines);
//   for (const Engine* engine : plugins.engines()) engines.push_back(engine);
//   plugins.OnFailure([&](std::string_view engine) { server->SetEngineServing(engine, false); });
//   ...
//   plugins.OnFailure({});   // before the server is destroyed
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
  // Threads that the devices need, all together; these threads compute nothing themselves.
  int workers_wanted() const;

  // `on_failure` is called once for each engine that has failed for good or fails from now on, on the thread that
  // notices. Empty: none. After this returns, the previous function is not called any more.
  void OnFailure(std::function<void(std::string_view engine)> on_failure);

  // rnnserve_device_memory_bytes, if there is a device.
  void AddMetrics(Metrics& metrics) const;

 private:
  class Failures;

  const std::shared_ptr<Failures> failures_;  // plugins report to it, maybe during destruction
  std::vector<std::unique_ptr<plugin::PluginEngine>> engines_;
};

// rnnserve_engine_in_service, of all engines; they outlive the metrics' readers.
void AddEngineMetrics(std::vector<const Engine*> engines, Metrics& metrics);

}  // namespace rnnserve
