// SPDX-License-Identifier: Apache-2.0
// The addresses behind the names of servers. Inside the library only.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace rnnserve::client {

// While calls are made, names are looked up again so often.
inline constexpr std::chrono::milliseconds kLookTime{30'000};
// And so soon after a failure.
inline constexpr std::chrono::milliseconds kLookAgainTime{1'000};

// Several in one text are separated by commas; each once.
std::vector<std::string> SplitAddresses(const std::vector<std::string>& texts);

// Of a target whose host is a name that may have several addresses.
std::optional<std::pair<std::string, std::string>> HostAndPort(const std::string& target);

// The IPv4 addresses of a host, else its IPv6 ones, sorted: a host with both kinds is one server. Empty: it is not
// known.
using Resolve = std::function<std::vector<std::string>(const std::string& host, const std::string& port)>;
std::vector<std::string> ResolveHost(const std::string& host, const std::string& port);

// From any thread. What targets lead to. A name with one address stays a name: gRPC looks it up by itself.
class Lookup {
 public:
  explicit Lookup(std::vector<std::string> targets, Resolve resolve = ResolveHost);

  bool has_names() const { return has_names_; }
  // Asks for each name; one thread at a time. Where one is not known any more, its addresses stay.
  std::vector<std::string> Look();
  // The HOST:PORT by which certificates and proxies know an address that was looked up; "": by the address itself.
  std::string NameOf(const std::string& address) const;

 private:
  const std::vector<std::string> targets_;
  const Resolve resolve_;
  const bool has_names_;
  mutable Mutex mutex_;
  std::map<std::string, std::vector<std::string>> found_ ABSL_GUARDED_BY(mutex_);  // by target
  std::map<std::string, std::string> names_ ABSL_GUARDED_BY(mutex_);               // by address
};

}  // namespace rnnserve::client
