// SPDX-License-Identifier: Apache-2.0
// A wire between callers and a server on the loopback interface that a test can cut, or freeze so that neither side
// learns of it.
//
//   CutWire wire(server_port);
//   ... connect to 127.0.0.1:wire.port() ...
//   wire.Freeze();      // half-open: the server keeps a connection on which nothing comes any more
//   wire.Cut();         // both sides see the end
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <thread>

namespace rnnserve {

class CutWire {
 public:
  explicit CutWire(int server_port);
  ~CutWire();
  CutWire(const CutWire&) = delete;
  CutWire& operator=(const CutWire&) = delete;

  int port() const { return port_; }
  // Of the connections there are; later ones work.
  void Cut();
  void Freeze();

 private:
  struct Connection {
    Connection(int caller_socket, int server_socket) : caller(caller_socket), server(server_socket) {}
    const int caller;
    const int server;
    std::atomic<bool> frozen = false;
    std::thread up, down;
  };
  void Accept();
  static void Copy(Connection& connection, int from, int to);

  const int server_port_;
  int listener_ = -1;
  int port_ = 0;
  std::mutex mutex_;
  std::list<Connection> connections_;  // guarded by mutex_
  std::thread accepting_;              // last: it uses everything above
};

}  // namespace rnnserve
