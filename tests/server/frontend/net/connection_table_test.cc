// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/net/connection_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/frontend/net/listen_socket.h"
#include "tests/server/frontend/net/loopback.h"

namespace rnnserve {
namespace {

struct Pair {
  OwnedFd client;
  OwnedFd server;
};

class ConnectionTableTest : public testing::Test {
 protected:
  Pair Connect() {
    OwnedFd client = ConnectTo(sockets_->front().port());
    int server = -1;
    while (server < 0) server = accept(sockets_->front().fd(), nullptr, nullptr);
    return {std::move(client), OwnedFd(server)};
  }

  // The server has got all of it when this returns.
  static void Send(const Pair& pair, size_t bytes) {
    const std::string text(bytes, 'x');
    EXPECT_EQ(send(pair.client.get(), text.data(), bytes, 0), static_cast<ssize_t>(bytes));
    std::string got(bytes, '\0');
    EXPECT_EQ(recv(pair.server.get(), got.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  }

  const absl::StatusOr<std::vector<ListenSocket>> sockets_ = Listen("127.0.0.1:0");
  ConnectionTable table_{{.max_connections = 2,
                          .greeting_bytes = 10,
                          .min_age = absl::Seconds(1),
                          .sweep_interval = absl::Milliseconds(50)}};
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(ConnectionTableTest, AClosedConnectionMakesRoom) {
  Pair a = Connect(), b = Connect();
  for (const Pair* pair : {&a, &b}) {
    EXPECT_TRUE(table_.MakeRoom(now_));
    table_.Add(pair->server.get(), now_);
  }
  EXPECT_FALSE(table_.MakeRoom(now_));
  a.server.Close();
  EXPECT_FALSE(table_.MakeRoom(now_ + absl::Milliseconds(49))) << "it does not look all the time";
  EXPECT_TRUE(table_.MakeRoom(now_ + absl::Milliseconds(50)));
  EXPECT_EQ(table_.Count(), 1u);
}

TEST_F(ConnectionTableTest, AnotherSocketOfTheSameNumberIsAnother) {
  Pair a = Connect();
  table_.Add(a.server.get(), now_);
  const Pair b = Connect();
  ASSERT_EQ(dup2(b.server.get(), a.server.get()), a.server.get());
  EXPECT_EQ(table_.Count(), 0u);
}

TEST_F(ConnectionTableTest, TheOldestWithoutACallGoesFirst) {
  const Pair called = Connect(), silent = Connect();
  Send(called, 11);
  Send(silent, 10);
  table_.Add(called.server.get(), now_);
  table_.Add(silent.server.get(), now_);
  now_ += absl::Seconds(1);
  EXPECT_FALSE(table_.MakeRoom(now_)) << "there is room once it has been closed";
  EXPECT_TRUE(HungUp(silent.client));
  Send(called, 1);  // still there
}

TEST_F(ConnectionTableTest, WhoHasJustComeMayStay) {
  const Pair a = Connect(), b = Connect();
  table_.Add(a.server.get(), now_);
  table_.Add(b.server.get(), now_);
  EXPECT_FALSE(table_.MakeRoom(now_ + absl::Seconds(1) - absl::Nanoseconds(1)));
  Send(a, 1);
  Send(b, 1);
  EXPECT_FALSE(table_.MakeRoom(now_ + absl::Seconds(2)));
  EXPECT_TRUE(HungUp(a.client));
}

TEST_F(ConnectionTableTest, WhoHasCalledNeverMakesRoom) {
  const Pair a = Connect(), b = Connect();
  for (const Pair* pair : {&a, &b}) {
    Send(*pair, 11);
    table_.Add(pair->server.get(), now_);
  }
  EXPECT_FALSE(table_.MakeRoom(now_ + absl::Hours(1)));
  Send(a, 1);
  Send(b, 1);
}

}  // namespace
}  // namespace rnnserve
