// SPDX-License-Identifier: Apache-2.0
// Accepted connections that gRPC does not have yet. Each connection costs gRPC a hundred microseconds of the poller
// thread; a connection that waits here costs next to nothing until it calls. Most clients wait for the server's
// greeting before they call, so a connection that greets is answered here and waits on. The last connection that spoke
// is taken first: a new connection does not wait behind a flood.
//
//   PendingConnections pending({.parse = &ParseHttp2Greeting, .answer = Http2ServerGreeting(100)}, dismissed, refused);
//   pending.Add(fd, now);
//   ... once fd() is readable, or at next_end() ...
//   pending.Inspect(now);
//   if (const int fd = pending.TakeCaller(); fd >= 0) hand it to gRPC;
//
// Owns the descriptors until they are taken. The bytes that peers send stay in the kernel, unread. Not thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/telemetry/metric.h"
#include "server/transport/greeting.h"

namespace rnnserve {

class PendingConnections {
 public:
  struct Options {
    Greeting (*parse)(std::span<const uint8_t> head, size_t come) = &ParseHttp2Greeting;
    // Sent to each connection that has greeted, before it is taken.
    std::string answer = {};
    // A connection that has not greeted after this time is closed.
    absl::Duration patience = absl::Seconds(5);
    // Where room is short, connections that have not greeted are closed first, but not younger ones than this: a
    // greeting arrives a moment after its connection.
    absl::Duration grace = absl::Milliseconds(200);
  };

  // `dismissed` counts connections that did not greet in time, spoke another protocol or closed;
  // `refused` counts those that Drop closes.
  PendingConnections(Options options, std::shared_ptr<Counter> dismissed, std::shared_ptr<Counter> refused);
  ~PendingConnections();
  PendingConnections(const PendingConnections&) = delete;
  PendingConnections& operator=(const PendingConnections&) = delete;

  // Takes ownership of `fd`, which is non-blocking.
  void Add(int fd, absl::Time now);
  // Looks at connections that have sent something or have closed, and closes those that did not greet in time.
  void Inspect(absl::Time now);
  // The last connection that calls, or the last that has greeted and does not call. The caller takes ownership of the
  // descriptor. -1: there is none.
  int TakeCaller() { return Take(calling_); }
  int TakeGreeted() { return Take(greeted_); }
  // Closes one connection to make room; false: there is none.
  bool Drop(absl::Time now);
  // Closes all.
  void Clear();

  int fd() const { return epoll_; }
  size_t size() const { return all_.size(); }
  bool has_callers() const { return !calling_.empty(); }
  bool has_greeted() const { return !greeted_.empty(); }
  // When the next connection's `patience` ends.
  absl::Time next_end() const;

 private:
  struct Connection;
  using Connections = std::list<Connection>;
  struct Connection {
    int fd;
    absl::Time since;
    Connections* among;
    bool has_asked = false;  // for more than a greeting
  };

  void Inspect(Connections::iterator connection);
  bool Answer(int fd) const;
  void Move(Connections::iterator connection, Connections& to);
  int Take(Connections& from);
  // Forgets the connection without closing it.
  int Release(Connections::iterator connection);
  void Close(Connections::iterator connection, Counter& why);

  const Options options_;
  const std::shared_ptr<Counter> dismissed_, refused_;
  const int epoll_;
  // Oldest first: by arrival, and among those that have spoken by when they greeted, called or asked for more.
  Connections silent_, greeted_, calling_;
  absl::flat_hash_map<int, Connections::iterator> all_;
};

}  // namespace rnnserve
