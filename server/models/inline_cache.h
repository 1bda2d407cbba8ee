// SPDX-License-Identifier: Apache-2.0
// Models that only their content names, least recently used first out, bounded in bytes. Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/models/model.h"

namespace rnnserve {

class InlineCache {
 public:
  // Each model counts with its weights and `bytes_per_model`.
  InlineCache(int64_t max_bytes, int64_t bytes_per_model) : max_bytes_(max_bytes), bytes_per_model_(bytes_per_model) {}

  // Null if it is not here; else it becomes the most recently used.
  ModelPtr Find(std::string_view fingerprint);

  // Makes `model` the most recently used, and returns what had to go for it: destroying models takes time, so the
  // caller does it where no lock is held. A model larger than the bound is not kept and nothing goes for it.
  std::vector<ModelPtr> Put(const ModelPtr& model);

  int64_t bytes() const { return bytes_; }

 private:
  int64_t Charge(const Model& model) const { return model.weight_bytes() + bytes_per_model_; }

  const int64_t max_bytes_;
  const int64_t bytes_per_model_;
  int64_t bytes_ = 0;
  std::list<ModelPtr> by_use_;                                                  // least recent first
  std::unordered_map<std::string_view, std::list<ModelPtr>::iterator> places_;  // keys point into the models
};

}  // namespace rnnserve
