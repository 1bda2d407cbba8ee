// SPDX-License-Identifier: Apache-2.0
#include "server/models/repository_failures.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/models/model_names.h"

namespace rnnserve {
namespace {

// Of one name: calls for it may come often.
constexpr int kMostScanned = 100;

}  // namespace

const std::string* RepositoryFailures::Find(const std::string& path) const {
  const auto found = reasons_.find(path);
  return found == reasons_.end() ? nullptr : &found->second;
}

std::vector<RepositoryFailure> RepositoryFailures::List() const {
  std::vector<RepositoryFailure> list;
  for (const auto& [path, reason] : reasons_) list.push_back({path, reason});
  return list;
}

std::optional<RepositoryFailure> RepositoryFailures::Of(std::string_view name, std::optional<int64_t> version) const {
  if (reasons_.empty()) return std::nullopt;
  const std::string folder(name);
  if (const auto whole = reasons_.find(folder); whole != reasons_.end()) return {{whole->first, whole->second}};
  const std::string prefix = absl::StrCat(folder, "/");
  std::optional<RepositoryFailure> found;
  int64_t highest = 0;
  int looked_at = 0;
  for (auto at = reasons_.lower_bound(prefix); at != reasons_.end() && absl::StartsWith(at->first, prefix); ++at) {
    if (++looked_at > kMostScanned) break;
    const std::string_view rest = std::string_view(at->first).substr(prefix.size());
    const std::optional<int64_t> failed = ParseVersion(rest.substr(0, rest.find('/')));
    if (!failed || *failed < highest || (version && *failed != *version)) continue;
    highest = *failed;
    found = {at->first, at->second};
  }
  return found;
}

}  // namespace rnnserve
