// SPDX-License-Identifier: Apache-2.0
#include "server/config/control_groups.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

namespace fs = std::filesystem;

void AddUpwards(const fs::path& root, const std::string& group, std::vector<fs::path>& folders) {
  folders.push_back(root);
  for (fs::path part = fs::path(group).relative_path(); !part.empty(); part = part.parent_path()) {
    folders.push_back(root / part);
  }
}

}  // namespace

ControlGroups GroupsOf(std::string_view controller, const std::string& groups, const fs::path& root) {
  const std::string wanted = absl::StrCat(",", std::string(controller), ",");
  ControlGroups found;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // number:controllers:path
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = absl::StrCat(",", line.substr(first + 1, second - first - 1), ",");
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      AddUpwards(root, group, found.version_2);
      AddUpwards(root / "unified", group, found.version_2);
    } else if (controllers.find(wanted) != std::string::npos) {
      AddUpwards(root / controller, group, found.version_1);
    }
  }
  return found;
}

ControlGroups OwnGroups(std::string_view controller) {
  std::ifstream file("/proc/self/cgroup");
  return GroupsOf(controller, {std::istreambuf_iterator<char>(file), {}}, "/sys/fs/cgroup");
}

}  // namespace rnnserve
