// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/wire_text.h"

#include "base/utf8.h"

namespace rnnserve {

std::string WireText(std::string_view text, size_t max_bytes) {
  constexpr std::string_view kEllipsis = "...";
  std::string safe;
  size_t cut = 0;  // where `safe` can end so that the ellipsis still fits
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    const std::string_view next = length == 0 ? std::string_view("?") : text.substr(0, length);
    if (safe.size() + next.size() > max_bytes) return safe.substr(0, cut).append(kEllipsis);
    safe.append(next);
    if (safe.size() + kEllipsis.size() <= max_bytes) cut = safe.size();
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return safe;
}

}  // namespace rnnserve
