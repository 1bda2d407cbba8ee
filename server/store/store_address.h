// SPDX-License-Identifier: Apache-2.0
// Where the session store is: the URL of --store.
//
//   redis://[user@]host[:port][/db]                    one Redis or Valkey
//   redis+sentinel://[user@]h1:p1,h2:p2/master-name    the master that Sentinels name
//   redis+cluster://[user@]h1:p1,h2:p2                 a cluster; the hosts are where discovery begins
//
// rediss://, rediss+sentinel:// and rediss+cluster:// are the same with TLS. Options follow as a query:
// ?password_file=PATH, and with TLS ca=PATH (default: the system's), cert=PATH and key=PATH (the client's own).
// A password never stands in the URL: command lines are no secret.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rnnserve {

struct StoreHost {
  std::string host;  // a name, or an IP address without brackets
  int port = 0;
  auto operator<=>(const StoreHost&) const = default;
};

// host:port, [address]:port
std::string HostText(const StoreHost& host);

struct StoreAddress {
  enum class Kind { kSingle, kSentinel, kCluster };
  Kind kind = Kind::kSingle;
  bool tls = false;
  std::vector<StoreHost> hosts = {};  // one or more
  std::string master_name = {};       // of Sentinel
  int db = 0;
  std::string user = {};           // empty: the default user
  std::string password_file = {};  // read at each connection; empty: no password
  // PEM files, read at each connection.
  std::string ca_file = {};    // empty: the system's
  std::string cert_file = {};  // empty: no certificate of the client
  std::string key_file = {};
};

// INVALID_ARGUMENT names the part of the URL and how to mend it.
absl::StatusOr<StoreAddress> ParseStoreAddress(std::string_view url);

}  // namespace rnnserve
