// SPDX-License-Identifier: Apache-2.0
#include "server/store/store_address.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/view.h"

namespace rnnserve {
namespace {

using absl::StrCat;
using StoreKind = StoreAddress::Kind;

constexpr int kRedisPort = 6379;
constexpr int kSentinelPort = 26379;

absl::Status Refuse(std::string_view part, std::string_view fix) {
  return absl::InvalidArgumentError(StrCat("--store: ", View(part), ": ", View(fix)));
}

// %40 -> @
absl::StatusOr<std::string> Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    uint32_t byte = 0;
    if (digits.size() != 2 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos ||
        !absl::SimpleHexAtoi(View(digits), &byte)) {
      return Refuse(StrCat("the escape \"", View(text.substr(i, 3)), "\""), "write %25 for a percent sign");
    }
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

// Cuts `text` at the first `mark`: what comes before stays, what comes behind is returned.
std::string_view CutBehind(std::string_view& text, char mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return {};
  const std::string_view behind = text.substr(at + 1);
  text = text.substr(0, at);
  return behind;
}

absl::StatusOr<StoreHost> ParseHost(std::string_view text, int default_port) {
  StoreHost parsed = {.host = {}, .port = default_port};
  std::string_view port;
  bool has_port = false;
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return Refuse(StrCat("the host \"", View(text), "\""), "close its bracket");
    parsed.host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    has_port = !rest.empty();
    if (has_port && rest.front() != ':') return Refuse(StrCat("the host \"", View(text), "\""), "write [address]:port");
    if (has_port) port = rest.substr(1);
  } else {
    if (std::count(text.begin(), text.end(), ':') > 1) {
      return Refuse(StrCat("the host \"", View(text), "\""), "write an IPv6 address in brackets, as in [::1]:6379");
    }
    has_port = text.find(':') != std::string_view::npos;
    port = CutBehind(text, ':');
    parsed.host = text;
  }
  if (parsed.host.empty()) return Refuse("the host is empty", "write redis://host:port");
  if (has_port && (!absl::SimpleAtoi(View(port), &parsed.port) || parsed.port < 1 || parsed.port > 65535)) {
    return Refuse(StrCat("the port \"", View(port), "\""), "write a number from 1 to 65535");
  }
  return parsed;
}

absl::Status ParseScheme(std::string_view scheme, StoreAddress& address) {
  constexpr std::pair<std::string_view, StoreKind> kSchemes[] = {
      {"redis", StoreKind::kSingle}, {"redis+sentinel", StoreKind::kSentinel}, {"redis+cluster", StoreKind::kCluster}};
  for (const auto& [name, kind] : kSchemes) {
    address.kind = kind;
    address.tls = scheme.starts_with("rediss");
    const std::string plain = address.tls ? StrCat("redis", View(scheme.substr(6))) : std::string(scheme);
    if (plain == name) return absl::OkStatus();
  }
  return Refuse(StrCat("the scheme \"", View(scheme), "\""),
                "use redis://, redis+sentinel:// or redis+cluster://, with TLS rediss://, rediss+sentinel:// or "
                "rediss+cluster://");
}

absl::Status ParseUser(std::string_view text, StoreAddress& address) {
  if (text.find(':') != std::string_view::npos) {
    return Refuse("a password stands in the URL, where process lists show it",
                  "put it into a file and add ?password_file=PATH");
  }
  ASSIGN_OR_RETURN(address.user, Decoded(text));
  return absl::OkStatus();
}

absl::Status ParsePath(std::string_view path, StoreAddress& address) {
  switch (address.kind) {
    case StoreKind::kSingle:
      if (!path.empty() && (!absl::SimpleAtoi(View(path), &address.db) || address.db < 0)) {
        return Refuse(StrCat("the database \"", View(path), "\""), "write a number, as in redis://host:6379/0");
      }
      return absl::OkStatus();
    case StoreKind::kSentinel: {
      ASSIGN_OR_RETURN(std::string name, Decoded(path));
      if (name.empty()) {
        return Refuse("the name of the master is missing", "write redis+sentinel://h1:p1,h2:p2/master-name");
      }
      address.master_name = std::move(name);
      return absl::OkStatus();
    }
    case StoreKind::kCluster:
      break;
  }
  if (path.empty()) return absl::OkStatus();
  return Refuse(StrCat("the path \"/", View(path), "\""), "a cluster has one database: leave it out");
}

absl::Status ParseOption(std::string_view option, StoreAddress& address) {
  const std::string_view value = CutBehind(option, '=');
  const std::pair<std::string_view, std::string*> options[] = {{"password_file", &address.password_file},
                                                               {"ca", &address.ca_file},
                                                               {"cert", &address.cert_file},
                                                               {"key", &address.key_file}};
  for (const auto& [name, path] : options) {
    if (name != option) continue;
    ASSIGN_OR_RETURN(std::string decoded, Decoded(value));
    if (decoded.empty()) return Refuse(StrCat("the option ", View(option)), "write the path of a file behind its =");
    *path = std::move(decoded);
    if (option != "password_file" && !address.tls) {
      return Refuse(StrCat("the option ", View(option), " is for TLS"), "use rediss://");
    }
    return absl::OkStatus();
  }
  return Refuse(StrCat("the option \"", View(option), "\""), "use password_file, ca, cert or key");
}

}  // namespace

std::string HostText(const StoreHost& host) {
  const bool is_ipv6 = host.host.find(':') != std::string::npos;
  return is_ipv6 ? StrCat("[", host.host, "]:", host.port) : StrCat(host.host, ":", host.port);
}

absl::StatusOr<StoreAddress> ParseStoreAddress(std::string_view url) {
  StoreAddress address;
  const size_t scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) return Refuse("it is no URL", "write redis://host:port");
  RETURN_IF_ERROR(ParseScheme(url.substr(0, scheme_end), address));

  std::string_view rest = url.substr(scheme_end + 3);
  if (rest.find('#') != std::string_view::npos) return Refuse("it has a #", "write %23");
  const std::string_view query = CutBehind(rest, '?');
  const std::string_view path = CutBehind(rest, '/');
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    RETURN_IF_ERROR(ParseUser(rest.substr(0, at), address));
    rest = rest.substr(at + 1);
  }
  for (const absl::string_view text : absl::StrSplit(View(rest), ',')) {
    ASSIGN_OR_RETURN(StoreHost host, ParseHost(std::string_view(text.data(), text.size()),
                                               address.kind == StoreKind::kSentinel ? kSentinelPort : kRedisPort));
    address.hosts.push_back(std::move(host));
  }
  if (address.kind == StoreKind::kSingle && address.hosts.size() > 1) {
    return Refuse("it has several hosts", "use redis+sentinel:// or redis+cluster://, or name one host");
  }
  RETURN_IF_ERROR(ParsePath(path, address));
  for (const absl::string_view option : absl::StrSplit(View(query), '&', absl::SkipEmpty())) {
    RETURN_IF_ERROR(ParseOption(std::string_view(option.data(), option.size()), address));
  }
  if (!address.user.empty() && address.password_file.empty()) {
    return Refuse(StrCat("the user \"", address.user, "\" has no password"), "add ?password_file=PATH");
  }
  if (address.cert_file.empty() != address.key_file.empty()) {
    return Refuse("one of cert and key is missing", "give both, or neither");
  }
  return address;
}

}  // namespace rnnserve
