// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/wire_text.h"

#include <cstdint>

namespace rnnserve {
namespace {

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Bytes of the valid UTF-8 sequence that `text` starts with, 0 if there is none. Overlong forms, surrogates and values
// above U+10FFFF are not valid.
size_t SequenceLength(std::string_view text) {
  const uint8_t lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF5 ? 0 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t k = 1; k < length; ++k) {
    if (!IsContinuation(text[k])) return 0;
  }
  const uint8_t second = static_cast<uint8_t>(text[1]);
  const bool bad = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) ||
                   (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90);
  return bad ? 0 : length;
}

}  // namespace

std::string WireText(std::string_view text, size_t max_bytes) {
  constexpr std::string_view kEllipsis = "...";
  std::string safe;
  size_t cut = 0;  // where `safe` can end so that the ellipsis still fits
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const std::string_view next = length == 0 ? std::string_view("?") : text.substr(0, length);
    if (safe.size() + next.size() > max_bytes) return safe.substr(0, cut).append(kEllipsis);
    safe.append(next);
    if (safe.size() + kEllipsis.size() <= max_bytes) cut = safe.size();
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return safe;
}

}  // namespace rnnserve
