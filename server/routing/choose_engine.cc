// SPDX-License-Identifier: Apache-2.0
#include "server/routing/choose_engine.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/retry_delay.h"
#include "base/view.h"

namespace rnnserve {
namespace {

std::string Reason(const Engine& engine, const absl::Status& status) {
  return absl::StrCat("engine \"", View(engine.name()), "\": ", status.message());
}

// A device that has failed stays so until the server is started again: nothing is gained by asking here again.
absl::Status OutOfService(const std::string& text) {
  return WithRetryDelay(WithReason(absl::UnavailableError(text), "ENGINE_OUT_OF_SERVICE"), absl::InfiniteDuration());
}

}  // namespace

absl::Status CheckEngineName(std::span<const Engine* const> engines, std::string_view name) {
  if (IsAutoEngine(name)) return absl::OkStatus();
  std::vector<std::string> names;
  for (const Engine* engine : engines) {
    if (engine->name() == name) return absl::OkStatus();
    names.emplace_back(engine->name());
  }
  return FieldError("engine", absl::StrCat("there is no engine \"", absl::Utf8SafeCHexEscape(View(name.substr(0, 64))),
                                           "\" here; name one of ", absl::StrJoin(names, ", "),
                                           ", or \"auto\" to let the server choose"));
}

absl::StatusOr<const Engine*> ChooseEngine(std::span<const Engine* const> engines, std::string_view name,
                                           std::span<const CellPtr> cells, const EngineOptions& options) {
  if (absl::Status known = CheckEngineName(engines, name); !known.ok()) return known;
  std::vector<std::string> reasons;
  for (const Engine* engine : engines) {
    if (!IsAutoEngine(name) && engine->name() != name) continue;
    const absl::Status supports = SupportsAll(*engine, cells, options);
    if (supports.ok()) return engine;
    reasons.push_back(Reason(*engine, supports));
    if (absl::IsUnavailable(supports) && !IsAutoEngine(name)) return OutOfService(reasons.back());
    if (!IsAutoEngine(name)) return absl::Status(supports.code(), reasons.back());
  }
  return absl::UnimplementedError(absl::StrJoin(reasons, "; "));
}

}  // namespace rnnserve
