// SPDX-License-Identifier: Apache-2.0
// ModelStore: models by their content, sent inline or named by their fingerprint.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "engine/op/wording.h"
#include "server/models/model_store_impl.h"

namespace rnnserve {

absl::StatusOr<ModelPtr> ModelStore::Impl::Shared(std::span<const LayerView> layers, bool batch_first,
                                                  PipelinePtr pipeline, FileNamesPtr file_names) {
  absl::StatusOr<StackSpec> stack = ResolveStack(layers, batch_first, std::move(pipeline), std::move(file_names));
  if (!stack.ok()) return stack.status();
  const std::optional<std::string> tag = tags.Of(*stack, layers);
  if (ModelPtr model = tag ? tagged.Find(*tag) : nullptr) return model;
  absl::StatusOr<ModelPtr> model = ByFingerprint(*std::move(stack), layers);
  if (!model.ok() || !tag) return model;
  return tagged.Share(*tag, *std::move(model));
}

absl::StatusOr<ModelPtr> ModelStore::Impl::ByFingerprint(StackSpec stack, std::span<const LayerView> layers) {
  const std::string fingerprint = Fingerprint(stack, layers);
  if (ModelPtr model = models.Find(fingerprint)) return model;
  absl::StatusOr<ModelPtr> model = Model::Create(std::move(stack), layers, fingerprint, &cells);
  if (!model.ok()) return model;
  return models.Share(fingerprint, *std::move(model));
}

absl::StatusOr<ModelPtr> ModelStore::GetByFingerprint(std::string_view fingerprint, std::string_view tenant) {
  const std::string hex = absl::AsciiStrToLower({fingerprint.data(), fingerprint.size()});
  if (hex.size() != 64 || !std::ranges::all_of(hex, [](unsigned char c) { return absl::ascii_isxdigit(c); })) {
    return FieldError("fingerprint", absl::StrCat("a fingerprint is 64 hexadecimal digits, as a reply gave it, but ",
                                                  Quoted(fingerprint), " came (", fingerprint.size(), " bytes)"));
  }
  const MutexLock lock(impl_->mutex);
  if (ModelPtr model = impl_->cache.Find(tenant, hex)) return model;
  if (ModelPtr model = impl_->named.FindByFingerprint(tenant, hex)) return model;
  return WithReason(absl::NotFoundError(absl::StrCat("no model with fingerprint ", hex,
                                                     " is held here (it may have been evicted); send the operator "
                                                     "with its weights again, or load it under a name")),
                    "FINGERPRINT_EVICTED");
}

absl::StatusOr<ModelPtr> ModelStore::FindOrCreate(const OperatorDef& op, std::span<const NamedTensor> inputs,
                                                  std::string_view tenant) {
  const LayerView layer = {op, inputs};
  absl::StatusOr<ModelPtr> model = impl_->Shared({&layer, 1});
  if (!model.ok()) return model;
  std::vector<ModelPtr> evicted;  // destroyed after the lock is released
  const MutexLock lock(impl_->mutex);
  if (impl_->named.FindByFingerprint(tenant, (*model)->fingerprint()) == nullptr) {
    evicted = impl_->cache.Put(tenant, *model);
  }
  return model;
}

}  // namespace rnnserve
