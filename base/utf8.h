// SPDX-License-Identifier: Apache-2.0
// Text from outside: protobuf's strings have to be UTF-8, or other languages' clients cannot read the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rnnserve {

// Bytes of the valid UTF-8 sequence that `text` starts with, 0 if there is none; `text` is not empty. Overlong forms,
// surrogates and values above U+10FFFF are not valid.
inline size_t Utf8SequenceLength(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF5 ? 0 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((static_cast<uint8_t>(text[k]) & 0xC0) != 0x80) return 0;
  }
  const auto second = static_cast<uint8_t>(text[1]);
  const bool bad = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) ||
                   (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90);
  return bad ? 0 : length;
}

inline bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace rnnserve
