// SPDX-License-Identifier: Apache-2.0
#include "server/models/repository_scan.h"

#include <utility>

namespace rnnserve {

bool RepositoryScan::Reads(const std::string& path, size_t stamp) {
  found_.insert(path);
  const auto [at, is_new] = versions_.try_emplace(path, Version{stamp, is_first_});
  if (is_new) return is_first_;
  if (at->second.stamp != stamp) {
    at->second = {stamp, false};
    return false;
  }
  return !std::exchange(at->second.was_read, true);
}

void RepositoryScan::End() {
  is_first_ = false;
  std::erase_if(versions_, [this](const auto& version) { return !found_.contains(version.first); });
}

}  // namespace rnnserve
