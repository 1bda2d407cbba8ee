// SPDX-License-Identifier: Apache-2.0
#include "server/transport/connection_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/transport/listen_socket.h"
#include "tests/server/transport/loopback.h"

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
  ConnectionTable table_{{.greeting_bytes = 10, .min_age = absl::Seconds(1), .sweep_interval = absl::Milliseconds(50)}};
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(ConnectionTableTest, AClosedConnectionIsNoticedAtTheNextSweep) {
  Pair a = Connect(), b = Connect();
  for (const Pair* pair : {&a, &b}) table_.Add(pair->server.get(), now_);
  table_.Sweep(now_);
  a.server.Close();
  table_.Sweep(now_ + absl::Milliseconds(49));
  EXPECT_EQ(table_.size(), 2u) << "it does not sweep all the time";
  table_.Sweep(now_ + absl::Milliseconds(50));
  EXPECT_EQ(table_.size(), 1u);
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
  EXPECT_EQ(table_.GiveUp(1, now_), 1u);
  EXPECT_TRUE(HungUp(silent.client));
  Send(called, 1);  // still there
}

TEST_F(ConnectionTableTest, WhoHasJustComeMayStay) {
  const Pair a = Connect(), b = Connect();
  table_.Add(a.server.get(), now_);
  table_.Add(b.server.get(), now_ + absl::Nanoseconds(1));
  EXPECT_EQ(table_.GiveUp(2, now_ + absl::Seconds(1) - absl::Nanoseconds(1)), 0u);
  Send(a, 1);
  Send(b, 1);
  EXPECT_EQ(table_.GiveUp(2, now_ + absl::Seconds(1)), 1u);
  EXPECT_TRUE(HungUp(a.client));
  Send(b, 1);
}

TEST_F(ConnectionTableTest, NobodyIsGivenUpTwice) {
  const Pair a = Connect(), b = Connect();
  for (const Pair* pair : {&a, &b}) table_.Add(pair->server.get(), now_);
  now_ += absl::Seconds(1);
  EXPECT_EQ(table_.GiveUp(1, now_), 1u);
  Send(b, 1);
  EXPECT_EQ(table_.GiveUp(1, now_), 1u);
  EXPECT_TRUE(HungUp(a.client));
  EXPECT_TRUE(HungUp(b.client));
  EXPECT_EQ(table_.GiveUp(1, now_), 0u);
}

TEST_F(ConnectionTableTest, WhoHasCalledIsNeverGivenUp) {
  const Pair a = Connect(), b = Connect();
  for (const Pair* pair : {&a, &b}) {
    Send(*pair, 11);
    table_.Add(pair->server.get(), now_);
  }
  EXPECT_EQ(table_.GiveUp(2, now_ + absl::Hours(1)), 0u);
  Send(a, 1);
  Send(b, 1);
}

TEST_F(ConnectionTableTest, OnTrialAreThoseOfTheLastSecondWithoutACall) {
  const Pair old = Connect(), called = Connect(), silent = Connect(), silent_too = Connect();
  Pair gone = Connect();
  table_.Add(old.server.get(), now_);
  now_ += absl::Nanoseconds(1);
  for (const Pair* pair : std::initializer_list<const Pair*>{&called, &silent, &silent_too, &gone})
    table_.Add(pair->server.get(), now_);
  Send(called, 11);
  gone.server.Close();
  now_ += absl::Seconds(1) - absl::Nanoseconds(1);
  const auto expect = [&](size_t most, size_t waiting, size_t proved) {
    const auto handshakes = table_.InHandshake(most, now_);
    EXPECT_EQ(handshakes.waiting, waiting);
    EXPECT_EQ(handshakes.proved, proved);
  };
  expect(9, 2, 1);
  expect(1, 1, 0);
  Send(silent, 11);
  expect(9, 1, 1);  // each is told once
  now_ += absl::Nanoseconds(1);
  expect(9, 0, 0);
}

}  // namespace
}  // namespace rnnserve
