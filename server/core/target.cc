// SPDX-License-Identifier: Apache-2.0
#include "server/core/target.h"

#include <utility>

#include "base/status_macros.h"

namespace rnnserve {
namespace {

// As the store has it; what has no name here is labelled as a model that came inline.
absl::StatusOr<LoadedModel> Find(const InferCall& call, ModelStore& models) {
  if (const auto* name = std::get_if<ModelName>(&call.target))
    return models.Get(name->name, name->version, call.tenant);
  LoadedModel unnamed;
  unnamed.name = std::string(kInlineModel);
  if (const auto* op = std::get_if<OperatorDef>(&call.target)) {
    ASSIGN_OR_RETURN(unnamed.model, models.FindOrCreate(*op, call.inputs, call.tenant));
  } else {
    const std::string& fingerprint = std::get<ModelFingerprint>(call.target).hex;
    ASSIGN_OR_RETURN(unnamed.model, models.GetByFingerprint(fingerprint, call.tenant));
  }
  return unnamed;
}

ResolvedModel Resolve(const LoadedModel& found, const OptionalOptions& options, const std::string& engine) {
  ResolvedModel resolved;
  resolved.model = found.model;
  const RunOptions run_defaults;
  resolved.run_options = {options.clip_cell_input.value_or(run_defaults.clip_cell_input),
                          options.empty_row_state.value_or(run_defaults.empty_row_state)};
  resolved.engine_options = {options.allow_reduced_precision.value_or(false), options.deterministic.value_or(false),
                             options.weights.value_or(WeightType::kAsGiven)};
  resolved.label = found.name;
  resolved.version = found.version;
  resolved.engine = engine.empty() ? found.engine : engine;
  return resolved;
}

}  // namespace

ResolvedModel ResolveLoaded(const LoadedModel& loaded) { return Resolve(loaded, loaded.options, ""); }

absl::StatusOr<ResolvedModel> ResolveTarget(const InferCall& call, ModelStore& models) {
  ASSIGN_OR_RETURN(const LoadedModel found, Find(call, models));
  if (!std::holds_alternative<OperatorDef>(call.target)) {
    RETURN_IF_ERROR(CheckDataNames(found.model->stack(), call.inputs));
  }
  const OptionalOptions options = Merge(call.options, found.options);
  RETURN_IF_ERROR(CheckOptions(options));
  ResolvedModel resolved = Resolve(found, options, call.engine);
  if (!std::holds_alternative<ModelName>(call.target)) resolved.version.reset();
  return resolved;
}

}  // namespace rnnserve
