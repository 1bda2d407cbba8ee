// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/model_labels.h"

namespace rnnserve {

std::string_view ModelLabels::Of(std::string_view model) {
  if (model == kInlineModel || model == kUnknownModel) return model;
  const std::lock_guard lock(mutex_);
  if (models_.contains(model)) return model;
  if (models_.size() == most_) return kOtherModels;
  models_.emplace(model);
  return model;
}

}  // namespace rnnserve
