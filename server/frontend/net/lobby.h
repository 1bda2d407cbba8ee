// SPDX-License-Identifier: Apache-2.0
// Connections that have been accepted and not been handed to gRPC: a transport costs it a hundred microseconds of the
// thread that serves calls, and here those who only hold connections cost next to nothing. They wait until they have
// greeted, and then until it is their turn: the one that greeted last comes first, so that newcomers need not wait
// behind a flood.
//
//   Lobby lobby({.look = &LookAtHttp2Greeting}, dismissed, refused);
//   lobby.Add(fd, now);
//   ... once fd() can be read, or at next_end() ...
//   lobby.Look(now);
//   if (const int fd = lobby.Take(); fd >= 0) hand it on;
//
// It owns the descriptors until they are taken. What peers send stays in the kernel. Not thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/frontend/net/greeting.h"
#include "server/telemetry/metric.h"

namespace rnnserve {

class Lobby {
 public:
  struct Options {
    Greeting (*look)(std::span<const uint8_t> head, size_t come) = &LookAtHttp2Greeting;
    // Whoever has not greeted by then is dismissed.
    absl::Duration patience = absl::Seconds(5);
    // Where there is no room, whoever has not greeted goes before those who have, but not so early: a greeting is a
    // moment behind its connection.
    absl::Duration grace = absl::Milliseconds(200);
  };

  // `dismissed` counts connections closed because they did not greet, or not in the language spoken here, or left;
  // `refused` those that Drop closes.
  Lobby(Options options, std::shared_ptr<Counter> dismissed, std::shared_ptr<Counter> refused);
  ~Lobby();
  Lobby(const Lobby&) = delete;
  Lobby& operator=(const Lobby&) = delete;

  // `fd` is non-blocking.
  void Add(int fd, absl::Time now);
  // Whoever has said something since, or has left, or has not greeted in time.
  void Look(absl::Time now);
  // The one that greeted last, which is the caller's now; -1: nobody has greeted.
  int Take();
  // Hangs up on one, to make room; false: there is none.
  bool Drop(absl::Time now);
  // Hangs up on all.
  void Clear();

  int fd() const { return epoll_; }
  size_t size() const { return all_.size(); }
  bool has_greeted() const { return !greeted_.empty(); }
  // When the next one has waited too long.
  absl::Time next_end() const;

 private:
  struct Guest {
    int fd;
    absl::Time since;
    bool has_greeted = false;
  };
  using Guests = std::list<Guest>;

  void LookAt(Guests::iterator guest);
  // Forgets it, without closing.
  int Release(Guests::iterator guest);
  void Close(Guests::iterator guest, Counter& why);

  const Options options_;
  const std::shared_ptr<Counter> dismissed_, refused_;
  const int epoll_;
  Guests silent_, greeted_;  // the oldest first; of those who greeted, whose greeting is the oldest
  absl::flat_hash_map<int, Guests::iterator> all_;
};

}  // namespace rnnserve
