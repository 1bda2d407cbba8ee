// SPDX-License-Identifier: Apache-2.0
// Which versions of the repository folder a further scan reads. A version that is being written waits: the scan reads
// its files once they are the same in two scans. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

namespace rnnserve {

class RepositoryScan {
 public:
  // Begins a scan. The first one reads all versions.
  void Begin() { found_.clear(); }
  // Whether the version at this path, whose files look like `stamp`, is to be read now.
  bool Reads(const std::string& path, size_t stamp);
  // Ends it. A version that was removed counts as new when it returns.
  void End();

 private:
  struct Version {
    size_t stamp;
    bool was_read;
  };
  bool is_first_ = true;
  std::map<std::string, Version> versions_;  // by path
  std::set<std::string> found_;              // in this scan
};

}  // namespace rnnserve
