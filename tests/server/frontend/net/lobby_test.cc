// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/net/lobby.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <string_view>
#include <vector>

#include "tests/server/frontend/net/loopback.h"

namespace rnnserve {
namespace {

constexpr std::string_view kGreeting("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

class LobbyTest : public testing::Test {
 protected:
  // The client's end of a connection that waits in the lobby, and its number there.
  struct Guest {
    OwnedFd client;
    int fd;
  };

  Guest Come(std::string_view said = "") {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    Guest guest = {OwnedFd(ends[0]), ends[1]};
    fcntl(ends[0], F_SETFL, 0);  // the client's end blocks
    Say(guest, said);
    lobby_.Add(guest.fd, now_);
    return guest;
  }
  static void Say(const Guest& guest, std::string_view bytes) {
    EXPECT_EQ(send(guest.client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  bool WantsToLook() const {
    pollfd ready = {lobby_.fd(), POLLIN, 0};
    return poll(&ready, 1, 0) == 1;
  }
  // Takes the one whose turn it is, and gives it up.
  int Take() {
    const int fd = lobby_.Take();
    if (fd >= 0) close(fd);
    return fd;
  }

  const std::shared_ptr<Counter> dismissed_ = std::make_shared<Counter>(), refused_ = std::make_shared<Counter>();
  Lobby lobby_{{.patience = absl::Seconds(5), .grace = absl::Milliseconds(200)}, dismissed_, refused_};
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(LobbyTest, OnlyThoseWhoHaveGreetedAreTaken) {
  const Guest silent = Come(), half = Come(kGreeting.substr(0, 32));
  lobby_.Look(now_);
  EXPECT_EQ(lobby_.Take(), -1);
  const Guest greeted = Come(kGreeting);
  EXPECT_EQ(Take(), greeted.fd) << "it has greeted before it came in";
  EXPECT_EQ(lobby_.size(), 2u);
  EXPECT_EQ(dismissed_->value() + refused_->value(), 0);
}

TEST_F(LobbyTest, AGreetingInSingleBytesIsTakenWithItsLast) {
  const Guest guest = Come();
  for (const char& byte : kGreeting) {
    EXPECT_FALSE(lobby_.has_greeted());
    Say(guest, {&byte, 1});
    EXPECT_TRUE(WantsToLook());
    lobby_.Look(now_);
    EXPECT_FALSE(WantsToLook()) << "what has been looked at is no reason to look again";
  }
  const int fd = lobby_.Take();
  ASSERT_EQ(fd, guest.fd);
  char all[64];
  EXPECT_EQ(recv(fd, all, sizeof(all), 0), static_cast<ssize_t>(kGreeting.size())) << "nothing of it has been read";
  close(fd);
}

TEST_F(LobbyTest, WhoHasBeenTakenIsNoLongerLookedAt) {
  const Guest guest = Come(kGreeting);
  const int fd = lobby_.Take();
  lobby_.Look(now_);
  Say(guest, "a call");
  EXPECT_FALSE(WantsToLook());
  EXPECT_EQ(lobby_.size(), 0u);
  close(fd);
}

TEST_F(LobbyTest, TheLastWhoGreetedIsFirst) {
  const Guest a = Come(), b = Come(kGreeting), c = Come(kGreeting);
  Say(a, kGreeting);
  lobby_.Look(now_);
  EXPECT_EQ(Take(), a.fd);
  EXPECT_EQ(Take(), c.fd);
  EXPECT_EQ(Take(), b.fd);
}

TEST_F(LobbyTest, AWrongGreetingIsDismissedAtOnce) {
  const Guest at_once = Come("GET / HTTP/1.1\r\n\r\n"), later = Come("PRI");
  EXPECT_TRUE(HungUp(at_once.client));
  EXPECT_EQ(lobby_.size(), 1u);
  Say(later, "NT");
  lobby_.Look(now_);
  EXPECT_TRUE(HungUp(later.client));
  EXPECT_EQ(dismissed_->value(), 2);
}

TEST_F(LobbyTest, WhoeverDoesNotGreetInTimeIsDismissed) {
  EXPECT_EQ(lobby_.next_end(), absl::InfiniteFuture());
  const Guest greeted = Come(kGreeting), slow = Come("PRI");
  EXPECT_EQ(lobby_.next_end(), now_ + absl::Seconds(5));
  now_ += absl::Seconds(5) - absl::Nanoseconds(1);
  Say(slow, " ");
  lobby_.Look(now_);
  EXPECT_EQ(dismissed_->value(), 0);
  now_ += absl::Nanoseconds(1);
  lobby_.Look(now_);
  EXPECT_TRUE(HungUp(slow.client));
  EXPECT_EQ(dismissed_->value(), 1);
  EXPECT_EQ(Take(), greeted.fd) << "it is not its fault that it waits";
}

TEST_F(LobbyTest, WhoeverLeavesIsForgotten) {
  Guest silent = Come(), greeted = Come(kGreeting);
  const Guest half_closed = Come(kGreeting);
  silent.client.Close();
  greeted.client.Close();
  shutdown(half_closed.client.get(), SHUT_WR);
  lobby_.Look(now_);
  EXPECT_EQ(lobby_.size(), 0u);
  EXPECT_FALSE(lobby_.has_greeted());
  EXPECT_EQ(dismissed_->value(), 3);
}

TEST_F(LobbyTest, WhoHadLeftBeforeItCameIn) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  close(ends[0]);
  lobby_.Add(ends[1], now_);
  EXPECT_EQ(lobby_.size(), 0u);
}

TEST_F(LobbyTest, ToMakeRoomTheOldestSilentOneGoesThenTheOldestWhoGreeted) {
  const Guest greeted = Come(kGreeting), later = Come(kGreeting), silent = Come(), silent_too = Come();
  now_ += absl::Milliseconds(200);
  const Guest just_came = Come();
  for (const Guest* guest : {&silent, &silent_too, &greeted, &later, &just_came}) {
    const size_t before = lobby_.size();
    EXPECT_TRUE(lobby_.Drop(now_));
    EXPECT_TRUE(HungUp(guest->client));
    EXPECT_EQ(lobby_.size(), before - 1);
  }
  EXPECT_FALSE(lobby_.Drop(now_));
  EXPECT_EQ(refused_->value(), 5);
}

TEST_F(LobbyTest, MoreAtOnceThanItLooksAtAtOnce) {
  std::vector<Guest> guests;
  for (int k = 0; k < 200; ++k) guests.push_back(Come());
  for (const Guest& guest : guests) Say(guest, kGreeting);
  while (WantsToLook()) lobby_.Look(now_);
  for (int k = 0; k < 200; ++k) EXPECT_GE(Take(), 0) << k;
}

TEST_F(LobbyTest, ClearHangsUpOnAll) {
  const Guest silent = Come(), greeted = Come(kGreeting);
  lobby_.Clear();
  EXPECT_TRUE(HungUp(silent.client));
  EXPECT_TRUE(HungUp(greeted.client));
  EXPECT_EQ(lobby_.size(), 0u);
}

}  // namespace
}  // namespace rnnserve
