// SPDX-License-Identifier: Apache-2.0
// While one lives, the small messages that its thread sends to a TCP socket leave together when it ends: the kernel
// then works once for all of them, and the peer wakes once. gRPC sends each answer by itself, also those of one
// connection.
//
//   const JoinedSends joined;
//   for (Job& job : finished) job.done();      // each sends an answer, or wakes the thread that sends it: AtEnd
//
// Only the sends of a program that links server/transport/joined_sends.cc; elsewhere it does nothing.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>

struct msghdr;

namespace rnnserve {

class JoinedSends {
 public:
  JoinedSends();
  ~JoinedSends();
  JoinedSends(const JoinedSends&) = delete;
  JoinedSends& operator=(const JoinedSends&) = delete;

  // Calls `end(of)`, once for an `of`, when the thread's JoinedSends ends, or at once if there is none.
  static void AtEnd(void (*end)(void*), void* of);
  // sendmsg, which leaves bytes to the thread's JoinedSends if there is one.
  static ssize_t Send(int fd, const msghdr* message, int flags);

  // Lets go what waits in the thread's JoinedSends.
  static void LetGo();

 private:
  void Keep(int fd);
  // Lets the bytes go.
  void Flush();

  JoinedSends* const outer_;     // the thread's own, if there was one: it lasts longer and keeps the bytes
  std::array<int, 64> waiting_;  // sockets with bytes that wait, `size_` of them
  size_t size_ = 0;
  void (*end_)(void*) = nullptr;
  void* of_ = nullptr;
};

}  // namespace rnnserve
