// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rnnserve::client {
namespace {

// More have been looked up in the meantime than any list has: those of long ago are forgotten.
constexpr size_t kMaxNames = 4096;

bool IsNumeric(const std::string& host) {
  unsigned char address[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), address) == 1;
}

}  // namespace

std::vector<std::string> SplitAddresses(const std::vector<std::string>& texts) {
  std::vector<std::string> addresses;
  for (const std::string& text : texts) {
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      std::string address(absl::StripAsciiWhitespace(part));
      if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
        addresses.push_back(std::move(address));
      }
    }
  }
  return addresses;
}

std::optional<std::pair<std::string, std::string>> HostAndPort(const std::string& target) {
  absl::string_view place = target;
  if (!absl::ConsumePrefix(&place, "dns:///")) absl::ConsumePrefix(&place, "dns:");
  const size_t colon = place.rfind(':');
  if (colon == absl::string_view::npos) return std::nullopt;
  std::string host(place.substr(0, colon)), port(place.substr(colon + 1));
  const bool is_port = !port.empty() && std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (!is_port || host.empty() || host.find_first_of(":/") != std::string::npos || host == "localhost" ||
      IsNumeric(host)) {
    return std::nullopt;
  }
  return std::pair(std::move(host), std::move(port));
}

std::vector<std::string> ResolveHost(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &raw) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> infos(raw, &freeaddrinfo);
  std::set<std::string> found[2];
  for (const addrinfo* info = infos.get(); info != nullptr; info = info->ai_next) {
    char text[INET6_ADDRSTRLEN] = "";
    if (getnameinfo(info->ai_addr, info->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    found[info->ai_family == AF_INET ? 0 : 1].insert(text);
  }
  const std::set<std::string>& chosen = found[found[0].empty() ? 1 : 0];
  return {chosen.begin(), chosen.end()};
}

Lookup::Lookup(std::vector<std::string> targets, Resolve resolve)
    : targets_(std::move(targets)),
      resolve_(std::move(resolve)),
      has_names_(std::any_of(targets_.begin(), targets_.end(),
                             [](const std::string& target) { return HostAndPort(target).has_value(); })) {}

std::vector<std::string> Lookup::Look() {
  std::map<std::string, std::vector<std::string>> found;
  for (const std::string& target : targets_) {
    if (const auto place = HostAndPort(target)) found[target] = resolve_(place->first, place->second);
  }
  std::vector<std::string> addresses;
  MutexLock lock(mutex_);
  if (names_.size() > kMaxNames) names_.clear();
  for (auto& [target, ips] : found) {
    if (!ips.empty()) found_[target] = std::move(ips);
  }
  for (const std::string& target : targets_) {
    const auto known = found_.find(target);
    if (known == found_.end() || known->second.size() < 2) {
      addresses.push_back(target);
      continue;
    }
    const auto [host, port] = *HostAndPort(target);
    for (const std::string& ip : known->second) {
      const bool is_ipv6 = ip.find(':') != std::string::npos;
      std::string address = absl::StrCat(is_ipv6 ? "[" : "", ip, is_ipv6 ? "]:" : ":", port);
      names_[address] = absl::StrCat(host, ":", port);
      addresses.push_back(std::move(address));
    }
  }
  return addresses;
}

std::string Lookup::NameOf(const std::string& address) const {
  MutexLock lock(mutex_);
  const auto found = names_.find(address);
  return found == names_.end() ? "" : found->second;
}

}  // namespace rnnserve::client
