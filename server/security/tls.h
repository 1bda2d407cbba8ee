// SPDX-License-Identifier: Apache-2.0
// Transport security for gRPC: each handshake takes the certificate that is in force.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "server/security/certificates.h"

namespace rnnserve {

// Null: no TLS. Connections that are open go on when the certificate changes.
std::shared_ptr<grpc::ServerCredentials> MakeCredentials(std::shared_ptr<const Certificates> certificates);

}  // namespace rnnserve
