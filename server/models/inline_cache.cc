// SPDX-License-Identifier: Apache-2.0
#include "server/models/inline_cache.h"

namespace rnnserve {

ModelPtr InlineCache::Find(std::string_view tenant, std::string_view fingerprint) {
  const auto found = places_.find(Key(tenant, fingerprint));
  if (found == places_.end()) return nullptr;
  by_use_.splice(by_use_.end(), by_use_, found->second);
  return found->second->model;
}

std::vector<ModelPtr> InlineCache::Put(std::string_view tenant, const ModelPtr& model) {
  std::vector<ModelPtr> evicted;
  if (Find(tenant, model->fingerprint()) != nullptr || Charge(*model) > max_bytes_) return evicted;
  bytes_ += Charge(*model);
  const auto place = by_use_.insert(by_use_.end(), Entry{std::string(tenant), model});
  places_.emplace(Key(place->tenant, model->fingerprint()), place);
  while (bytes_ > max_bytes_) {
    Entry& oldest = by_use_.front();
    bytes_ -= Charge(*oldest.model);
    places_.erase(Key(oldest.tenant, oldest.model->fingerprint()));
    evicted.push_back(std::move(oldest.model));
    by_use_.pop_front();
  }
  return evicted;
}

}  // namespace rnnserve
