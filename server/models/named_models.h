// SPDX-License-Identifier: Apache-2.0
// The models of one owner that have a name and a version. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/models/model_store.h"

namespace rnnserve {

class NamedModels {
 public:
  // Each entry counts with `bytes_per_model` and its file, each distinct model with its weights.
  explicit NamedModels(int64_t bytes_per_model) : bytes_per_model_(bytes_per_model) {}

  // As a version to Add: one more than the name's highest, or that one if its content is equal.
  static constexpr int64_t kNextVersion = 0;

  // The new entry, or the existing one with equal content. `fits` is called before a new one is added, with the bytes
  // it counts.
  absl::StatusOr<LoadedModel> Add(LoadedModel loaded, absl::FunctionRef<absl::Status(int64_t charge)> fits);
  // What was removed: one version, or all of the name. Nothing: there is no such model.
  std::vector<LoadedModel> Remove(std::string_view name, std::optional<int64_t> version);

  // Without version: the highest. Null: there is no such model.
  const LoadedModel* Find(std::string_view name, std::optional<int64_t> version) const;
  // Null if no name has it.
  ModelPtr FindByFingerprint(const std::string& fingerprint) const;
  void AppendTo(std::vector<LoadedModel>& list) const;
  // The first names, at most `most`, and the first versions of a name.
  std::vector<std::string> Names(size_t most) const;
  std::vector<int64_t> Versions(std::string_view name, size_t most) const;

  int64_t bytes() const { return bytes_; }
  int64_t entries() const { return entries_; }
  size_t names() const { return models_.size(); }

 private:
  struct Content {
    ModelPtr model;
    int64_t names = 0;
  };
  using VersionMap = std::map<int64_t, LoadedModel>;

  void Forget(const LoadedModel& loaded);

  const int64_t bytes_per_model_;
  int64_t bytes_ = 0;
  int64_t entries_ = 0;
  std::map<std::string, VersionMap, std::less<>> models_;
  std::unordered_map<std::string, Content> contents_;  // by fingerprint
};

}  // namespace rnnserve
