// SPDX-License-Identifier: Apache-2.0
#include "server/models/named_models.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

// What differs between the two, or "".
std::string Difference(const LoadedModel& have, const LoadedModel& come) {
  if (have.model->fingerprint() != come.model->fingerprint()) {
    return absl::StrCat("another operator or other weights (fingerprint ", have.model->fingerprint(), ", now came ",
                        come.model->fingerprint(), ")");
  }
  if (have.options != come.options) return "the same operator and weights, but other options";
  if (have.engine != come.engine) {
    return absl::StrCat("the same operator and weights, but engine ", Quoted(have.engine), " (now came ",
                        Quoted(come.engine), ")");
  }
  return "";
}

}  // namespace

absl::StatusOr<LoadedModel> NamedModels::Add(LoadedModel loaded, absl::FunctionRef<absl::Status(int64_t)> fits) {
  if (loaded.version == kNextVersion) {
    const LoadedModel* highest = Find(loaded.name, std::nullopt);
    if (highest != nullptr && Difference(*highest, loaded).empty()) return *highest;
    if (highest != nullptr && highest->version == INT64_MAX) {
      return absl::AlreadyExistsError(
          absl::StrCat("model ", Quoted(loaded.name), " has the highest version there is; name one that is free"));
    }
    loaded.version = highest == nullptr ? 1 : highest->version + 1;
  }
  if (const LoadedModel* have = Find(loaded.name, loaded.version)) {
    const std::string difference = Difference(*have, loaded);
    if (difference.empty()) return *have;
    const int64_t highest = models_.find(loaded.name)->second.rbegin()->first;
    return absl::AlreadyExistsError(
        absl::StrCat("version ", loaded.version, " of model ", Quoted(loaded.name), " is loaded with ", difference,
                     "; unload it first, or load this one as a version that is free (next: ",
                     highest == INT64_MAX ? "none above" : absl::StrCat(highest + 1), ")"));
  }
  const auto content = contents_.find(loaded.model->fingerprint());
  const int64_t charge =
      bytes_per_model_ + loaded.file_bytes() + (content == contents_.end() ? loaded.model->weight_bytes() : 0);
  if (absl::Status room = fits(charge); !room.ok()) return room;
  bytes_ += charge;
  ++entries_;
  Content& entry = contents_[loaded.model->fingerprint()];
  if (entry.names++ == 0) entry.model = loaded.model;
  models_[loaded.name].emplace(loaded.version, loaded);
  return loaded;
}

void NamedModels::Forget(const LoadedModel& loaded) {
  bytes_ -= bytes_per_model_ + loaded.file_bytes();
  --entries_;
  const auto content = contents_.find(loaded.model->fingerprint());
  if (--content->second.names > 0) return;
  bytes_ -= loaded.model->weight_bytes();
  contents_.erase(content);
}

std::vector<LoadedModel> NamedModels::Remove(std::string_view name, std::optional<int64_t> version) {
  std::vector<LoadedModel> removed;
  const auto found = models_.find(name);
  if (found == models_.end()) return removed;
  for (auto at = found->second.begin(); at != found->second.end();) {
    if (version && at->first != *version) {
      ++at;
      continue;
    }
    Forget(at->second);
    removed.push_back(std::move(at->second));
    at = found->second.erase(at);
  }
  if (found->second.empty()) models_.erase(found);
  return removed;
}

const LoadedModel* NamedModels::Find(std::string_view name, std::optional<int64_t> version) const {
  const auto found = models_.find(name);
  if (found == models_.end()) return nullptr;
  if (!version) return &found->second.rbegin()->second;
  const auto entry = found->second.find(*version);
  return entry == found->second.end() ? nullptr : &entry->second;
}

ModelPtr NamedModels::FindByFingerprint(const std::string& fingerprint) const {
  const auto found = contents_.find(fingerprint);
  return found == contents_.end() ? nullptr : found->second.model;
}

void NamedModels::AppendTo(std::vector<LoadedModel>& list) const {
  for (const auto& [name, versions] : models_) {
    for (const auto& [version, loaded] : versions) list.push_back(loaded);
  }
}

std::vector<std::string> NamedModels::Names(size_t most) const {
  std::vector<std::string> names;
  for (auto at = models_.begin(); at != models_.end() && names.size() < most; ++at) names.push_back(at->first);
  return names;
}

std::vector<int64_t> NamedModels::Versions(std::string_view name, size_t most) const {
  std::vector<int64_t> versions;
  const auto found = models_.find(name);
  if (found == models_.end()) return versions;
  for (auto at = found->second.begin(); at != found->second.end() && versions.size() < most; ++at) {
    versions.push_back(at->first);
  }
  return versions;
}

}  // namespace rnnserve
