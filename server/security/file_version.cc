// SPDX-License-Identifier: Apache-2.0
#include "server/security/file_version.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"

namespace rnnserve {

std::string FileVersion(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return "";
  // The time of change besides that of modification: a file may become readable without being written.
  return absl::StrCat(status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec, " ", status.st_ctim.tv_sec, ".",
                      status.st_ctim.tv_nsec, " ", status.st_size, " ", status.st_ino);
}

}  // namespace rnnserve
