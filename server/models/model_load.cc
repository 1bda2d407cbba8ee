// SPDX-License-Identifier: Apache-2.0
// ModelStore: models that are loaded under a name. Those of the repository folder are in repository.cc.
#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/view.h"
#include "engine/op/wording.h"
#include "server/models/model_names.h"
#include "server/models/model_store_impl.h"

namespace rnnserve {
namespace {

// ResolveStack speaks of an Infer request; here the same things lie in LoadRequest.inline or .stack.
absl::Status InLoadRequest(const absl::Status& status, std::string_view source) {
  const std::optional<std::string> field = FieldOf(status);
  if (!field) return status;
  const absl::string_view path = *field;
  const size_t inputs = path.find("inputs");
  if (inputs != 0 && !(inputs != path.npos && path[inputs - 1] == '.')) {
    return WithField(status, absl::StrCat(View(source), ".", path));
  }
  return WithField(status, absl::StrCat(View(source), ".", path.substr(0, inputs), "weights", path.substr(inputs + 6)));
}

absl::Status CheckWeightsOnly(std::span<const NamedTensor> weights) {
  for (const NamedTensor& tensor : weights) {
    if (IsWeightName(tensor.name)) continue;
    return FieldError(
        absl::StrCat("inputs[", Shortened(tensor.name), "]"),
        absl::StrCat("a model is loaded with its weights only (W and R, and B and P where it has them), but ",
                     Quoted(tensor.name), " came; send it with Infer instead"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNameAndVersion(std::string_view name, std::optional<int64_t> version) {
  if (!IsModelName(name)) {
    return FieldError("name", absl::StrCat("a model's name is ", std::string(kModelNameRule), ", but ", Quoted(name),
                                           " came (", name.size(), " bytes)"));
  }
  if (version && *version < 1) {
    return FieldError("version", absl::StrCat("a version is at least 1, but ", *version, " came"));
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedModel> ModelStore::Impl::AddNamed(LoadedModel loaded) {
  WarmUp warm;
  {
    const MutexLock lock(mutex);
    warm = warm_up;
  }
  if (warm) {
    if (absl::Status runs = warm(loaded); !runs.ok()) return runs;
  }
  const MutexLock lock(mutex);
  return named.Add(std::move(loaded));
}

absl::StatusOr<LoadedModel> ModelStore::Impl::AddUpload(Upload upload, ModelPtr model,
                                                        std::shared_ptr<const std::string> file) {
  return AddNamed({.name = std::move(upload.name),
                   .version = upload.version.value_or(NamedModels::kNextVersion),
                   .model = std::move(model),
                   .options = upload.options,
                   .engine = std::move(upload.engine),
                   .source = "upload",
                   .tenant = std::move(upload.tenant),
                   .file = std::move(file)});
}

absl::StatusOr<ModelPtr> ModelStore::Impl::FromFile(
    absl::FunctionRef<absl::StatusOr<OnnxStack>(const OnnxLimits&)> load) {
  try {
    const absl::StatusOr<OnnxStack> file = load({.tensor_bytes = options.named_bytes});
    if (!file.ok()) return file.status();
    std::vector<LayerView> layers;
    for (const OnnxOperator& layer : file->layers) layers.push_back({layer.op, layer.weights, layer.label});
    absl::StatusOr<ModelPtr> model = Shared(layers, file->batch_first, file->pipeline, file->file_names);
    if (!model.ok()) return absl::FailedPreconditionError(model.status().message());
    return model;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory left to read it");
  }
}

absl::StatusOr<LoadedModel> ModelStore::LoadInline(Upload upload, const OperatorDef& op,
                                                   std::span<const NamedTensor> weights) {
  if (absl::Status checked = CheckNameAndVersion(upload.name, upload.version); !checked.ok()) return checked;
  if (absl::Status checked = CheckWeightsOnly(weights); !checked.ok()) return InLoadRequest(checked, "inline");
  const LayerView layer = {op, weights};
  absl::StatusOr<ModelPtr> model = impl_->Shared({&layer, 1});
  if (!model.ok()) return InLoadRequest(model.status(), "inline");
  return impl_->AddUpload(std::move(upload), *std::move(model));
}

absl::StatusOr<LoadedModel> ModelStore::LoadStack(Upload upload, std::span<const LayerView> layers, bool batch_first) {
  if (absl::Status checked = CheckNameAndVersion(upload.name, upload.version); !checked.ok()) return checked;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (absl::Status checked = CheckWeightsOnly(layers[layer].tensors); !checked.ok()) {
      return InLoadRequest(WithFieldPrefix(checked, absl::StrCat("layers[", layer, "].")), "stack");
    }
  }
  absl::StatusOr<ModelPtr> model = impl_->Shared(layers, batch_first);
  if (!model.ok()) {
    return InLoadRequest(layers.size() == 1 ? WithFieldPrefix(model.status(), "layers[0].") : model.status(), "stack");
  }
  return impl_->AddUpload(std::move(upload), *std::move(model));
}

int64_t ModelStore::max_file_bytes() const { return std::min(OnnxLimits().file_bytes, impl_->options.named_bytes); }

void ModelStore::SetWarmUp(WarmUp warm_up) {
  const MutexLock lock(impl_->mutex);
  impl_->warm_up = std::move(warm_up);
}

absl::StatusOr<LoadedModel> ModelStore::LoadFile(Upload upload, std::shared_ptr<const std::string> file) {
  if (absl::Status checked = CheckNameAndVersion(upload.name, upload.version); !checked.ok()) return checked;
  absl::StatusOr<ModelPtr> model =
      impl_->FromFile([&](const OnnxLimits& limits) { return LoadOnnxBytes(*file, limits); });
  if (!model.ok()) {
    if (!absl::IsFailedPrecondition(model.status())) return model.status();
    return FieldError("onnx_file", absl::StrCat("the file: ", model.status().message()));
  }
  return impl_->AddUpload(std::move(upload), *std::move(model), std::move(file));
}

absl::StatusOr<std::vector<LoadedModel>> ModelStore::Unload(std::string_view tenant, UnloadOf whose,
                                                            std::string_view name, std::optional<int64_t> version) {
  const MutexLock lock(impl_->mutex);
  return impl_->named.Remove(tenant, whose, name, version);
}

}  // namespace rnnserve
