// SPDX-License-Identifier: Apache-2.0
#include "base/joined_sends.h"

#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/transport/loopback.h"

namespace rnnserve {
namespace {

// A listener of this machine and both ends of a connection to it.
struct Connection {
  OwnedFd listener{socket(AF_INET, SOCK_STREAM, 0)};
  OwnedFd to{-1};
  OwnedFd from{-1};
};

Connection Connect() {
  Connection made;
  sockaddr_in where = {};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(where);
  EXPECT_EQ(bind(made.listener.get(), reinterpret_cast<sockaddr*>(&where), size), 0);
  EXPECT_EQ(listen(made.listener.get(), 1), 0);
  EXPECT_EQ(getsockname(made.listener.get(), reinterpret_cast<sockaddr*>(&where), &size), 0);
  OwnedFd to = ConnectTo(ntohs(where.sin_port));
  OwnedFd from(accept(made.listener.get(), nullptr, nullptr));
  EXPECT_GE(from.get(), 0);
  const int on = 1;
  EXPECT_EQ(setsockopt(from.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);  // as gRPC does
  return {std::move(made.listener), std::move(to), std::move(from)};
}

void Send(const Connection& connection, std::string text) {
  iovec part = {text.data(), text.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ASSERT_EQ(JoinedSends::Send(connection.from.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

std::string Receive(const Connection& connection, size_t size) {
  std::string text(size, '\0');
  EXPECT_EQ(recv(connection.to.get(), text.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
  return text;
}

// How many segments with data have come.
uint32_t Segments(const Connection& connection) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  EXPECT_EQ(getsockopt(connection.to.get(), IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  return info.tcpi_data_segs_in;
}

TEST(JoinedSendsTest, MessagesOfEachSocketLeaveTogetherAndInOrder) {
  // The kernel lets bytes wait for 200 ms at most, and this thread may lose its CPU for longer.
  bool is_joined = false;
  for (int attempt = 0; attempt < 20 && !is_joined; ++attempt) {
    const Connection one = Connect();
    const Connection other = Connect();
    {
      const JoinedSends joined;
      const JoinedSends inner;
      for (const char* text : {"a", "bc", "d"}) {
        Send(one, text);
        Send(other, text);
      }
    }
    EXPECT_EQ(Receive(one, 4), "abcd");
    EXPECT_EQ(Receive(other, 4), "abcd");
    is_joined = Segments(one) == 1 && Segments(other) == 1;
  }
  EXPECT_TRUE(is_joined);
}

TEST(JoinedSendsTest, AnInnerOneLeavesBytesToTheOuterOne) {
  bool is_joined = false;
  for (int attempt = 0; attempt < 20 && !is_joined; ++attempt) {
    const Connection connection = Connect();
    {
      const JoinedSends joined;
      {
        const JoinedSends inner;
        Send(connection, "a");
      }
      Send(connection, "b");
    }
    EXPECT_EQ(Receive(connection, 2), "ab");
    is_joined = Segments(connection) == 1;
  }
  EXPECT_TRUE(is_joined);
}

TEST(JoinedSendsTest, LetsGoWhatWaitsBeforeItEnds) {
  JoinedSends::LetGo();  // of none
  bool has_left = false;
  for (int attempt = 0; attempt < 20 && !has_left; ++attempt) {
    const Connection connection = Connect();
    const JoinedSends joined;
    Send(connection, "a");
    JoinedSends::LetGo();
    char byte = 0;
    has_left = recv(connection.to.get(), &byte, 1, MSG_DONTWAIT) == 1;  // else the kernel has kept it
  }
  EXPECT_TRUE(has_left);
}

TEST(JoinedSendsTest, WithoutOneEachMessageLeavesAtOnce) {
  const Connection connection = Connect();
  { const JoinedSends over; }
  Send(connection, "a");
  EXPECT_EQ(Receive(connection, 1), "a");
  Send(connection, "b");
  EXPECT_EQ(Receive(connection, 1), "b");
  EXPECT_EQ(Segments(connection), 2u);
}

TEST(JoinedSendsTest, LargeMessagesDoNotWait) {
  const Connection connection = Connect();
  const JoinedSends joined;
  const std::string large(20 << 10, 'x');
  Send(connection, large);
  EXPECT_EQ(Receive(connection, large.size()), large);  // before `joined` ends
}

TEST(JoinedSendsTest, SmallMessagesDoNotWaitForLargeOnes) {
  bool is_released = false;
  for (int attempt = 0; attempt < 20 && !is_released; ++attempt) {
    const Connection one = Connect();
    const Connection other = Connect();
    const JoinedSends joined;
    Send(one, "a");
    Send(other, std::string(20 << 10, 'x'));
    char byte = 0;
    is_released = recv(one.to.get(), &byte, 1, MSG_DONTWAIT) == 1;
  }
  EXPECT_TRUE(is_released);
}

TEST(JoinedSendsTest, MoreSocketsThanItKeepsAndClosedOnes) {
  const JoinedSends joined;
  std::vector<Connection> connections;
  for (int k = 0; k < 70; ++k) {
    connections.push_back(Connect());
    Send(connections.back(), "a");
  }
  connections[69].from.Close();  // its bytes leave, as from any socket
  EXPECT_EQ(Receive(connections[0], 1), "a");
  EXPECT_EQ(Receive(connections[69], 1), "a");
}

TEST(JoinedSendsTest, WhatIsToBeDoneAtItsEndIsDoneOnce) {
  int one = 0;
  int other = 0;
  const auto add = [](void* count) { ++*static_cast<int*>(count); };
  JoinedSends::AtEnd(add, &one);
  EXPECT_EQ(one, 1) << "at once without one";
  {
    const JoinedSends joined;
    for (int k = 0; k < 3; ++k) JoinedSends::AtEnd(add, &one);
    EXPECT_EQ(one, 1);
  }
  EXPECT_EQ(one, 2);
  {
    const JoinedSends joined;
    JoinedSends::AtEnd(add, &one);
    JoinedSends::AtEnd(add, &other);
  }
  EXPECT_EQ(one, 3);
  EXPECT_EQ(other, 1);
}

TEST(JoinedSendsTest, SocketsOfOtherKindsSendAsEver) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Connection connection = {OwnedFd(-1), OwnedFd(ends[0]), OwnedFd(ends[1])};
  const JoinedSends joined;
  Send(connection, "a");
  EXPECT_EQ(Receive(connection, 1), "a");
}

}  // namespace
}  // namespace rnnserve
