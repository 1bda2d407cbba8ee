// SPDX-License-Identifier: Apache-2.0
// gRPC has no call that sends the messages of several streams of a connection together. This program defines sendmsg,
// which gRPC finds before that of libc, as it does recvmsg (guarded_reads.h): it does the same, and looks for a
// JoinedSends of the thread. A gRPC that sends otherwise sends as ever.
#include "base/joined_sends.h"

#include <sys/socket.h>

extern "C" __attribute__((visibility("default"))) ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return rnnserve::JoinedSends::Send(fd, message, flags);
}
