// SPDX-License-Identifier: Apache-2.0
// Transport security: certificates from files that are read again when they change.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace rnnserve {

// PEM files.
struct TlsFiles {
  std::string certificate = {};  // the server's, with the chain behind it; empty: no TLS
  std::string key = {};
  std::string client_ca = {};  // callers must show a certificate that one of these has signed; empty: they need none
};

// FAILED_PRECONDITION says which file cannot be used and why; connections that are open go on when files change.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeCredentials(const TlsFiles& files);

// When the first certificate of a PEM file expires.
absl::StatusOr<absl::Time> CertificateExpiry(const std::string& path);

}  // namespace rnnserve
