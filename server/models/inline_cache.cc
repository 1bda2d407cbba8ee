// SPDX-License-Identifier: Apache-2.0
#include "server/models/inline_cache.h"

namespace rnnserve {

ModelPtr InlineCache::Find(std::string_view tenant, std::string_view fingerprint) {
  const auto found = entries_.find(Key(tenant, fingerprint));
  if (found == entries_.end()) return nullptr;
  by_use_.splice(by_use_.end(), by_use_, found->second);
  return found->second->model;
}

std::vector<ModelPtr> InlineCache::Put(std::string_view tenant, const ModelPtr& model) {
  std::vector<ModelPtr> evicted;
  if (Find(tenant, model->fingerprint()) != nullptr || Charge(*model) > max_bytes_) return evicted;
  bytes_ += Charge(*model);
  const auto entry = by_use_.insert(by_use_.end(), Entry{std::string(tenant), model});
  entries_.emplace(Key(entry->tenant, model->fingerprint()), entry);
  while (bytes_ > max_bytes_) {
    Entry& oldest = by_use_.front();
    bytes_ -= Charge(*oldest.model);
    entries_.erase(Key(oldest.tenant, oldest.model->fingerprint()));
    evicted.push_back(std::move(oldest.model));
    by_use_.pop_front();
  }
  return evicted;
}

}  // namespace rnnserve
