// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_options.h"

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/view.h"

namespace rnnserve {

OptionalOptions Merge(const OptionalOptions& first, const OptionalOptions& second) {
  OptionalOptions merged = first;
  if (!merged.clip_cell_input) merged.clip_cell_input = second.clip_cell_input;
  if (!merged.empty_row_state) merged.empty_row_state = second.empty_row_state;
  if (!merged.deterministic) merged.deterministic = second.deterministic;
  if (!merged.allow_reduced_precision) merged.allow_reduced_precision = second.allow_reduced_precision;
  if (!merged.weights) merged.weights = second.weights;
  return merged;
}

absl::Status CheckOptions(const OptionalOptions& options) {
  const WeightType weights = options.weights.value_or(WeightType::kAsGiven);
  if (WeightTypeName(weights).empty()) return FieldError("options.weight_type", "it names no type of weights");
  if (weights == WeightType::kAsGiven || options.allow_reduced_precision.value_or(false)) return absl::OkStatus();
  return FieldError("options.weight_type",
                    absl::StrCat(View(WeightTypeName(weights)),
                                 " rounds weights, which is not allowed; set allow_reduced_precision as well, or "
                                 "weight_type AS_GIVEN"));
}

}  // namespace rnnserve
