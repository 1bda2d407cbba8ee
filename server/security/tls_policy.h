// SPDX-License-Identifier: Apache-2.0
// The versions of TLS that handshakes may agree on. gRPC's library offers no choice of its own; OpenSSL is told here,
// for the whole process. (Suites of TLS 1.2 are gRPC's: GRPC_SSL_CIPHER_SUITES in the environment.)
#pragma once

#include "absl/status/status.h"

namespace rnnserve {

// No TLS 1.2. Once, before gRPC or any thread uses OpenSSL. INVALID_ARGUMENT: OpenSSL does not do it.
absl::Status RequireTls13();

}  // namespace rnnserve
