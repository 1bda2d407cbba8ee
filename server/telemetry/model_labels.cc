// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry/model_labels.h"

#include <algorithm>
#include <utility>

namespace rnnserve {

ModelLabels::ModelLabels(size_t most, std::set<std::string, std::less<>> first)
    : most_(most), first_(std::move(first)), kept_(first_.size()) {}

std::string_view ModelLabels::Of(std::string_view model) {
  if (model.starts_with('(')) return model;
  const MutexLock lock(mutex_);
  if (called_.contains(model)) return model;
  const bool is_first = first_.contains(model);
  if (called_.size() + (is_first ? 0 : kept_) >= most_) return kOtherModels;
  called_.emplace(model);
  if (is_first) --kept_;
  return model;
}

std::vector<std::string> ModelLabels::Own(const std::set<std::string>& loaded) const {
  const MutexLock lock(mutex_);
  std::vector<std::string> own;
  size_t free_for_first = most_ - called_.size();
  size_t free_for_others = free_for_first - std::min(free_for_first, kept_);
  for (const std::string& model : loaded) {
    size_t& free = first_.contains(model) ? free_for_first : free_for_others;
    const bool has_place = called_.contains(model);
    if (!has_place && free == 0) continue;
    if (!has_place) --free;
    own.push_back(model);
  }
  return own;
}

}  // namespace rnnserve
