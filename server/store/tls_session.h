// SPDX-License-Identifier: Apache-2.0
// TLS of one connection to a Redis, without its socket: bytes in, bytes out.
//
//   auto tls = TlsSession::Make(address, "cache.example");
//   (*tls)->Begin(out);                        // the handshake's first bytes, for the socket
//   (*tls)->Receive(from_socket, plain, out);  // what they say, and what is to be sent in return
//   (*tls)->Send("PING\r\n", out);             // once is_open()
//
// TLS 1.2 or later. The server's certificate must be of the CA, and for the host.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/store/store_address.h"

namespace rnnserve {

class TlsSession {
 public:
  // FAILED_PRECONDITION, with the path: a file holds no certificate, or no key that belongs to it.
  static absl::StatusOr<std::unique_ptr<TlsSession>> Make(const StoreAddress& address, const std::string& host);

  // What the socket is to send is appended to `out`. UNAVAILABLE: the connection is of no use any more.
  absl::Status Begin(std::string& out);
  absl::Status Receive(std::string_view bytes, std::string& plain, std::string& out);
  absl::Status Send(std::string_view plain, std::string& out);
  bool is_open() const { return SSL_is_init_finished(ssl_.get()) != 0; }

 private:
  struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  explicit TlsSession(SSL* ssl) : ssl_(ssl) {}
  absl::Status Handshake();
  void TakeOutput(std::string& out);

  const std::unique_ptr<SSL, Free> ssl_;
};

}  // namespace rnnserve
