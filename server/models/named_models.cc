// SPDX-License-Identifier: Apache-2.0
#include "server/models/named_models.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/op/field_error.h"
#include "engine/op/wording.h"
#include "server/telemetry/rejection.h"

namespace rnnserve {
namespace {

constexpr size_t kNamesInText = 10;

bool SameOptions(const OptionalOptions& a, const OptionalOptions& b) {
  return a.clip_cell_input == b.clip_cell_input && a.empty_row_state == b.empty_row_state &&
         a.deterministic == b.deterministic && a.allow_reduced_precision == b.allow_reduced_precision;
}

// What differs between the two, or "".
std::string Difference(const LoadedModel& have, const LoadedModel& come) {
  if (have.model->fingerprint() != come.model->fingerprint()) {
    return absl::StrCat("another operator or other weights (fingerprint ", have.model->fingerprint(), ", now came ",
                        come.model->fingerprint(), ")");
  }
  if (!SameOptions(have.options, come.options)) return "the same operator and weights, but other options";
  if (have.engine != come.engine) {
    return absl::StrCat("the same operator and weights, but engine ", Quoted(have.engine), " (now came ",
                        Quoted(come.engine), ")");
  }
  return "";
}

// The first keys of a map: "a, b, c and 4 more".
template <typename Map>
std::string Keys(const Map& map) {
  std::string text;
  size_t listed = 0;
  for (const auto& [key, value] : map) {
    if (listed == kNamesInText) {
      absl::StrAppend(&text, " and ", map.size() - listed, " more");
      break;
    }
    absl::StrAppend(&text, listed++ == 0 ? "" : ", ", key);
  }
  return text;
}

}  // namespace

absl::StatusOr<LoadedModel> NamedModels::Add(LoadedModel loaded) {
  const auto name = models_.find(loaded.name);
  if (name != models_.end()) {
    const auto version = name->second.find(loaded.version);
    if (version != name->second.end()) {
      const std::string difference = Difference(version->second, loaded);
      if (difference.empty()) return version->second;
      return absl::AlreadyExistsError(absl::StrCat(
          "version ", loaded.version, " of model ", Quoted(loaded.name), " is loaded with ", difference,
          "; unload it first, or load this one as a version that is free (next: ",
          name->second.rbegin()->first == INT64_MAX ? "none above" : absl::StrCat(name->second.rbegin()->first + 1),
          ")"));
    }
  }
  const auto content = contents_.find(loaded.model->fingerprint());
  const int64_t charge = bytes_per_model_ + (content == contents_.end() ? loaded.model->weight_bytes() : 0);
  if (charge > max_bytes_ - bytes_) {
    return Overloaded(
        Rejection::kMemory,
        absl::StrCat("model ", Quoted(loaded.name), " takes ", charge, " bytes, but named models hold ", bytes_, " of ",
                     max_bytes_, " bytes; unload models that are not needed, or raise --model_weight_bytes"));
  }
  bytes_ += charge;
  Content& entry = contents_[loaded.model->fingerprint()];
  if (entry.names++ == 0) entry.model = loaded.model;
  models_[loaded.name].emplace(loaded.version, loaded);
  return loaded;
}

void NamedModels::Forget(const LoadedModel& loaded) {
  bytes_ -= bytes_per_model_;
  const auto content = contents_.find(loaded.model->fingerprint());
  if (--content->second.names > 0) return;
  bytes_ -= loaded.model->weight_bytes();
  contents_.erase(content);
}

absl::StatusOr<std::vector<LoadedModel>> NamedModels::Remove(std::string_view name, std::optional<int64_t> version) {
  const auto found = models_.find(name);
  if (found == models_.end() || (version && !found->second.contains(*version))) return Unknown(name, version);
  std::vector<LoadedModel> removed;
  for (auto at = found->second.begin(); at != found->second.end();) {
    if (version && at->first != *version) {
      ++at;
      continue;
    }
    Forget(at->second);
    removed.push_back(std::move(at->second));
    at = found->second.erase(at);
  }
  if (found->second.empty()) models_.erase(found);
  return removed;
}

absl::StatusOr<LoadedModel> NamedModels::Get(std::string_view name, std::optional<int64_t> version) const {
  const auto found = models_.find(name);
  if (found == models_.end() || (version && !found->second.contains(*version))) return Unknown(name, version);
  return version ? found->second.at(*version) : found->second.rbegin()->second;
}

ModelPtr NamedModels::FindByFingerprint(const std::string& fingerprint) const {
  const auto found = contents_.find(fingerprint);
  return found == contents_.end() ? nullptr : found->second.model;
}

std::vector<LoadedModel> NamedModels::List() const {
  std::vector<LoadedModel> list;
  for (const auto& [name, versions] : models_) {
    for (const auto& [version, loaded] : versions) list.push_back(loaded);
  }
  return list;
}

absl::Status NamedModels::Unknown(std::string_view name, std::optional<int64_t> version) const {
  const auto found = models_.find(name);
  std::string text;
  if (found != models_.end()) {
    text = absl::StrCat("model ", Quoted(name), " has no version ", version.value_or(0),
                        "; loaded versions: ", Keys(found->second));
  } else if (models_.empty()) {
    text = absl::StrCat("model ", Quoted(name), " is not loaded; no model is (load one with Models.Load)");
  } else {
    text = absl::StrCat("model ", Quoted(name), " is not loaded; loaded models: ", Keys(models_));
  }
  return WithReason(absl::NotFoundError(text), "MODEL_UNKNOWN");
}

}  // namespace rnnserve
