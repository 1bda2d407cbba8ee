// SPDX-License-Identifier: Apache-2.0
// Asks a running server's admin port, as `rnnserve healthcheck` does for a container's HEALTHCHECK and exec probes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace rnnserve {

// OK if GET `path` at `listen` (as in --admin_listen; an address of all interfaces means this machine) answers 200.
// UNAVAILABLE says what came instead.
absl::Status ProbeHealth(const std::string& listen, const std::string& path, absl::Duration timeout);

}  // namespace rnnserve
