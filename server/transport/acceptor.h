// SPDX-License-Identifier: Apache-2.0
// The server's own accept loop. gRPC 1.51's listener stops accepting for ever once file descriptors have run out; this
// one continues, and refuses connections above a limit.
//
//   Acceptor acceptor(options, std::move(sockets), [&](int fd) { hand it to gRPC; });
//
// The handler runs on the acceptor's thread, gets connections that have greeted, and owns their non-blocking
// descriptors. The destructor stops the loop and closes the sockets; connections that gRPC has stay open.
//
// A flood of connections takes no time from calls in flight: the acceptor accepts at a limited rate, and connections
// wait in PendingConnections until they call. The acceptor hands a connection that has greeted and does not call to
// gRPC at a slow rate. With TLS it sees only the beginning of a handshake; where many handshakes bring no call, it
// hands them over more slowly, the last one first (HandshakeWindow).
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "server/telemetry/metric.h"
#include "server/transport/connection_table.h"
#include "server/transport/handshake_window.h"
#include "server/transport/listen_socket.h"
#include "server/transport/pace.h"
#include "server/transport/pending_connections.h"

namespace rnnserve {

class Acceptor {
 public:
  struct Options {
    // Handed over and waiting together; at least 1.
    size_t max_connections = 1;
    PendingConnections::Options pending = {};
    ConnectionTable::Options connections = {};
    // TLS: a connection that seems to call may yet bring no call, so HandshakeWindow bounds them.
    bool limit_handshakes = false;
    // A peer that does not acknowledge data for this time counts as disconnected.
    absl::Duration peer_timeout = absl::Seconds(20);
    // Count connections handed over, refused for the limit or for want of descriptors, and dismissed while pending.
    std::shared_ptr<Counter> accepted;
    std::shared_ptr<Counter> refused;
    std::shared_ptr<Counter> dismissed;
  };
  using Handler = std::function<void(int fd)>;

  Acceptor(Options options, std::vector<ListenSocket> sockets, Handler handler);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Stops accepting, closes pending and handed-over connections, and waits at most `longest` until gRPC has closed its
  // ones.
  void CloseConnections(absl::Duration longest);

 private:
  void Stop();
  void Loop();
  // Hand connections to gRPC that are due: those that call, those that have only greeted. Return when to look
  // again.
  absl::Time HandOverCallers(absl::Time now);
  absl::Time HandOverIdle(absl::Time now);
  void HandOver(int fd, absl::Time now);
  // Whether more connections are pending than are allowed in any case.
  bool IsCrowded() const;
  // Takes one connection from the socket's queue; false: there is none, or none can be taken now.
  bool Accept(const ListenSocket& socket, absl::Time now);
  // Between two steps of Accept: a thread that has a call to serve on this CPU waits for one step and not for all.
  void LowerPriority() const;
  bool MakeRoom(absl::Time now);
  // Takes one connection from the queue when there is no descriptor for it, and closes it.
  bool Refuse(const ListenSocket& socket, absl::Time now);

  const Options options_;
  const std::vector<ListenSocket> sockets_;
  const Handler handler_;
  PendingConnections pending_;
  ConnectionTable table_;
  Pace accepts_;
  HandshakeWindow window_;
  absl::Time next_handshake_ = absl::InfinitePast();
  absl::Time next_idle_ = absl::InfinitePast();
  int stop_event_;
  int reserve_;  // a descriptor to be given up for Refuse

  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
