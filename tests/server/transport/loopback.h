// SPDX-License-Identifier: Apache-2.0
// Both ends of connections, for tests.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace rnnserve {

class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  ~OwnedFd() { Close(); }
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&&) = delete;
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

// A connection to a port of this machine; -1 if refused.
inline OwnedFd ConnectTo(int port) {
  OwnedFd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in where = {};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)) != 0) return OwnedFd(-1);
  return fd;
}

// Whether the other end has hung up; waits until it has or has sent something.
inline bool HungUp(const OwnedFd& fd) {
  char byte = 0;
  return recv(fd.get(), &byte, 1, MSG_PEEK) <= 0;
}

}  // namespace rnnserve
