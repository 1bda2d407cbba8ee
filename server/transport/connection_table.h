// SPDX-License-Identifier: Apache-2.0
// The connections that gRPC has. gRPC does not say when it closes one, so the table checks whether a descriptor is
// still the same socket.
//
// Connections that have never called can be closed to make room, the oldest first: a peer that only holds connections
// loses them to peers that call. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace rnnserve {

class ConnectionTable {
 public:
  struct Options {
    // Bytes that may come before the first call: HTTP/2's greeting, and a TLS handshake where there is one.
    uint64_t greeting_bytes = 200;
    // A younger connection is not closed: it may be about to call.
    absl::Duration min_age = absl::Seconds(1);
    // How often it looks through all connections.
    absl::Duration sweep_interval = absl::Milliseconds(50);
  };

  explicit ConnectionTable(Options options) : options_(options) {}

  // `fd` is open.
  void Add(int fd, absl::Time now);

  // Connections that were open at the last sweep.
  size_t size() const { return connections_.size(); }
  // Forgets closed connections, if the last time is at least a sweep interval ago.
  void Sweep(absl::Time now);
  // The same at once; returns size().
  size_t Count();
  struct Handshakes {
    size_t waiting = 0;  // connections younger than min_age without a call
    size_t proved = 0;   // connections whose first call was seen now
  };
  // Counts from the youngest connection on, until `most` are waiting.
  Handshakes InHandshake(size_t most, absl::Time now);
  // Shuts down up to `most` connections without a call, and returns how many. gRPC closes their descriptors a moment
  // later.
  size_t GiveUp(size_t most, absl::Time now);

  // Shuts all connections down for reading: gRPC closes them as if their peers had gone.
  void CloseConnections();

 private:
  struct Connection {
    int fd;
    ino_t inode;
    absl::Time since;
    bool has_called = false;
    bool is_over = false;  // given up, or found closed
  };
  static bool IsOpen(const Connection& connection);
  // Whether a call has come over `fd`, which is the connection; remembers when one has.
  bool HasCalled(Connection& connection, int fd) const;

  const Options options_;
  std::vector<Connection> connections_;  // the oldest first
  absl::Time next_sweep_ = absl::InfinitePast();
};

}  // namespace rnnserve
