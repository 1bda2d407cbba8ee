// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/transfer.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace rnnserve::rnnctl {

std::string TransferText(const std::string& verb, int64_t bytes, int64_t of, std::chrono::nanoseconds time) {
  constexpr double kMib = 1 << 20;
  const double mib = static_cast<double>(bytes) / kMib, all = static_cast<double>(of) / kMib;
  const double seconds = std::max(std::chrono::duration<double>(time).count(), 1e-3);
  return absl::StrFormat("%s %.1f of %.1f MiB, %.0f %%, %.1f MiB/s", verb, mib, all, of == 0 ? 100 : 100 * mib / all,
                         mib / seconds);
}

void Transfer::Show(int64_t bytes, int64_t of) {
  const Clock::time_point now = Clock::now();
  if (bytes < of && now - shown_ < std::chrono::milliseconds(100)) return;
  shown_ = now;
  line_.Show(TransferText(verb_, bytes, of, now - began_));
}

}  // namespace rnnserve::rnnctl
