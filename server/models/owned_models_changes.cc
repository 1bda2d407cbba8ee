// SPDX-License-Identifier: Apache-2.0
// OwnedModels: additions, within their bounds, removals, lists, and what callers are told of names that mean nothing.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/rejection.h"
#include "engine/op/wording.h"
#include "server/models/owned_models.h"

namespace rnnserve {
namespace {

constexpr size_t kNamesInText = 10;

// "a, b, c and 4 more"
template <typename T>
std::string Listed(std::vector<T> first, size_t all) {
  if (first.size() > kNamesInText) first.resize(kNamesInText);
  return absl::StrCat(absl::StrJoin(first, ", "),
                      all > first.size() ? absl::StrCat(" and ", all - first.size(), " more") : "");
}

void SortByName(std::vector<LoadedModel>& list) {
  std::ranges::stable_sort(list, [](const LoadedModel& a, const LoadedModel& b) {
    return std::tie(a.name, a.version) < std::tie(b.name, b.version);
  });
}

}  // namespace

absl::Status OwnedModels::Fits(const std::string& tenant, const NamedModels& models, std::string_view name,
                               int64_t charge) const {
  if (!tenant.empty() && charge > limits_.tenant_bytes - models.bytes()) {
    return WithReason(
        OverQuota("model_bytes", absl::StrCat("model ", Quoted(name), " takes ", charge,
                                              " bytes, but this tenant's models hold ", models.bytes(), " of ",
                                              limits_.tenant_bytes, "; unload some, or raise --max_tenant_share")),
        "QUOTA_EXCEEDED");
  }
  if (charge <= limits_.bytes - bytes_) return absl::OkStatus();
  return Overloaded(
      Rejection::kMemory,
      absl::StrCat("model ", Quoted(name), " takes ", charge, " bytes, but named models hold ", bytes_, " of ",
                   limits_.bytes, " bytes; unload models that are not needed, or raise --model_weight_bytes"));
}

absl::StatusOr<LoadedModel> OwnedModels::Add(LoadedModel loaded) {
  const std::string tenant = loaded.tenant;
  const std::string name = loaded.name;
  NamedModels& models = owners_.try_emplace(tenant, limits_.bytes_per_model).first->second;
  const int64_t before = models.bytes();
  absl::StatusOr<LoadedModel> added =
      models.Add(std::move(loaded), [&](int64_t charge) { return Fits(tenant, models, name, charge); });
  bytes_ += models.bytes() - before;
  if (models.entries() == 0) owners_.erase(tenant);
  return added;
}

std::vector<LoadedModel> OwnedModels::RemoveFrom(std::string_view tenant, std::string_view name,
                                                 std::optional<int64_t> version) {
  const auto found = owners_.find(tenant);
  if (found == owners_.end()) return {};
  const int64_t before = found->second.bytes();
  std::vector<LoadedModel> removed = found->second.Remove(name, version);
  bytes_ -= before - found->second.bytes();
  if (found->second.entries() == 0) owners_.erase(found);
  return removed;
}

absl::StatusOr<std::vector<LoadedModel>> OwnedModels::Remove(std::string_view tenant, UnloadOf whose,
                                                             std::string_view name, std::optional<int64_t> version) {
  std::vector<LoadedModel> removed = RemoveFrom(tenant, name, version);
  if (removed.empty() && whose == UnloadOf::kOwnOrEverybodys) removed = RemoveFrom(kEverybody, name, version);
  if (!removed.empty()) return removed;
  if (whose == UnloadOf::kOwn && Find(tenant, name, version) != nullptr) {
    return absl::PermissionDeniedError(
        absl::StrCat("model ", Quoted(name),
                     " is everybody's; only a token with the permission operator unloads "
                     "it"));
  }
  return Unknown(tenant, name, version);
}

std::vector<LoadedModel> OwnedModels::List(std::string_view tenant) const {
  std::vector<LoadedModel> list;
  if (const NamedModels* const own = tenant.empty() ? nullptr : Of(tenant)) own->AppendTo(list);
  if (const NamedModels* const everybodys = Of(kEverybody)) everybodys->AppendTo(list);
  SortByName(list);
  return list;
}

std::vector<LoadedModel> OwnedModels::ListAll() const {
  std::vector<LoadedModel> list;
  for (const auto& [tenant, models] : owners_) models.AppendTo(list);
  SortByName(list);
  return list;
}

absl::Status OwnedModels::Unknown(std::string_view tenant, std::string_view name,
                                  std::optional<int64_t> version) const {
  std::vector<std::string> names;
  std::vector<int64_t> versions;
  size_t all_names = 0;
  for (const std::string_view owner : {tenant, kEverybody}) {
    const NamedModels* const models = Of(owner);
    if (models == nullptr) continue;
    for (std::string& known : models->Names(kNamesInText)) names.push_back(std::move(known));
    for (const int64_t known : models->Versions(name, kNamesInText)) versions.push_back(known);
    all_names += models->names();
    if (tenant.empty()) break;
  }
  std::ranges::sort(names);
  const auto repeated = std::unique(names.begin(), names.end());
  all_names -= static_cast<size_t>(names.end() - repeated);
  names.erase(repeated, names.end());
  std::string text;
  if (!versions.empty()) {
    std::ranges::sort(versions);
    text = absl::StrCat("model ", Quoted(name), " has no version ", version.value_or(0),
                        "; loaded versions: ", Listed(versions, versions.size()));
  } else if (names.empty()) {
    text = absl::StrCat("model ", Quoted(name), " is not loaded; no model is (load one with Models.Load)");
  } else {
    text = absl::StrCat("model ", Quoted(name), " is not loaded; loaded models: ", Listed(names, all_names));
  }
  return WithReason(absl::NotFoundError(text), "MODEL_UNKNOWN");
}

}  // namespace rnnserve
