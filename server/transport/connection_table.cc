// SPDX-License-Identifier: Apache-2.0
#include "server/transport/connection_table.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace rnnserve {
namespace {

// Bytes the peer has sent; more than any greeting where the kernel does not say.
uint64_t BytesReceived(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  constexpr size_t kNeeded = offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || size < kNeeded) return ~uint64_t{0};
  return info.tcpi_bytes_received;
}

bool IsSocket(int fd, ino_t inode) {
  struct stat status = {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == inode;
}

}  // namespace

bool ConnectionTable::IsOpen(const Connection& connection) { return IsSocket(connection.fd, connection.inode); }

size_t ConnectionTable::Count() {
  std::erase_if(connections_, [](const Connection& connection) { return !IsOpen(connection); });
  return connections_.size();
}

void ConnectionTable::Sweep(absl::Time now) {
  if (now < next_sweep_) return;
  next_sweep_ = now + options_.sweep_interval;
  Count();
}

bool ConnectionTable::HasCalled(Connection& connection, int fd) const {
  if (!connection.has_called) connection.has_called = BytesReceived(fd) > options_.greeting_bytes;
  return connection.has_called;
}

ConnectionTable::Handshakes ConnectionTable::InHandshake(size_t most, absl::Time now) {
  Handshakes handshakes;
  for (auto it = connections_.rbegin(); it != connections_.rend() && handshakes.waiting < most; ++it) {
    if (now - it->since >= options_.min_age) break;
    if (it->has_called || it->is_over) continue;
    it->is_over = !IsOpen(*it);
    if (!it->is_over) ++(HasCalled(*it, it->fd) ? handshakes.proved : handshakes.waiting);
  }
  return handshakes;
}

size_t ConnectionTable::GiveUp(size_t most, absl::Time now) {
  size_t given_up = 0;
  for (Connection& connection : connections_) {
    if (given_up == most || now - connection.since < options_.min_age) break;
    if (connection.has_called || connection.is_over) continue;
    // gRPC may close the descriptor at any moment, and the kernel may reuse its number for another connection: a
    // duplicate keeps naming the same socket.
    const int fd = fcntl(connection.fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) continue;
    if (IsSocket(fd, connection.inode) && !HasCalled(connection, fd)) {
      shutdown(fd, SHUT_RDWR);
      connection.is_over = true;
      ++given_up;
    }
    close(fd);
  }
  return given_up;
}

void ConnectionTable::CloseConnections() {
  for (const Connection& connection : connections_) {
    const int fd = fcntl(connection.fd, F_DUPFD_CLOEXEC, 0);  // see GiveUp
    if (fd < 0) continue;
    if (IsSocket(fd, connection.inode)) shutdown(fd, SHUT_RD);
    close(fd);
  }
}

void ConnectionTable::Add(int fd, absl::Time now) {
  struct stat status = {};
  if (fstat(fd, &status) == 0) connections_.push_back({fd, status.st_ino, now});
}

}  // namespace rnnserve
