// SPDX-License-Identifier: Apache-2.0
// Our own accept loop. gRPC 1.51's listener stops accepting for good once file descriptors have run out; this one goes
// on, and refuses connections above a limit instead of running out.
//
//   Acceptor acceptor(options, std::move(sockets), [&](int fd) { hand it to gRPC; });
//
// The handler gets connections that have greeted, and owns the descriptor, which is non-blocking; it runs on the
// acceptor's thread. The destructor stops the loop and closes the sockets; connections that were handed over go on.
//
// A flood of connections shall take no time from those who call. So they come in at a pace, and wait in a lobby until
// they call; those who have greeted and do not are handed over in slow turns. Of TLS the lobby sees only that a peer
// begins: these are on trial, and where many do not call, they are handed over at a slower pace, the last first.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "server/frontend/net/connection_table.h"
#include "server/frontend/net/listen_socket.h"
#include "server/frontend/net/lobby.h"
#include "server/frontend/net/pace.h"
#include "server/frontend/net/trial_window.h"
#include "server/telemetry/metric.h"

namespace rnnserve {

class Acceptor {
 public:
  struct Options {
    // Handed over and waiting together; at least 1.
    size_t max_connections = 1;
    Lobby::Options lobby = {};
    ConnectionTable::Options connections = {};
    // Whether those who call may yet turn out not to: of TLS one sees only that they begin.
    bool on_trial = false;
    // A peer that leaves data unacknowledged so long has gone.
    absl::Duration peer_timeout = absl::Seconds(20);
    // Connections handed over, refused for the limit or for want of descriptors, and dismissed by the lobby.
    std::shared_ptr<Counter> accepted;
    std::shared_ptr<Counter> refused;
    std::shared_ptr<Counter> dismissed;
  };
  using Handler = std::function<void(int fd)>;

  Acceptor(Options options, std::vector<ListenSocket> sockets, Handler handler);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Accepts no more, hangs up on those that wait and those that are connected, and waits for at most so long until gRPC
  // has closed them.
  void HangUp(absl::Duration longest);

 private:
  void Stop();
  void Loop();
  // Hands over those whose turn it is, of those who call and of those who have only greeted; when it wants to look
  // again.
  absl::Time HandOverCallers(absl::Time now);
  absl::Time HandOverIdle(absl::Time now);
  void HandOver(int fd, absl::Time now);
  // Whether more wait than the lobby is left in any case.
  bool IsCrowded() const;
  // Takes one connection from the socket's queue; false: there is none, or none can be taken now.
  bool Accept(const ListenSocket& socket, absl::Time now);
  // Between two steps of Accept: who has a call to serve on this CPU waits for one of them and not for all.
  void LetOthersGoFirst() const;
  bool MakeRoom(absl::Time now);
  // Takes one connection from the queue when there is no descriptor for it, and hangs up.
  bool Refuse(const ListenSocket& socket, absl::Time now);

  const Options options_;
  const std::vector<ListenSocket> sockets_;
  const Handler handler_;
  Lobby lobby_;
  ConnectionTable table_;
  Pace accepts_;
  TrialWindow window_;
  absl::Time next_trial_ = absl::InfinitePast();
  absl::Time next_idle_ = absl::InfinitePast();
  int stop_event_;
  int reserve_;  // a descriptor to be given up for Refuse

  std::thread thread_;  // last: it uses everything above
};

}  // namespace rnnserve
