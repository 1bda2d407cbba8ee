// SPDX-License-Identifier: Apache-2.0
// Named models by owner: shared ones (the repository's, and what operators and servers without tokens load), and each
// tenant's own, which no other tenant sees. A name means the tenant's own model where it has one, else the shared one;
// so two tenants may use one name. Bounded in bytes, all together and each tenant. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/models/model_store.h"
#include "server/models/named_models.h"

namespace rnnserve {

class OwnedModels {
 public:
  struct Limits {
    int64_t bytes = 0;            // of all
    int64_t tenant_bytes = 0;     // of one tenant
    int64_t bytes_per_model = 0;  // what each counts besides its weights
  };
  explicit OwnedModels(const Limits& limits) : limits_(limits) {}

  // Adds to the models of loaded.tenant, "": shared. As ModelStore::LoadInline says.
  absl::StatusOr<LoadedModel> Add(LoadedModel loaded);
  // See ModelStore::Unload.
  absl::StatusOr<std::vector<LoadedModel>> Remove(std::string_view tenant, UnloadOf whose, std::string_view name,
                                                  std::optional<int64_t> version);

  // The model that `tenant` means; "": shared ones only.
  absl::StatusOr<LoadedModel> Get(std::string_view tenant, std::string_view name, std::optional<int64_t> version) const;
  ModelPtr FindByFingerprint(std::string_view tenant, const std::string& fingerprint) const;
  // The models that `tenant` sees, by name and version, its own before shared ones.
  std::vector<LoadedModel> List(std::string_view tenant) const;
  // The models of all tenants.
  std::vector<LoadedModel> ListAll() const;

 private:
  static constexpr std::string_view kEverybody = "";  // the owner of shared ones

  // Null: the tenant has none.
  const NamedModels* Of(std::string_view tenant) const;
  const LoadedModel* Find(std::string_view tenant, std::string_view name, std::optional<int64_t> version) const;
  absl::Status Fits(const std::string& tenant, const NamedModels& models, std::string_view name, int64_t charge) const;
  std::vector<LoadedModel> RemoveFrom(std::string_view tenant, std::string_view name, std::optional<int64_t> version);
  absl::Status Unknown(std::string_view tenant, std::string_view name, std::optional<int64_t> version) const;

  const Limits limits_;
  int64_t bytes_ = 0;
  std::map<std::string, NamedModels, std::less<>> owners_;  // none is empty
};

}  // namespace rnnserve
