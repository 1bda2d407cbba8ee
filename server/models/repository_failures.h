// SPDX-License-Identifier: Apache-2.0
// What lies in the repository folder and could not be loaded, with the reason. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rnnserve {

struct RepositoryFailure {
  std::string path;  // below the repository folder
  std::string reason;
};

class RepositoryFailures {
 public:
  void Set(const std::string& path, std::string reason) { reasons_[path] = std::move(reason); }
  void Clear(const std::string& path) { reasons_.erase(path); }

  // Why the version at this path failed; null: it did not.
  const std::string* Find(const std::string& path) const;
  // All failures, in the order of their paths.
  std::vector<RepositoryFailure> List() const;
  // What stands in the way of this version, or without one of the name's highest version that has failed.
  std::optional<RepositoryFailure> Of(std::string_view name, std::optional<int64_t> version) const;

 private:
  std::map<std::string, std::string, std::less<>> reasons_;  // by path
};

}  // namespace rnnserve
