// SPDX-License-Identifier: Apache-2.0
// The repository folder of a ModelStore: NAME/VERSION/model.onnx.
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/field_error.h"
#include "base/mutex.h"
#include "engine/op/wording.h"
#include "onnx_file/folder.h"
#include "onnx_file/loader.h"
#include "server/models/model_names.h"
#include "server/models/model_store_impl.h"

namespace rnnserve {
namespace {

std::string FilePath(const std::string& name, const std::string& version) {
  return absl::StrCat(name, "/", version, "/model.onnx");
}

// Loads every file of the repository and gathers what failed.
class Scan {
 public:
  using Load = absl::FunctionRef<absl::Status(const Folder&, const std::string& name, int64_t version)>;
  // `load` outlives the scan.
  explicit Scan(Load load) : load_(load) {}

  absl::Status Root(const std::string& path) {
    const absl::StatusOr<Folder> root = Folder::Open(path);
    if (!root.ok()) return root.status();
    const absl::StatusOr<std::vector<std::string>> names = root->Names();
    if (!names.ok()) return names.status();
    for (const std::string& name : *names) Model(*root, name);
    return absl::OkStatus();
  }

  RepositoryFailures failures() && { return std::move(failures_); }

 private:
  void Model(const Folder& root, const std::string& name) {
    if (!IsModelName(name)) {
      return Fail(name,
                  absl::StrCat("is no model's name; rename it (", std::string(kModelNameRule), ") or move it out"));
    }
    const absl::StatusOr<Folder> folder = root.OpenFolder(name);
    if (!folder.ok() && absl::EndsWith(name, ".onnx")) {
      const absl::string_view stem = absl::StripSuffix(name, ".onnx");
      return Fail(name, absl::StrCat("lies beside the models; files lie at NAME/VERSION/model.onnx, so move it to ",
                                     stem, "/1/model.onnx, with its data files if it has any"));
    }
    if (!folder.ok()) return Fail(name, folder.status());
    int versions = 0;
    ForEach(name, *folder, [&](const std::string& version) {
      Version(*folder, name, version);
      ++versions;
    });
    if (versions == 0) Fail(name, "holds no version folder; files lie at NAME/VERSION/model.onnx");
  }

  void Version(const Folder& model, const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(name, "/", text);
    const std::optional<int64_t> version = ParseVersion(text);
    if (!version) return Fail(path, "is no version; versions are folders named 1, 2, 3 and so on");
    const absl::StatusOr<Folder> folder = model.OpenFolder(text);
    if (!folder.ok()) return Fail(path, folder.status());
    if (absl::Status loaded = load_(*folder, name, *version); !loaded.ok()) Fail(FilePath(name, text), loaded);
  }

  void ForEach(const std::string& path, const Folder& folder, absl::FunctionRef<void(const std::string&)> use) {
    const absl::StatusOr<std::vector<std::string>> names = folder.Names();
    if (!names.ok()) return Fail(path, names.status());
    for (const std::string& name : *names) use(name);
  }

  void Fail(const std::string& path, const absl::Status& status) { Fail(path, std::string(status.message())); }
  void Fail(const std::string& path, std::string reason) { failures_.Set(Printable(path), std::move(reason)); }

