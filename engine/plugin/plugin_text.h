// SPDX-License-Identifier: Apache-2.0
// Texts that come from a plugin: they may lack their end, and hold anything.
#pragma once

#include <cstddef>
#include <string>

namespace rnnserve::plugin {

// At most `size` characters of `text`, up to its end if it has one; ASCII and one line, so that logs and gRPC take it.
inline std::string Printable(const char* text, size_t size) {
  std::string printable;
  for (size_t k = 0; k < size && text[k] != '\0'; ++k) {
    const char c = text[k];
    const bool is_space = c == '\n' || c == '\r' || c == '\t';
    printable.push_back(c >= ' ' && c <= '~' ? c : is_space ? ' ' : '?');
  }
  return printable;
}

// A buffer for one call's error text.
class ErrorText {
 public:
  char* data() { return buffer_; }
  size_t size() const { return sizeof buffer_; }
  std::string text() const {
    std::string text = Printable(buffer_, sizeof buffer_);
    return text.empty() ? "no reason given" : text;
  }

 private:
  char buffer_[512] = {};
};

}  // namespace rnnserve::plugin
