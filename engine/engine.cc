// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include "absl/strings/str_cat.h"

namespace rnnserve {

absl::Status CheckWeightsAsGiven(const EngineOptions& options) {
  if (options.weights == WeightType::kAsGiven) return absl::OkStatus();
  const std::string_view name = WeightTypeName(options.weights);
  return absl::UnimplementedError(absl::StrCat("weight_type is ", absl::string_view(name.data(), name.size()),
                                               ", and it keeps weights as given only"));
}

}  // namespace rnnserve