  const Load load_;
  RepositoryFailures failures_;
};

}  // namespace

absl::StatusOr<LoadedModel> ModelStore::Impl::AddFromFolder(const Folder& folder, std::string name, int64_t version,
                                                            OptionalOptions given, std::string engine) {
  absl::StatusOr<ModelPtr> model = FromFile([&](const OnnxLimits& limits) { return LoadOnnx(folder, limits); });
  if (!model.ok()) return model.status();
  std::string source = FilePath(name, absl::StrCat(version));
  return AddNamed({.name = std::move(name),
                   .version = version,
                   .model = *std::move(model),
                   .options = given,
                   .engine = std::move(engine),
                   .source = std::move(source),
                   .tenant = ""});
}

absl::StatusOr<Folder> ModelStore::Impl::OpenVersion(const std::string& name, int64_t version) const {
  const absl::StatusOr<Folder> root = Folder::Open(options.repository);
  if (!root.ok()) return root.status();
  const absl::StatusOr<Folder> model = root->OpenFolder(name);
  if (!model.ok()) return model.status();
  return model->OpenFolder(absl::StrCat(version));
}

absl::Status ModelStore::Impl::Refusal(const std::string& path) const {
  const MutexLock lock(mutex);
  const std::string* reason = failures.Find(path);
  return reason == nullptr ? absl::OkStatus() : absl::FailedPreconditionError(*reason);
}

absl::StatusOr<RepositoryChanges> ModelStore::Impl::Scan(RepositoryScan& by) {
  RepositoryChanges changes;
  if (options.repository.empty()) return changes;
  by.Begin();
  const auto load = [&](const Folder& folder, const std::string& name, int64_t version) {
    const std::string path = FilePath(name, absl::StrCat(version));
    if (!by.Reads(path, folder.Stamp())) return Refusal(path);
    absl::StatusOr<LoadedModel> loaded = AddFromFolder(folder, name, version, {}, "");
    if (!loaded.ok()) return loaded.status();
    changes.loaded.push_back(*std::move(loaded));
    return absl::OkStatus();
  };
  rnnserve::Scan scan(load);
  if (absl::Status read = scan.Root(options.repository); !read.ok()) return read;
  by.End();
  RepositoryFailures found = std::move(scan).failures();
  const MutexLock lock(mutex);
  for (RepositoryFailure& failure : found.List()) {
    const std::string* before = failures.Find(failure.path);
    if (before == nullptr || *before != failure.reason) changes.refused.push_back(std::move(failure));
  }
  failures = std::move(found);
  return changes;
}

absl::Status ModelStore::ScanRepository() {
  const MutexLock looking(impl_->looking);
  impl_->look = {};
  return impl_->Scan(impl_->look).status();
}

absl::StatusOr<RepositoryChanges> ModelStore::Rescan() {
  const MutexLock looking(impl_->looking);
  return impl_->Scan(impl_->look);
}

std::vector<RepositoryFailure> ModelStore::Failures() const {
  const MutexLock lock(impl_->mutex);
  return impl_->failures.List();
}

absl::StatusOr<LoadedModel> ModelStore::LoadFromRepository(std::string name, int64_t version, OptionalOptions options,
                                                           std::string engine) {
  if (absl::Status checked = CheckNameAndVersion(name, version); !checked.ok()) return checked;
  if (impl_->options.repository.empty()) {
    return absl::FailedPreconditionError(
        "the server was started without a repository folder; start it with one, or send the operator inline");
  }
  const std::string path = FilePath(name, absl::StrCat(version));
  const auto load = [&]() -> absl::StatusOr<LoadedModel> {
    const absl::StatusOr<Folder> folder = impl_->OpenVersion(name, version);
    if (!folder.ok()) return folder.status();
    return impl_->AddFromFolder(*folder, name, version, options, std::move(engine));
  };
  absl::StatusOr<LoadedModel> loaded = load();
  if (!loaded.ok()) {
    absl::Status status(loaded.status().code(), absl::StrCat(path, ": ", loaded.status().message()));
    if (!absl::IsNotFound(status)) return status;
    return WithReason(absl::NotFoundError(absl::StrCat(path, " does not exist in the repository folder (--models)")),
                      "MODEL_UNKNOWN");
  }
  const MutexLock lock(impl_->mutex);
  impl_->failures.Clear(path);
  return loaded;
}

absl::StatusOr<std::shared_ptr<const std::string>> ModelStore::FileOf(const LoadedModel& loaded,
                                                                      absl::FunctionRef<absl::Status(int64_t)> room) {
  if (loaded.file != nullptr) return loaded.file;
  if (loaded.source == "upload") {
    return absl::FailedPreconditionError(absl::StrCat("version ", loaded.version, " of model ", Quoted(loaded.name),
                                                      " came as operators with their weights, not as a file"));
  }
  const auto refused = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat(loaded.source, ": ", why, "; copy the version's folder instead, or load the file as it is now"));
  };
  const absl::StatusOr<Folder> folder = impl_->OpenVersion(loaded.name, loaded.version);
  const absl::StatusOr<File> opened =
      folder.ok() ? folder->OpenFile("model.onnx") : absl::StatusOr<File>(folder.status());
  if (!opened.ok()) return refused(opened.status().message());
  if (opened->size() > OnnxLimits().file_bytes) return refused("the file is larger than protobuf reads");
  if (absl::Status granted = room(opened->size()); !granted.ok()) return granted;
  absl::StatusOr<std::string> bytes = opened->Read(0, opened->size());
  if (!bytes.ok()) return refused(bytes.status().message());
  const absl::StatusOr<ModelPtr> model =
      impl_->FromFile([&](const OnnxLimits& limits) { return LoadOnnxBytes(*bytes, limits); });
  if (!model.ok()) return refused(model.status().message());
  if ((*model)->fingerprint() != loaded.model->fingerprint()) return refused("it has changed since it was loaded");
  return std::make_shared<const std::string>(*std::move(bytes));
}

}  // namespace rnnserve
