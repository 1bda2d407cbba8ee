// SPDX-License-Identifier: Apache-2.0
#include "server/admin/http_request.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "absl/strings/match.h"

namespace rnnserve {
namespace {

constexpr std::string_view kScheme = "http://";

// "" for what is no path. %00 is a byte like any other.
std::string Decoded(std::string_view path) {
  std::string decoded;
  while (!path.empty()) {
    if (path[0] != '%') {
      decoded += path[0];
      path.remove_prefix(1);
      continue;
    }
    uint8_t byte = 0;
    if (path.size() < 3) return "";
    const auto [end, error] = std::from_chars(path.data() + 1, path.data() + 3, byte, 16);
    if (error != std::errc() || end != path.data() + 3) return "";
    decoded += static_cast<char>(byte);
    path.remove_prefix(3);
  }
  return decoded;
}

bool HasOrigin(std::string_view target) {
  return absl::StartsWithIgnoreCase({target.data(), target.size()}, {kScheme.data(), kScheme.size()});
}

}  // namespace

std::optional<HttpRequest> ParseRequestLine(std::string_view line) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == 0 || first == std::string_view::npos || last == first) return std::nullopt;
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return std::nullopt;
  std::string_view target = line.substr(first + 1, last - first - 1);
  if (target.empty() || target.find(' ') != std::string_view::npos) return std::nullopt;
  const bool has_origin = HasOrigin(target);
  if (has_origin) {
    target.remove_prefix(kScheme.size());
    const size_t host = std::min(target.find_first_of("/?"), target.size());
    if (host == 0) return std::nullopt;
    target.remove_prefix(host);
  }
  std::string_view path = target.substr(0, target.find('?'));
  if (path.empty() && has_origin) path = "/";
  return HttpRequest{std::string(line.substr(0, first)), path.starts_with('/') ? Decoded(path) : ""};
}

}  // namespace rnnserve
