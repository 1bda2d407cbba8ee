// SPDX-License-Identifier: Apache-2.0
// Where the admin port of a running server is, for `rnnserve healthcheck` beside it in a container: whatever flags the
// server has, and port 0 too. The server keeps the address in a file without a name (memfd_create), which other
// processes of its user find in /proc; it needs no folder to write to and goes with the process.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rnnserve {

// `listen`: as in --admin_listen; `port`: as it is bound, 0: this server has no admin port. Kept until the process
// ends. UNAVAILABLE where the system has no such files: then the port is found by --admin_listen alone.
absl::Status PostAdminNotice(const std::string& listen, int port);

struct AdminNotice {
  int process = 0;
  std::string listen;  // with the port as it is bound; "": no admin port
};

// The notices of all running processes of this program and this user, by process id.
std::vector<AdminNotice> ReadAdminNotices();

// The address to ask: of process 1, as a container has it, else of the only one. NOT_FOUND: there is none;
// FAILED_PRECONDITION: there are several, or it has no admin port.
absl::StatusOr<std::string> ChooseAdminPort(const std::vector<AdminNotice>& notices);

// `listen` where it has been set and names a port; else that of the server that runs here, else `listen` all the same.
absl::StatusOr<std::string> FindAdminPort(const std::string& listen, bool is_default);

}  // namespace rnnserve
