// SPDX-License-Identifier: Apache-2.0
#include "server/core/target.h"

#include <utility>

#include "base/status_macros.h"

namespace rnnserve {
namespace {

struct Found {
  ModelPtr model;
  OptionalOptions options;
  std::string engine;
  std::string label = std::string(kInlineModel);
  std::optional<int64_t> version = {};
};

Found FoundOf(const LoadedModel& loaded) {
  return {loaded.model, loaded.options, loaded.engine, loaded.name, loaded.version};
}

absl::StatusOr<Found> Find(const InferCall& call, ModelStore& models) {
  if (const auto* op = std::get_if<OperatorDef>(&call.target)) {
    ASSIGN_OR_RETURN(ModelPtr model, models.FindOrCreate(*op, call.inputs, call.tenant));
    return Found{std::move(model), {}, {}};
  }
  if (const auto* name = std::get_if<ModelName>(&call.target)) {
    ASSIGN_OR_RETURN(auto&& loaded, models.Get(name->name, name->version, call.tenant));
    return FoundOf(loaded);
  }
  ASSIGN_OR_RETURN(ModelPtr model, models.GetByFingerprint(std::get<ModelFingerprint>(call.target).hex, call.tenant));
  return Found{std::move(model), {}, {}};
}

ResolvedModel Resolve(Found found, const OptionalOptions& given, const std::string& engine) {
  const OptionalOptions options = Merge(given, found.options);
  ResolvedModel resolved;
  resolved.model = std::move(found.model);
  const RunOptions run_defaults;
  resolved.run_options = {options.clip_cell_input.value_or(run_defaults.clip_cell_input),
                          options.empty_row_state.value_or(run_defaults.empty_row_state)};
  resolved.engine_options = {options.allow_reduced_precision.value_or(false), options.deterministic.value_or(false),
                             options.weights.value_or(WeightType::kAsGiven)};
  resolved.label = std::move(found.label);
  resolved.version = found.version;
  resolved.engine = engine.empty() ? found.engine : engine;
  return resolved;
}

}  // namespace

ResolvedModel ResolveLoaded(const LoadedModel& loaded) { return Resolve(FoundOf(loaded), {}, ""); }

absl::StatusOr<ResolvedModel> ResolveTarget(const InferCall& call, ModelStore& models) {
  absl::StatusOr<Found> found = Find(call, models);
  if (!found.ok()) return found.status();
  if (!std::holds_alternative<OperatorDef>(call.target)) {
    RETURN_IF_ERROR(CheckDataNames(found->model->stack(), call.inputs));
  }
  RETURN_IF_ERROR(CheckOptions(Merge(call.options, found->options)));
  return Resolve(*std::move(found), call.options, call.engine);
}

}  // namespace rnnserve
