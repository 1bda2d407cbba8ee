// SPDX-License-Identifier: Apache-2.0
// The models of this process: loaded by name, or recognised by content.
//
// Named models live until unloaded. Inline ones are kept in a cache bounded in bytes, least recently used first. A
// model is shared (tenant "": the repository's, and what operators and servers without tokens load) or belongs to the
// tenant that loaded or sent it; other tenants cannot see it. Equal content is one object, whichever tenant sends it. A
// ModelPtr keeps its model alive after unloading and eviction. Thread-safe; only LoadFromRepository, ScanRepository and
// Rescan block on files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/models/model.h"
#include "server/models/model_options.h"
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
  std::string tenant;  // the owner; "": shared
  // The uploaded file, byte for byte; null: it did not come as a file, or lies in the repository folder.
  std::shared_ptr<const std::string> file = nullptr;
  std::string warm_up = {};  // how its first step went, for the log

  int64_t file_bytes() const { return file == nullptr ? 0 : static_cast<int64_t>(file->size()); }
};

// The name, version and settings of an upload.
struct Upload {
  std::string tenant = {};  // the owner; "": shared
  std::string name;
  std::optional<int64_t> version = {};  // absent: one more than the owner's highest, or that one if it is equal
  OptionalOptions options = {};
  std::string engine = {};
};

// What a further scan of the repository folder has found.
struct RepositoryChanges {
  std::vector<LoadedModel> loaded;
  std::vector<RepositoryFailure> refused;
};

// Which models an Unload may remove: the tenant's own; where it has none of that name also a shared one (an operator);
// or the own ones only, without an error about shared ones.
enum class UnloadOf { kOwn, kOwnOrEverybodys, kOwnAlone };

class ModelStore {
 public:
  struct Options {
    std::string repository = {};  // folder, "" = none
    // Bytes of canonical weights of models that only a fingerprint names. A model that is larger alone is not kept.
    int64_t inline_cache_bytes = 1 << 30;
    // Bytes of named models: canonical weights (equal ones of an owner count once) and uploaded files; above:
    // RESOURCE_EXHAUSTED.
    int64_t named_bytes = int64_t{16} << 30;
    // Bytes of one tenant's named models; above: RESOURCE_EXHAUSTED with a quota. Shared models have no such bound.
    int64_t tenant_bytes = int64_t{16} << 30;
  };
  // Both bounds count this much for each model besides its weights, so that a flood of tiny ones is bounded too.
  static constexpr int64_t kBytesPerModel = 6144;

  explicit ModelStore(Options options);
  ~ModelStore();

  // Loads NAME/VERSION/model.onnx of the whole repository; broken files are remembered as failures, never fatal.
  // An error: the folder itself cannot be read; the text does not name it.
  absl::Status ScanRepository();
  // Scans again and reads versions that are new or have been written to, once their files are the same in two scans. A
  // loaded model stays, also where its files are gone; an unloaded one does not return by itself. The error is that of
  // ScanRepository.
  absl::StatusOr<RepositoryChanges> Rescan();
  std::vector<RepositoryFailure> Failures() const;

  // Models.Load. Equal content (operators, weights, options, engine) under the same name and version: OK; other
  // content: ALREADY_EXISTS. Field errors have the paths of LoadRequest: `name`, `inline.operator...`,
  // `inline.weights[W]...`, `stack.layers[1].weights[W]...`, `onnx_file`.
  absl::StatusOr<LoadedModel> LoadInline(Upload upload, const OperatorDef& op, std::span<const NamedTensor> weights);
  // Layers as ResolveStack takes them.
  absl::StatusOr<LoadedModel> LoadStack(Upload upload, std::span<const LayerView> layers, bool batch_first = false);
  // Bytes of the largest file that LoadFile may take.
  int64_t max_file_bytes() const;
  // An ONNX file (onnx_file/loader.h) with all data inside. The model keeps it.
  absl::StatusOr<LoadedModel> LoadFile(Upload upload, std::shared_ptr<const std::string> file);
  // NAME/VERSION/model.onnx of the repository, as a shared model. No such file: NOT_FOUND; no repository or a broken
  // file: FAILED_PRECONDITION with the path and what is wrong.
  absl::StatusOr<LoadedModel> LoadFromRepository(std::string name, int64_t version, OptionalOptions options,
                                                 std::string engine);
  // The removed models. NOT_FOUND as of Get; PERMISSION_DENIED for a shared model that `whose` does not include.
  absl::StatusOr<std::vector<LoadedModel>> Unload(std::string_view tenant, UnloadOf whose, std::string_view name,
                                                  std::optional<int64_t> version);

  // Below, `tenant` sees its own models and shared ones, the own ones first; "" sees shared ones only.

  // Without version: the highest of the tenant's own, else of the shared ones. NOT_FOUND (reason MODEL_UNKNOWN) says
  // why the repository's file was refused, or names what is loaded.
  absl::StatusOr<LoadedModel> Get(std::string_view name, std::optional<int64_t> version,
                                  std::string_view tenant = {}) const;
  // NOT_FOUND with reason FINGERPRINT_EVICTED; INVALID_ARGUMENT if it is not 64 hexadecimal digits.
  absl::StatusOr<ModelPtr> GetByFingerprint(std::string_view fingerprint, std::string_view tenant = {});
  std::vector<LoadedModel> List(std::string_view tenant = {}) const;
  // The models of all tenants.
  std::vector<LoadedModel> ListAll() const;

  // The ONNX file of a model, from which LoadFile makes the same one. `room` is asked before so many bytes are read.
  // FAILED_PRECONDITION: there is no such file.
  absl::StatusOr<std::shared_ptr<const std::string>> FileOf(const LoadedModel& loaded,
                                                            absl::FunctionRef<absl::Status(int64_t bytes)> room);

  // Called before a model that Load or Rescan has read gets its name, on any thread: runs one step of it. Its error
  // refuses the model. Not called for the first scan. Empty: none.
  using WarmUp = std::function<absl::Status(LoadedModel&)>;
  void SetWarmUp(WarmUp warm_up);

  // An inline operator: the model with equal content if there is one, else a new one, cached.
  // `inputs` may hold data tensors too.
  absl::StatusOr<ModelPtr> FindOrCreate(const OperatorDef& op, std::span<const NamedTensor> inputs,
                                        std::string_view tenant = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rnnserve
