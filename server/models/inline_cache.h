// SPDX-License-Identifier: Apache-2.0
// Models that only their content names, by the tenant that sent them, least recently used first out, bounded in bytes.
// Other tenants cannot see a tenant's models, and equal models of two tenants count twice. Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/models/model.h"

namespace rnnserve {

class InlineCache {
 public:
  // Each model counts with its weights and `bytes_per_model`.
  InlineCache(int64_t max_bytes, int64_t bytes_per_model) : max_bytes_(max_bytes), bytes_per_model_(bytes_per_model) {}

  // Null if it is not cached; else it becomes the most recently used.
  ModelPtr Find(std::string_view tenant, std::string_view fingerprint);

  // Makes `model` the most recently used, and returns the evicted models: destroying them takes time, so the caller
  // does it where no lock is held. A model larger than the bound is not kept and evicts nothing.
  std::vector<ModelPtr> Put(std::string_view tenant, const ModelPtr& model);

  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string tenant;
    ModelPtr model;
  };
  using Key = std::pair<std::string_view, std::string_view>;  // tenant and fingerprint, of an entry

  int64_t Charge(const Model& model) const { return model.weight_bytes() + bytes_per_model_; }

  const int64_t max_bytes_;
  const int64_t bytes_per_model_;
  int64_t bytes_ = 0;
  std::list<Entry> by_use_;  // least recent first
  absl::flat_hash_map<Key, std::list<Entry>::iterator> entries_;
};

}  // namespace rnnserve
