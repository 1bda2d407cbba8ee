// SPDX-License-Identifier: Apache-2.0
#include "server/config/descriptor_limit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/config/flags.h"

namespace rnnserve {
namespace {

constexpr int64_t kDefaultMostConnections = 10'000;

}  // namespace

void FillStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDWR);  // takes the lowest number that is free: this one
  }
}

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t MostConnections() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto descriptors = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int32_t>::max()));
  return std::max<int64_t>(descriptors - kOtherDescriptors, 1);
}

int MaxConnections() {
  const int asked = absl::GetFlag(FLAGS_max_connections);
  return asked > 0 ? asked : static_cast<int>(std::min(MostConnections(), kDefaultMostConnections));
}

void ShowConnections(Settings& settings) {
  if (absl::GetFlag(FLAGS_max_connections) != 0) return;
  const bool is_bounded = MostConnections() < kDefaultMostConnections;
  settings.SetMeaning("max_connections", is_bounded ? absl::StrCat(MaxConnections(), ", ", kOtherDescriptors,
                                                                   " below the limit of file descriptors")
                                                    : absl::StrCat(MaxConnections()));
}

}  // namespace rnnserve
