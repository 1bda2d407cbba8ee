// SPDX-License-Identifier: Apache-2.0
// Sockets that listen.
//
//   absl::StatusOr<std::vector<ListenSocket>> sockets = Listen("127.0.0.1:0");
//   int port = sockets->front().port();
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace rnnserve {

// Closes its descriptor, and removes the file of a unix socket.
class ListenSocket {
 public:
  ListenSocket(int fd, int port, std::string path) : fd_(fd), port_(port), path_(std::move(path)) {}
  ~ListenSocket();
  ListenSocket(ListenSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), port_(other.port_), path_(std::exchange(other.path_, {})) {}
  ListenSocket& operator=(ListenSocket&&) = delete;

  int fd() const { return fd_; }
  // 0 for a unix socket.
  int port() const { return port_; }

 private:
  int fd_;
  int port_;
  std::string path_;
};

// `address` is host:port, [v6]:port, unix:path or unix-abstract:name. Port 0 picks a free one, a host name of several
// addresses listens on all of them, with one port; [::] takes IPv4 too. Never shares a port with another process.
// UNAVAILABLE says why not.
absl::StatusOr<std::vector<ListenSocket>> Listen(const std::string& address);

}  // namespace rnnserve
