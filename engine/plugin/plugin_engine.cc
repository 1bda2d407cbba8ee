// SPDX-License-Identifier: Apache-2.0
#include "engine/plugin/plugin_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/plugin/library.h"
#include "engine/plugin/open_engine.h"
#include "engine/plugin/plugin_program.h"

namespace rnnserve::plugin {
namespace {

constexpr int kMostWorkers = 16;

std::string Describe(const rnnserve_device_info& info) {
  constexpr int64_t kMiB = 1 << 20;
  return absl::StrCat(Printable(info.name, sizeof info.name), ", ", Printable(info.versions, sizeof info.versions),
                      ", may use ", info.memory_limit_bytes / kMiB, " of ", info.memory_total_bytes / kMiB, " MiB");
}

}  // namespace

absl::StatusOr<std::unique_ptr<PluginEngine>> PluginEngine::Load(const std::string& path, PluginOptions options) {
  ASSIGN_OR_RETURN(const rnnserve_api* api, OpenLibrary(path));
  const rnnserve_engine_options raw{options.memory_limit_bytes, options.device, 0};
  absl::StatusOr<std::shared_ptr<const OpenEngine>> engine = OpenEngine::Open(*api, raw, std::move(options.on_failure));
  absl::StatusOr<rnnserve_device_info> info = engine.ok() ? (*engine)->Info() : engine.status();
  if (!info.ok()) {
    return absl::Status(info.status().code(), absl::StrCat("plugin \"", path, "\": ", info.status().message()));
  }
  const int wanted = std::clamp(info->workers_wanted, 0, kMostWorkers);
  return std::unique_ptr<PluginEngine>(new PluginEngine(*std::move(engine), Describe(*info), wanted));
}

PluginEngine::PluginEngine(std::shared_ptr<const OpenEngine> engine, std::string description, int workers_wanted)
    : engine_(std::move(engine)), description_(std::move(description)), workers_wanted_(workers_wanted) {}
PluginEngine::~PluginEngine() = default;

std::string_view PluginEngine::name() const { return engine_->name(); }

absl::Status PluginEngine::InService() const { return engine_->InService(); }

absl::StatusOr<PluginEngine::DeviceMemory> PluginEngine::Memory() const {
  ASSIGN_OR_RETURN(const rnnserve_device_info info, engine_->Info());
  return DeviceMemory{info.memory_in_use_bytes, info.memory_limit_bytes};
}

absl::Status PluginEngine::Supports(const CellSpec& cell, const EngineOptions& options) const {
  RETURN_IF_ERROR(engine_->InService());
  RETURN_IF_ERROR(CheckWeightsAsGiven(options));
  const rnnserve_cell raw = ToAbi(cell, options);
  ErrorText error;
  const int32_t code = engine_->api().supports(engine_->get(), &raw, error.data(), error.size());
  // The reason alone: the caller names the engine.
  if (code == RNNSERVE_UNIMPLEMENTED) return absl::UnimplementedError(error.text());
  return engine_->Check(code, "asked for support", error);
}

absl::StatusOr<ProgramPtr> PluginEngine::Compile(CellPtr cell, const EngineOptions& options) const {
  RETURN_IF_ERROR(engine_->InService());
  RETURN_IF_ERROR(CheckWeightsAsGiven(options));
  return MakePluginProgram(engine_, *cell, options);
}

}  // namespace rnnserve::plugin
