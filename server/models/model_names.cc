// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_names.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace rnnserve {

bool IsModelName(std::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 128 && name[0] != '.' && std::ranges::all_of(name, allowed);
}

std::optional<int64_t> ParseVersion(std::string_view text) {
  int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version < 1 || text[0] == '0') return std::nullopt;
  return version;
}

std::string Printable(std::string_view text) {
  const std::string_view start = text.substr(0, 300);
  return absl::StrCat(absl::CHexEscape(absl::string_view(start.data(), start.size())),
                      text.size() > start.size() ? "..." : "");
}

}  // namespace rnnserve
