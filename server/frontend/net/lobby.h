// SPDX-License-Identifier: Apache-2.0
// Connections that have been accepted and not been handed to gRPC: a transport costs it a hundred microseconds of the
// thread that serves calls, and here those who only hold connections cost next to nothing. Most clients wait for the
// server's greeting before they call, so the lobby answers theirs with it, and lets them wait until they call. The one
// that spoke last comes first, so that newcomers need not wait behind a flood.
//
//   Lobby lobby({.look = &LookAtHttp2Greeting, .answer = Http2ServerGreeting(100)}, dismissed, refused);
//   lobby.Add(fd, now);
//   ... once fd() can be read, or at next_end() ...
//   lobby.Look(now);
//   if (const int fd = lobby.TakeCaller(); fd >= 0) hand it on;
//
// It owns the descriptors until they are taken. What peers send stays in the kernel. Not thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/frontend/net/greeting.h"
#include "server/telemetry/metric.h"

namespace rnnserve {

class Lobby {
 public:
  struct Options {
    Greeting (*look)(std::span<const uint8_t> head, size_t come) = &LookAtHttp2Greeting;
    // To a greeting without a call.
    std::string answer = {};
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
  // The last of those who call, or of those who have greeted and do not; it is whose takes it from now on. -1: there is
  // none.
  int TakeCaller() { return Take(calling_); }
  int TakeGreeted() { return Take(greeted_); }
  // Hangs up on one, to make room; false: there is none.
  bool Drop(absl::Time now);
  // Hangs up on all.
  void Clear();

  int fd() const { return epoll_; }
  size_t size() const { return all_.size(); }
  bool has_callers() const { return !calling_.empty(); }
  bool has_greeted() const { return !greeted_.empty(); }
  // When the next one has waited too long.
  absl::Time next_end() const;

 private:
  struct Guest;
  using Guests = std::list<Guest>;
  struct Guest {
    int fd;
    absl::Time since;
    Guests* among;
    bool has_asked = false;  // for more than a greeting
  };

  void LookAt(Guests::iterator guest);
  bool Answer(int fd) const;
  void Move(Guests::iterator guest, Guests& to);
  int Take(Guests& from);
  // Forgets it, without closing.
  int Release(Guests::iterator guest);
  void Close(Guests::iterator guest, Counter& why);

  const Options options_;
  const std::shared_ptr<Counter> dismissed_, refused_;
  const int epoll_;
  // The oldest first; of those who have spoken, who has waited longest since it greeted, called or asked for more.
  Guests silent_, greeted_, calling_;
  absl::flat_hash_map<int, Guests::iterator> all_;
};

}  // namespace rnnserve
