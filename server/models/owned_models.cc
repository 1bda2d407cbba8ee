// SPDX-License-Identifier: Apache-2.0
// How models are found; owned_models_changes.cc has the rest.
#include "server/models/owned_models.h"

namespace rnnserve {

const NamedModels* OwnedModels::Of(std::string_view tenant) const {
  const auto found = owners_.find(tenant);
  return found == owners_.end() ? nullptr : &found->second;
}

const LoadedModel* OwnedModels::Find(std::string_view tenant, std::string_view name,
                                     std::optional<int64_t> version) const {
  if (!tenant.empty()) {
    const NamedModels* const own = Of(tenant);
    if (const LoadedModel* found = own == nullptr ? nullptr : own->Find(name, version)) return found;
  }
  const NamedModels* const everybodys = Of(kEverybody);
  return everybodys == nullptr ? nullptr : everybodys->Find(name, version);
}

absl::StatusOr<LoadedModel> OwnedModels::Get(std::string_view tenant, std::string_view name,
                                             std::optional<int64_t> version) const {
  if (const LoadedModel* found = Find(tenant, name, version)) return *found;
  return Unknown(tenant, name, version);
}

ModelPtr OwnedModels::FindByFingerprint(std::string_view tenant, const std::string& fingerprint) const {
  for (const std::string_view owner : {tenant, kEverybody}) {
    const NamedModels* const models = Of(owner);
    if (ModelPtr model = models == nullptr ? nullptr : models->FindByFingerprint(fingerprint)) return model;
  }
  return nullptr;
}

}  // namespace rnnserve
