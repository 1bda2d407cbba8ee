// SPDX-License-Identifier: Apache-2.0
// An engine from a shared library, behind the C ABI of engine_abi.h.
//
//   absl::StatusOr<std::unique_ptr<PluginEngine>> cuda = PluginEngine::Load("/usr/lib/librnnserve_cuda.so", {});
//   if (!cuda.ok()) LogWarning(...);      // no driver, no device, another ABI: the text names the path and the reason
//
// What comes from the library is checked before it is believed: versions, sizes, names, codes, texts and bytes. A
// library that corrupts memory is beyond that: load only what you trust like the server itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"

namespace rnnserve::plugin {

class OpenEngine;

struct PluginOptions {
  int64_t memory_limit_bytes = 0;  // of the device; 0: nine tenths of what is free
  int32_t device = 0;              // ordinal
  // Called at most once, from whichever thread notices, when the device fails for good. May be empty.
  std::function<void(const std::string& reason)> on_failure = {};
};

class PluginEngine final : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<PluginEngine>> Load(const std::string& path, PluginOptions options);
  ~PluginEngine() override;

  std::string_view name() const override;
  absl::Status InService() const override;
  // UNAVAILABLE once the device has failed for good.
  absl::Status Supports(const CellSpec& cell, const EngineOptions& options) const override;
  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions& options) const override;

  struct DeviceMemory {
    int64_t in_use_bytes;
    int64_t limit_bytes;
  };
  absl::StatusOr<DeviceMemory> Memory() const;

  // Threads that keep the device busy, most of the time by waiting for it: 0 to 16, whatever the library says.
  int workers_wanted() const { return workers_wanted_; }
  // The device, its libraries' versions and its memory, for the log.
  const std::string& description() const { return description_; }

 private:
  PluginEngine(std::shared_ptr<const OpenEngine> engine, std::string description, int workers_wanted);

  const std::shared_ptr<const OpenEngine> engine_;
  const std::string description_;
  const int workers_wanted_;
};

}  // namespace rnnserve::plugin
