// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/net/connection_table.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>

namespace rnnserve {
namespace {

// Connections that make room at a time: one of this many, so that few sweeps are needed.
constexpr size_t kPartGivenUp = 8;

// Bytes the peer has sent; more than any greeting where the kernel does not say.
uint64_t BytesReceived(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  constexpr size_t kNeeded = offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || size < kNeeded) return ~uint64_t{0};
  return info.tcpi_bytes_received;
}

}  // namespace

bool ConnectionTable::IsOpen(const Connection& connection) {
  struct stat status = {};
  return fstat(connection.fd, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == connection.inode;
}

size_t ConnectionTable::Count() {
  std::erase_if(connections_, [](const Connection& connection) { return !IsOpen(connection); });
  return connections_.size();
}

size_t ConnectionTable::GiveUp(size_t most, absl::Time now) {
  size_t given_up = 0;
  for (const Connection& connection : connections_) {
    if (given_up == most || now - connection.since < options_.min_age) break;
    if (BytesReceived(connection.fd) > options_.greeting_bytes) continue;
    shutdown(connection.fd, SHUT_RDWR);
    ++given_up;
  }
  return given_up;
}

bool ConnectionTable::MakeRoom(absl::Time now) {
  if (connections_.size() < options_.max_connections) return true;
  if (now < next_sweep_) return false;
  next_sweep_ = now + options_.sweep_interval;
  if (Count() < options_.max_connections) return true;
  GiveUp(std::max<size_t>(options_.max_connections / kPartGivenUp, 1), now);
  return false;
}

void ConnectionTable::Add(int fd, absl::Time now) {
  struct stat status = {};
  if (fstat(fd, &status) == 0) connections_.push_back({fd, status.st_ino, now});
}

}  // namespace rnnserve
