// SPDX-License-Identifier: Apache-2.0
#include "server/admin/health_probe.h"

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/admin/http_socket.h"

namespace rnnserve {

absl::Status ProbeHealth(const std::string& listen, const std::string& path, absl::Duration timeout) {
  if (listen.empty()) return absl::UnavailableError("no admin port to ask; --admin_listen names it");
  absl::StatusOr<HttpSocket> server = HttpSocket::Connect(listen, timeout);
  if (!server.ok())
    return absl::UnavailableError(absl::StrCat("no server at ", listen, ": ", server.status().message()));
  server->Write(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", listen, "\r\nConnection: close\r\n\r\n"));
  const HttpSocket::Head head = server->ReadHead();
  if (!head.is_whole) return absl::UnavailableError(absl::StrCat("no answer from ", listen, path));
  if (absl::StartsWith(head.text, "HTTP/1.1 200 ")) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(listen, path, " answers ", head.text.substr(0, head.text.find('\r'))));
}

}  // namespace rnnserve
