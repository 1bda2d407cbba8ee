// SPDX-License-Identifier: Apache-2.0
#include "server/models/inline_cache.h"

#include <utility>

namespace rnnserve {

ModelPtr InlineCache::Find(std::string_view fingerprint) {
  const auto found = places_.find(fingerprint);
  if (found == places_.end()) return nullptr;
  by_use_.splice(by_use_.end(), by_use_, found->second);
  return *found->second;
}

std::vector<ModelPtr> InlineCache::Put(const ModelPtr& model) {
  std::vector<ModelPtr> evicted;
  if (Find(model->fingerprint()) != nullptr || Charge(*model) > max_bytes_) return evicted;
  bytes_ += Charge(*model);
  places_.emplace(model->fingerprint(), by_use_.insert(by_use_.end(), model));
  while (bytes_ > max_bytes_) {
    const ModelPtr& oldest = by_use_.front();
    bytes_ -= Charge(*oldest);
    places_.erase(oldest->fingerprint());
    evicted.push_back(std::move(by_use_.front()));
    by_use_.pop_front();
  }
  return evicted;
}

}  // namespace rnnserve
