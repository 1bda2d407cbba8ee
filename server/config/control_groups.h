// SPDX-License-Identifier: Apache-2.0
// Where the limits of the process's control group stand: of its own and of those around it, each of which holds.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rnnserve {

struct ControlGroups {
  // Folders, which need not exist: in a container the path of a group may be that of the host.
  std::vector<std::filesystem::path> version_1;
  std::vector<std::filesystem::path> version_2;
};

// Those that rule over `controller`, such as "memory". `groups`: the text of /proc/self/cgroup; `root`: where control
// groups are mounted.
ControlGroups GroupsOf(std::string_view controller, const std::string& groups, const std::filesystem::path& root);

// The control groups of this process.
ControlGroups OwnGroups(std::string_view controller);

}  // namespace rnnserve
