// SPDX-License-Identifier: Apache-2.0
// Our own accept loop. gRPC 1.51's listener stops accepting for good once file descriptors have run out; this one goes
// on, and refuses connections above a limit instead of running out.
//
//   Acceptor acceptor(options, std::move(sockets), [&](int fd) { hand it to gRPC; });
//
// The handler owns the descriptor, which is non-blocking; it runs on the acceptor's thread. The destructor stops the
// loop and closes the sockets; connections go on.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "server/frontend/net/connection_table.h"
#include "server/frontend/net/listen_socket.h"
#include "server/telemetry/metric.h"

namespace rnnserve {

class Acceptor {
 public:
  struct Options {
    ConnectionTable::Options connections = {};
    // A peer that leaves data unacknowledged so long has gone.
    absl::Duration peer_timeout = absl::Seconds(20);
    // Connections accepted, and refused for the limit or for want of descriptors.
    std::shared_ptr<Counter> accepted;
    std::shared_ptr<Counter> refused;
  };
  using Handler = std::function<void(int fd)>;

  Acceptor(Options options, std::vector<ListenSocket> sockets, Handler handler);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Accepts no more, hangs up on those that are connected, and waits for at most so long until gRPC has closed them.
  void HangUp(absl::Duration longest);

 private:
  void Stop();
  void Loop();
  // Whether there may be more than it takes at once.
  bool Accept(const ListenSocket& socket);
  void Take(int fd);
  // Takes one connection from the queue when there is no descriptor for it, and hangs up.
  bool Refuse(const ListenSocket& socket);

  const Options options_;
  const std::vector<ListenSocket> sockets_;
  const Handler handler_;
  ConnectionTable table_;
  int stop_event_;
  int reserve_;  // a descriptor to be given up for Refuse

  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
