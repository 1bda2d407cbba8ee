// SPDX-License-Identifier: Apache-2.0
// The models that have a name and a version, bounded in bytes. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/models/model_store.h"

namespace rnnserve {

class NamedModels {
 public:
  // Each entry counts with `bytes_per_model`, each distinct model with its weights.
  NamedModels(int64_t max_bytes, int64_t bytes_per_model) : max_bytes_(max_bytes), bytes_per_model_(bytes_per_model) {}

  // The entry, or the one that is there already with equal content.
  absl::StatusOr<LoadedModel> Add(LoadedModel loaded);
  // What was removed: one version, or all of the name.
  absl::StatusOr<std::vector<LoadedModel>> Remove(std::string_view name, std::optional<int64_t> version);

  // Without version: the highest.
  absl::StatusOr<LoadedModel> Get(std::string_view name, std::optional<int64_t> version) const;
  // Null if no name has it.
  ModelPtr FindByFingerprint(const std::string& fingerprint) const;
  std::vector<LoadedModel> List() const;

 private:
  struct Content {
    ModelPtr model;
    int64_t names = 0;
  };
  using Versions = std::map<int64_t, LoadedModel>;

  void Forget(const LoadedModel& loaded);
  absl::Status Unknown(std::string_view name, std::optional<int64_t> version) const;

  const int64_t max_bytes_;
  const int64_t bytes_per_model_;
  int64_t bytes_ = 0;
  std::map<std::string, Versions, std::less<>> models_;
  std::unordered_map<std::string, Content> contents_;  // by fingerprint
};

}  // namespace rnnserve
