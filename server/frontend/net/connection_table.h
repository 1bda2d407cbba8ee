// SPDX-License-Identifier: Apache-2.0
// The connections that were handed to gRPC, and which of them still are: gRPC does not say when it closes one, so the
// table looks whether a descriptor is still the socket it was.
//
// When it is full, connections on which no call ever came make room, the oldest first: whoever only holds connections
// loses them to those who call. Not thread-safe.
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
    // At least 1.
    size_t max_connections = 1;
    // Bytes that may come before the first call: HTTP/2's greeting, and a TLS handshake where there is one.
    uint64_t greeting_bytes = 200;
    // A connection is not given up earlier, so that whoever has just come can call.
    absl::Duration min_age = absl::Seconds(1);
    // How often it looks through all connections.
    absl::Duration sweep_interval = absl::Milliseconds(50);
  };

  explicit ConnectionTable(Options options) : options_(options) {}

  // Whether one more connection fits at `now`.
  bool MakeRoom(absl::Time now);
  // `fd` is open, and MakeRoom was true.
  void Add(int fd, absl::Time now);

  // Looks which are still open.
  size_t Count();

  // Nothing more is read from any of them: gRPC closes them as if their peers had gone.
  void HangUp();

 private:
  struct Connection {
    int fd;
    ino_t inode;
    absl::Time since;
  };
  static bool IsOpen(const Connection& connection);
  // Shuts down up to `most` connections without a call. Their descriptors are closed by gRPC a moment later.
  size_t GiveUp(size_t most, absl::Time now);

  const Options options_;
  std::vector<Connection> connections_;  // the oldest first
  absl::Time next_sweep_ = absl::InfinitePast();
};

}  // namespace rnnserve
