// SPDX-License-Identifier: Apache-2.0
// The models of this process: loaded by name, or recognised by content.
//
// Named models live until unloaded. Inline ones are kept in a cache bounded in bytes, least recently used first.
// Whoever holds a ModelPtr keeps it, whatever happens here. Thread-safe; no call blocks on files but
// LoadFromRepository.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/models/model.h"
#include "server/models/repository_failures.h"

namespace rnnserve {

// A model under a name.
struct LoadedModel {
  std::string name;
  int64_t version = 1;
  ModelPtr model;
  OptionalOptions options;
  std::string engine;  // of calls that name none; "": the server's default
  std::string source;  // "upload" or a path below the repository folder
};

class ModelStore {
 public:
  struct Options {
    std::string repository = {};  // folder, "" = none
    // Of canonical weights of models that only a fingerprint names. A model that is larger alone is not kept.
    int64_t inline_cache_bytes = 1 << 30;
    // Of canonical weights of named models (equal ones count once); above: RESOURCE_EXHAUSTED.
    int64_t named_bytes = int64_t{16} << 30;
  };
  // Both bounds count this much for each model besides its weights, so that a flood of tiny ones is bounded too.
  static constexpr int64_t kBytesPerModel = 4096;

  explicit ModelStore(Options options);
  ~ModelStore();

  // Loads NAME/VERSION/model.onnx of the whole repository; broken files are remembered as failures, never fatal.
  // An error: the folder itself cannot be read; the text does not name it.
  absl::Status ScanRepository();
  std::vector<RepositoryFailure> Failures() const;

  // Models.Load. Equal content (operator, weights, options, engine) under the same name and version: OK; other content:
  // ALREADY_EXISTS. Field errors have the paths of LoadRequest: `name`, `inline.operator...`, `inline.weights[W]...`.
  absl::StatusOr<LoadedModel> LoadInline(std::string name, int64_t version, const OperatorDef& op,
                                         std::span<const NamedTensor> weights, OptionalOptions options,
                                         std::string engine);
  // Several layers, as ResolveStack takes them. Errors of a layer have no field.
  absl::StatusOr<LoadedModel> LoadStack(std::string name, int64_t version, std::span<const LayerView> layers,
                                        bool batch_first = false);
  // NAME/VERSION/model.onnx of the repository. No such file: NOT_FOUND; no repository or a broken file:
  // FAILED_PRECONDITION with the path and what is wrong.
  absl::StatusOr<LoadedModel> LoadFromRepository(std::string name, int64_t version, OptionalOptions options,
                                                 std::string engine);
  // What has been removed.
  absl::StatusOr<std::vector<LoadedModel>> Unload(std::string_view name, std::optional<int64_t> version);

  // Without version: the highest. NOT_FOUND (reason MODEL_UNKNOWN) says why the repository's file was refused, or names
  // what is loaded.
  absl::StatusOr<LoadedModel> Get(std::string_view name, std::optional<int64_t> version) const;
  // NOT_FOUND with reason FINGERPRINT_EVICTED; INVALID_ARGUMENT if it is not 64 hexadecimal digits.
  absl::StatusOr<ModelPtr> GetByFingerprint(std::string_view fingerprint);
  std::vector<LoadedModel> List() const;

  // An inline operator: the model with equal content if there is one, else a new one, cached.
  // `inputs` may hold data tensors too.
  absl::StatusOr<ModelPtr> FindOrCreate(const OperatorDef& op, std::span<const NamedTensor> inputs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rnnserve
