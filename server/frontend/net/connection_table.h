// SPDX-License-Identifier: Apache-2.0
// The connections that were handed to gRPC, and which of them still are: gRPC does not say when it closes one, so the
// table looks whether a descriptor is still the socket it was.
//
// Connections on which no call ever came can be given up to make room, the oldest first: whoever only holds connections
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
    // Bytes that may come before the first call: HTTP/2's greeting, and a TLS handshake where there is one.
    uint64_t greeting_bytes = 200;
    // A connection is not given up earlier, so that whoever has just come can call.
    absl::Duration min_age = absl::Seconds(1);
    // How often it looks through all connections.
    absl::Duration sweep_interval = absl::Milliseconds(50);
  };

  explicit ConnectionTable(Options options) : options_(options) {}

  // `fd` is open.
  void Add(int fd, absl::Time now);

  // Those that were open at the last look.
  size_t size() const { return connections_.size(); }
  // Looks which are still open, if the last look is long enough ago.
  void Sweep(absl::Time now);
  // Looks now.
  size_t Count();
  struct Trial {
    size_t waiting = 0;  // those younger than min_age without a call
    size_t proved = 0;   // whose first call was seen now
  };
  // Of the youngest, until `most` of them wait.
  Trial OnTrial(size_t most, absl::Time now);
  // Shuts down up to `most` connections without a call, and says how many. gRPC closes their descriptors a moment
  // later.
  size_t GiveUp(size_t most, absl::Time now);

  // Nothing more is read from any of them: gRPC closes them as if their peers had gone.
  void HangUp();

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
