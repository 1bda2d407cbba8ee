// SPDX-License-Identifier: Apache-2.0
#include "server/admin/health_probe.h"

#include <civetweb.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/admin/http_library.h"

namespace rnnserve {
namespace {

using Connection = std::unique_ptr<mg_connection, decltype(&mg_close_connection)>;

// The host to ask for what listens on `host`.
std::string ReachableHost(std::string host) {
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "0.0.0.0") return "127.0.0.1";
  return host == "::" ? "::1" : host;
}

}  // namespace

absl::Status ProbeHealth(const std::string& listen, const std::string& path, absl::Duration timeout) {
  InitHttpLibrary();
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos) return absl::UnavailableError("no admin port to ask; --admin_listen names it");
  const std::string host = ReachableHost(listen.substr(0, colon));
  const int port = std::atoi(listen.c_str() + colon + 1);
  std::array<char, 256> error = {};
  const Connection connection(mg_connect_client(host.c_str(), port, 0, error.data(), error.size()),
                              &mg_close_connection);
  if (connection == nullptr) return absl::UnavailableError(absl::StrCat("no server at ", listen, ": ", error.data()));
  mg_printf(connection.get(), "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path.c_str(), host.c_str());
  const auto timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(timeout));
  if (mg_get_response(connection.get(), error.data(), error.size(), timeout_ms) < 0) {
    return absl::UnavailableError(absl::StrCat("no answer from ", listen, path, ": ", error.data()));
  }
  const int code = mg_get_response_info(connection.get())->status_code;
  if (code == 200) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(listen, path, " answers ", code));
}

}  // namespace rnnserve
