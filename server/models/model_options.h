// SPDX-License-Identifier: Apache-2.0
// Options as a request or a model states them; what is absent is decided further down.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "engine/op/op_spec.h"

namespace rnnserve {

struct OptionalOptions {
  std::optional<bool> clip_cell_input = {};
  std::optional<EmptyRowState> empty_row_state = {};
  std::optional<bool> deterministic = {};
  std::optional<bool> allow_reduced_precision = {};
  std::optional<WeightType> weights = {};
  bool operator==(const OptionalOptions&) const = default;
};

// `first` where it speaks, else `second`.
OptionalOptions Merge(const OptionalOptions& first, const OptionalOptions& second);

// That options go together.
absl::Status CheckOptions(const OptionalOptions& options);

}  // namespace rnnserve
