// SPDX-License-Identifier: Apache-2.0
// What the parts of ModelStore share.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "onnx_file/folder.h"
#include "onnx_file/loader.h"
#include "server/models/content_tag.h"
#include "server/models/inline_cache.h"
#include "server/models/model_store.h"
#include "server/models/owned_models.h"
#include "server/models/repository_scan.h"

namespace rnnserve {

// Checks the name and version of a LoadRequest.
absl::Status CheckNameAndVersion(std::string_view name, std::optional<int64_t> version);

struct ModelStore::Impl {
  explicit Impl(Options given)
      : options(std::move(given)),
        cache(options.inline_cache_bytes, kBytesPerModel),
        named({options.named_bytes, options.tenant_bytes, kBytesPerModel}) {}

  // The model of this content, which the returned pointer keeps alive; hashes and builds without the mutex.
  absl::StatusOr<ModelPtr> Shared(std::span<const LayerView> layers, bool batch_first = false,
                                  PipelinePtr pipeline = nullptr, FileNamesPtr file_names = nullptr);
  absl::StatusOr<ModelPtr> ByFingerprint(StackSpec stack, std::span<const LayerView> layers);
  // Warms it up first.
  absl::StatusOr<LoadedModel> AddNamed(LoadedModel loaded);
  absl::StatusOr<LoadedModel> AddUpload(Upload upload, ModelPtr model,
                                        std::shared_ptr<const std::string> file = nullptr);
  // The model of an ONNX file. RESOURCE_EXHAUSTED, or FAILED_PRECONDITION with what is wrong with the file.
  absl::StatusOr<ModelPtr> FromFile(absl::FunctionRef<absl::StatusOr<OnnxStack>(const OnnxLimits&)> load);
  // model.onnx of a version's folder. The text of an error does not name the path.
  absl::StatusOr<LoadedModel> AddFromFolder(const Folder& folder, std::string name, int64_t version,
                                            OptionalOptions given, std::string engine);
  // Reads what `look` says; failures of the files that it skips stay recorded.
  absl::StatusOr<RepositoryChanges> Scan(RepositoryScan& look) ABSL_EXCLUSIVE_LOCKS_REQUIRED(looking);
  // The folder of a version of the repository.
  absl::StatusOr<Folder> OpenVersion(const std::string& name, int64_t version) const;
  // Why the file at this path was refused, if it was.
  absl::Status Refusal(const std::string& path) const;

  const Options options;
  CellTable cells;
  WeakTable<const Model> models;  // by fingerprint: all that are in use, evicted or not
  ContentTag tags;
  WeakTable<const Model> tagged;  // the same by content tag

  Mutex looking;  // held while files are read
  RepositoryScan look ABSL_GUARDED_BY(looking);

  mutable Mutex mutex;
  InlineCache cache ABSL_GUARDED_BY(mutex);
  OwnedModels named ABSL_GUARDED_BY(mutex);
  RepositoryFailures failures ABSL_GUARDED_BY(mutex);
  WarmUp warm_up ABSL_GUARDED_BY(mutex);
};

}  // namespace rnnserve
