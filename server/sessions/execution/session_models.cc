// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/execution/session_models.h"

#include <algorithm>
#include <utility>

namespace rnnserve {
namespace {

// Of one model: other outputs, options or engines. Beyond it sessions have an object of their own.
constexpr size_t kMostVariants = 32;

bool IsSame(const PinnedModel& a, const PinnedModel& b) {
  return a.model == b.model && a.run_options == b.run_options && a.engine_options == b.engine_options &&
         a.engines.engines == b.engines.engines && a.engines.programs == b.engines.programs && a.label == b.label &&
         a.version == b.version;
}

}  // namespace

SessionModelPtr SessionModels::Share(PinnedModel pinned, const std::string& model_name,
                                     const std::vector<std::string>& outputs, DataType kept_type,
                                     SessionCountersPtr counters, bool by_operator_names) {
  MutexLock lock(mutex_);
  if (shared_.size() >= look_at_) ForgetUnused();
  std::vector<std::weak_ptr<const SessionModel>>& variants = shared_[pinned.model.get()];
  std::erase_if(variants, [](const auto& one) { return one.expired(); });
  for (const auto& one : variants) {
    SessionModelPtr known = one.lock();
    if (known != nullptr && known->model_name() == model_name && known->outputs() == outputs &&
        known->kept_type() == kept_type && known->by_operator_names() == by_operator_names &&
        IsSame(*known->pinned(), pinned)) {
      return known;
    }
  }
  auto made = std::make_shared<const SessionModel>(std::make_shared<const PinnedModel>(std::move(pinned)), model_name,
                                                   outputs, kept_type, std::move(counters), by_operator_names);
  if (variants.size() < kMostVariants) variants.push_back(made);
  return made;
}

void SessionModels::ForgetUnused() {
  absl::erase_if(shared_, [](const auto& one) {
    return std::ranges::all_of(one.second, [](const auto& variant) { return variant.expired(); });
  });
  look_at_ = std::max(kFew, 2 * shared_.size());
}

}  // namespace rnnserve
