// SPDX-License-Identifier: Apache-2.0
// TLS and tokens for servers that require them.
#pragma once

#include <string>

namespace rnnserve::client {

struct Credentials {
  // TLS. All certificates and keys are PEM texts, not paths.
  bool tls = false;
  std::string root_certificates = {};  // authorities of the server's certificate; empty: the system's
  std::string certificate = {};        // this caller's own with its key, where the server asks for one
  std::string private_key = {};
  std::string server_name = {};  // that the server's certificate has, if it is not that of the address
  // Sent with each call as `authorization: Bearer TOKEN`; empty: none. Without TLS it crosses the network in clear.
  std::string token = {};
};

}  // namespace rnnserve::client
