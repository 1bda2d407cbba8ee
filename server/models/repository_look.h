// SPDX-License-Identifier: Apache-2.0
// Which versions of the repository folder are read when it is looked at again. A version that is being written is left
// alone: its files are read once they are the same in two looks. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

namespace rnnserve {

class RepositoryLook {
 public:
  // Begins a look. The first one reads all there is.
  void Begin() { found_.clear(); }
  // Whether the version at this path, whose files look like `stamp`, is to be read now.
  bool Reads(const std::string& path, size_t stamp);
  // Ends it. A version that has gone is as new when it comes back.
  void End();

 private:
  struct Version {
    size_t stamp;
    bool was_read;
  };
  bool is_first_ = true;
  std::map<std::string, Version> versions_;  // by path
  std::set<std::string> found_;              // in this look
};

}  // namespace rnnserve
