// SPDX-License-Identifier: Apache-2.0
#include "server/transport/pending_connections.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/server/transport/loopback.h"

namespace rnnserve {
namespace {

constexpr std::string_view kGreeting("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
constexpr std::string_view kCall("\0\0\1\1\4\0\0\0\1\x82", 10);
constexpr std::string_view kPing(
    "\0\0\x8\6\0\0\0\0\0"
    "12345678",
    17);
constexpr std::string_view kAnswer = "the server's greeting";
const std::string kGreetingAndCall = std::string(kGreeting) + std::string(kCall);

class PendingConnectionsTest : public testing::Test {
 protected:
  // The client's end of a connection that waits in the pending, and its number there.
  struct Connection {
    OwnedFd client;
    int fd;
  };

  Connection Come(std::string_view said = "") {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    Connection connection = {OwnedFd(ends[0]), ends[1]};
    fcntl(ends[0], F_SETFL, 0);  // the client's end blocks
    Say(connection, said);
    pending_.Add(connection.fd, now_);
    return connection;
  }
  static void Say(const Connection& connection, std::string_view bytes) {
    EXPECT_EQ(send(connection.client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  bool WantsToInspect() const {
    pollfd ready = {pending_.fd(), POLLIN, 0};
    return poll(&ready, 1, 0) == 1;
  }
  // Whether it has been answered, once.
  static bool IsAnswered(const Connection& connection) {
    char said[64];
    const ssize_t got = recv(connection.client.get(), said, sizeof(said), MSG_DONTWAIT);
    return got > 0 && std::string_view(said, static_cast<size_t>(got)) == kAnswer;
  }
  // Takes the one whose turn it is, and gives it up.
  static int GiveUp(int fd) {
    if (fd >= 0) close(fd);
    return fd;
  }
  int TakeGreeted() { return GiveUp(pending_.TakeGreeted()); }
  int TakeCaller() { return GiveUp(pending_.TakeCaller()); }

  const std::shared_ptr<Counter> dismissed_ = std::make_shared<Counter>(), refused_ = std::make_shared<Counter>();
  PendingConnections pending_{
      {.answer = std::string(kAnswer), .patience = absl::Seconds(5), .grace = absl::Milliseconds(200)},
      dismissed_,
      refused_};
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(PendingConnectionsTest, OnlyThoseWhoHaveGreetedAreTaken) {
  const Connection silent = Come(), half = Come(kGreeting.substr(0, 32));
  pending_.Inspect(now_);
  EXPECT_EQ(pending_.TakeGreeted(), -1);
  EXPECT_EQ(pending_.TakeCaller(), -1);
  const Connection greeted = Come(kGreeting);
  EXPECT_EQ(TakeGreeted(), greeted.fd) << "it has greeted before it came in";
  const Connection calling = Come(kGreetingAndCall);
  EXPECT_EQ(TakeCaller(), calling.fd);
  EXPECT_EQ(pending_.size(), 2u);
  EXPECT_EQ(dismissed_->value() + refused_->value(), 0);
}

TEST_F(PendingConnectionsTest, AGreetingAndACallInSingleBytes) {
  const Connection connection = Come();
  for (size_t k = 0; k < kGreetingAndCall.size(); ++k) {
    EXPECT_EQ(pending_.has_greeted(), k >= kGreeting.size());
    EXPECT_FALSE(pending_.has_callers());
    Say(connection, {&kGreetingAndCall[k], 1});
    EXPECT_TRUE(WantsToInspect());
    pending_.Inspect(now_);
    EXPECT_FALSE(WantsToInspect()) << "what has been looked at is no reason to look again";
  }
  EXPECT_FALSE(pending_.has_greeted());
  EXPECT_TRUE(IsAnswered(connection));
  const int fd = pending_.TakeCaller();
  ASSERT_EQ(fd, connection.fd);
  char all[64];
  EXPECT_EQ(recv(fd, all, sizeof(all), 0), static_cast<ssize_t>(kGreetingAndCall.size()))
      << "nothing of it has been read";
  close(fd);
}

// So that each acknowledges what came before gRPC's settings, and FrameGuard hides that.
TEST_F(PendingConnectionsTest, WhoCallsAtOnceIsAnsweredToo) {
  const Connection connection = Come(kGreetingAndCall), pinging = Come(std::string(kGreeting) + std::string(kPing));
  EXPECT_TRUE(IsAnswered(connection));
  EXPECT_TRUE(IsAnswered(pinging)) << "it may wait for that before it calls";
}

TEST_F(PendingConnectionsTest, WhoAsksForMoreIsNextAndNoCallerUntilItCalls) {
  const Connection connection = Come(kGreeting), caller = Come(kGreeting), other = Come(kGreeting);
  Say(caller, kPing);
  pending_.Inspect(now_);
  Say(connection, kPing);
  pending_.Inspect(now_);
  Say(caller, kPing);
  pending_.Inspect(now_);
  EXPECT_FALSE(pending_.has_callers());
  Say(caller, kCall);
  pending_.Inspect(now_);
  EXPECT_EQ(TakeCaller(), caller.fd);
  EXPECT_FALSE(pending_.has_callers());
  EXPECT_EQ(TakeGreeted(), connection.fd) << "its turn is next";
}

TEST_F(PendingConnectionsTest, WhoHasBeenTakenIsNoLongerLookedAt) {
  const Connection connection = Come(kGreeting);
  const int fd = pending_.TakeGreeted();
  pending_.Inspect(now_);
  Say(connection, "a call");
  EXPECT_FALSE(WantsToInspect());
  EXPECT_EQ(pending_.size(), 0u);
  close(fd);
}

TEST_F(PendingConnectionsTest, TheLastWhoSpokeIsFirst) {
  const Connection a = Come(), b = Come(kGreeting), c = Come(kGreeting);
  Say(a, kGreeting);
  pending_.Inspect(now_);
  EXPECT_EQ(TakeGreeted(), a.fd);
  EXPECT_EQ(TakeGreeted(), c.fd);
  EXPECT_EQ(TakeGreeted(), b.fd);
  const Connection d = Come(kGreeting), e = Come(kGreetingAndCall);
  Say(d, kCall);
  pending_.Inspect(now_);
  EXPECT_EQ(TakeCaller(), d.fd);
  EXPECT_EQ(TakeCaller(), e.fd);
}

TEST_F(PendingConnectionsTest, AWrongGreetingIsDismissedAtOnce) {
  const Connection at_once = Come("GET / HTTP/1.1\r\n\r\n"), later = Come("PRI");
  EXPECT_TRUE(HungUp(at_once.client));
  EXPECT_EQ(pending_.size(), 1u);
  Say(later, "NT");
  pending_.Inspect(now_);
  EXPECT_TRUE(HungUp(later.client));
  EXPECT_EQ(dismissed_->value(), 2);
}

TEST_F(PendingConnectionsTest, WhoeverDoesNotGreetInTimeIsDismissed) {
  EXPECT_EQ(pending_.next_end(), absl::InfiniteFuture());
  const Connection greeted = Come(kGreeting), slow = Come("PRI");
  EXPECT_EQ(pending_.next_end(), now_ + absl::Seconds(5));
  now_ += absl::Seconds(5) - absl::Nanoseconds(1);
  Say(slow, " ");
  pending_.Inspect(now_);
  EXPECT_EQ(dismissed_->value(), 0);
  now_ += absl::Nanoseconds(1);
  pending_.Inspect(now_);
  EXPECT_TRUE(HungUp(slow.client));
  EXPECT_EQ(dismissed_->value(), 1);
  EXPECT_EQ(TakeGreeted(), greeted.fd) << "it is not its fault that it waits";
}

TEST_F(PendingConnectionsTest, WhoeverLeavesIsForgotten) {
  Connection silent = Come(), greeted = Come(kGreeting);
  const Connection half_closed = Come(kGreeting);
  silent.client.Close();
  greeted.client.Close();
  shutdown(half_closed.client.get(), SHUT_WR);
  pending_.Inspect(now_);
  EXPECT_EQ(pending_.size(), 0u);
  EXPECT_FALSE(pending_.has_greeted());
  EXPECT_EQ(dismissed_->value(), 3);
}

TEST_F(PendingConnectionsTest, WhoHadLeftBeforeItCameIn) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  close(ends[0]);
  pending_.Add(ends[1], now_);
  EXPECT_EQ(pending_.size(), 0u);
}

TEST_F(PendingConnectionsTest, ToMakeRoomTheOldestSilentOneGoesThenTheOldestWhoGreetedThenWhoCalls) {
  const Connection calling = Come(kGreetingAndCall), greeted = Come(kGreeting), later = Come(kGreeting),
                   silent = Come(), silent_too = Come();
  now_ += absl::Milliseconds(200);
  const Connection just_came = Come();
  for (const Connection* connection : {&silent, &silent_too, &greeted, &later, &calling, &just_came}) {
    const size_t before = pending_.size();
    EXPECT_TRUE(pending_.Drop(now_));
    EXPECT_EQ(IsAnswered(*connection), connection == &greeted || connection == &later || connection == &calling);
    EXPECT_TRUE(HungUp(connection->client));
    EXPECT_EQ(pending_.size(), before - 1);
  }
  EXPECT_FALSE(pending_.Drop(now_));
  EXPECT_EQ(refused_->value(), 6);
}

TEST_F(PendingConnectionsTest, MoreAtOnceThanItLooksAtAtOnce) {
  std::vector<Connection> connections;
  for (int k = 0; k < 200; ++k) connections.push_back(Come());
  for (const Connection& connection : connections) Say(connection, kGreeting);
  while (WantsToInspect()) pending_.Inspect(now_);
  for (int k = 0; k < 200; ++k) EXPECT_GE(TakeGreeted(), 0) << k;
}

TEST_F(PendingConnectionsTest, ClearHangsUpOnAll) {
  const Connection silent = Come(), greeted = Come(kGreeting);
  pending_.Clear();
  EXPECT_TRUE(IsAnswered(greeted));
  EXPECT_TRUE(HungUp(silent.client));
  EXPECT_TRUE(HungUp(greeted.client));
  EXPECT_EQ(pending_.size(), 0u);
}

}  // namespace
}  // namespace rnnserve
