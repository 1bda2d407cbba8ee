// SPDX-License-Identifier: Apache-2.0
// What TLS handshakes may agree on. gRPC's library offers no choice of its own; it asks OpenSSL and its environment,
// which are told here, for the whole process.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace rnnserve {

struct TlsPolicy {
  bool only_1_3 = false;  // else TLS 1.2 as well
  // Suites of TLS 1.2 as OpenSSL lists them; empty: gRPC's choice. Those of TLS 1.3 are always OpenSSL's own.
  std::string ciphers = {};
};

// Once, before gRPC or any thread uses OpenSSL. INVALID_ARGUMENT names the flag whose wish cannot be had.
absl::Status ApplyTlsPolicy(const TlsPolicy& policy);

}  // namespace rnnserve
