// SPDX-License-Identifier: Apache-2.0
// How named models are found. Those by content are in model_inline.cc, loading is in model_load.cc and repository.cc.
#include "server/models/model_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/mutex.h"
#include "engine/op/wording.h"
#include "server/models/model_store_impl.h"

namespace rnnserve {

ModelStore::ModelStore(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
ModelStore::~ModelStore() = default;

absl::StatusOr<LoadedModel> ModelStore::Get(std::string_view name, std::optional<int64_t> version,
                                            std::string_view tenant) const {
  const MutexLock lock(impl_->mutex);
  absl::StatusOr<LoadedModel> loaded = impl_->named.Get(tenant, name, version);
  if (loaded.ok()) return loaded;
  const std::optional<RepositoryFailure> refused = impl_->failures.Of(name, version);
  if (!refused) return loaded;
  return WithReason(absl::NotFoundError(absl::StrCat(version ? absl::StrCat("version ", *version, " of ") : "",
                                                     "model ", Quoted(name), " is not loaded; the server refused ",
                                                     refused->path, " of its repository folder: ", refused->reason)),
                    "MODEL_UNKNOWN");
}

std::vector<LoadedModel> ModelStore::List(std::string_view tenant) const {
  const MutexLock lock(impl_->mutex);
  return impl_->named.List(tenant);
}

std::vector<LoadedModel> ModelStore::ListAll() const {
  const MutexLock lock(impl_->mutex);
  return impl_->named.ListAll();
}

}  // namespace rnnserve
