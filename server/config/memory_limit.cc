// SPDX-License-Identifier: Apache-2.0
#include "server/config/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include "absl/flags/reflection.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/config/flags.h"

namespace rnnserve {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
// Control groups 1 say so, in pages, where there is no limit.
constexpr int64_t kAsGoodAsNone = int64_t{1} << 60;

struct ShareOfMemory {
  std::string_view flag;
  int64_t sixteenths;
};
// Together more than there is: few servers hold as much as they may of every kind, and MemoryWatch bounds the sum.
constexpr std::array<ShareOfMemory, 4> kShares = {
    {{"max_bytes_in_flight", 4}, {"packed_weight_bytes", 6}, {"model_weight_bytes", 6}, {"session_bytes", 8}}};

// 0: unknown.
int64_t MachinesMemory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? pages * sysconf(_SC_PAGESIZE) : 0;
}

int64_t ReadLimit(const std::filesystem::path& file) {
  std::string word;
  int64_t bytes = 0;
  if (!(std::ifstream(file) >> word) || !absl::SimpleAtoi(word, &bytes) || bytes >= kAsGoodAsNone) return kNone;
  return bytes;
}

}  // namespace

int64_t MemoryLimitOf(const ControlGroups& groups) {
  int64_t least = kNone;
  for (const auto& group : groups.version_1) least = std::min(least, ReadLimit(group / "memory.limit_in_bytes"));
  for (const auto& group : groups.version_2) least = std::min(least, ReadLimit(group / "memory.max"));
  return least == kNone ? 0 : least;
}

int64_t LeastMemory(int64_t container, int64_t machine) {
  if (container <= 0 || machine <= 0) return std::max(container, machine);
  return std::min(container, machine);
}

int64_t MemoryLimit() {
  const int64_t asked = absl::GetFlag(FLAGS_memory_limit);
  return asked > 0 ? asked : LeastMemory(MemoryLimitOf(OwnGroups("memory")), MachinesMemory());
}

void FitToMemory(int64_t limit, Settings& settings) {
  if (limit <= 0) return;
  if (absl::GetFlag(FLAGS_memory_limit) == 0) {
    settings.SetOrigin("memory_limit", absl::StrCat("default; the container's or the machine's, ", limit, " bytes"));
  }
  for (const ShareOfMemory& share : kShares) {
    const std::string name(share.flag);
    if (settings.OriginOf(name) != "default") continue;
    absl::CommandLineFlag& flag = *absl::FindCommandLineFlag(name);
    const int64_t most = std::max<int64_t>(limit / 16 * share.sixteenths, 1);
    if (flag.TryGet<int64_t>().value_or(0) <= most) continue;
    std::string why;
    flag.ParseFrom(absl::StrCat(most), &why);
    settings.SetOrigin(name, absl::StrCat(share.sixteenths, "/16 of the memory limit"));
  }
}

}  // namespace rnnserve
