// SPDX-License-Identifier: Apache-2.0
#include "server/frontend/net/lobby.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/server/frontend/net/loopback.h"

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
  // Whether it has been answered, once.
  static bool IsAnswered(const Guest& guest) {
    char said[64];
    const ssize_t got = recv(guest.client.get(), said, sizeof(said), MSG_DONTWAIT);
    return got > 0 && std::string_view(said, static_cast<size_t>(got)) == kAnswer;
  }
  // Takes the one whose turn it is, and gives it up.
  static int GiveUp(int fd) {
    if (fd >= 0) close(fd);
    return fd;
  }
  int TakeGreeted() { return GiveUp(lobby_.TakeGreeted()); }
  int TakeCaller() { return GiveUp(lobby_.TakeCaller()); }

  const std::shared_ptr<Counter> dismissed_ = std::make_shared<Counter>(), refused_ = std::make_shared<Counter>();
  Lobby lobby_{{.answer = std::string(kAnswer), .patience = absl::Seconds(5), .grace = absl::Milliseconds(200)},
               dismissed_,
               refused_};
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(LobbyTest, OnlyThoseWhoHaveGreetedAreTaken) {
  const Guest silent = Come(), half = Come(kGreeting.substr(0, 32));
  lobby_.Look(now_);
  EXPECT_EQ(lobby_.TakeGreeted(), -1);
  EXPECT_EQ(lobby_.TakeCaller(), -1);
  const Guest greeted = Come(kGreeting);
  EXPECT_EQ(TakeGreeted(), greeted.fd) << "it has greeted before it came in";
  const Guest calling = Come(kGreetingAndCall);
  EXPECT_EQ(TakeCaller(), calling.fd);
  EXPECT_EQ(lobby_.size(), 2u);
  EXPECT_EQ(dismissed_->value() + refused_->value(), 0);
}

TEST_F(LobbyTest, AGreetingAndACallInSingleBytes) {
  const Guest guest = Come();
  for (size_t k = 0; k < kGreetingAndCall.size(); ++k) {
    EXPECT_EQ(lobby_.has_greeted(), k >= kGreeting.size());
    EXPECT_FALSE(lobby_.has_callers());
    Say(guest, {&kGreetingAndCall[k], 1});
    EXPECT_TRUE(WantsToLook());
    lobby_.Look(now_);
    EXPECT_FALSE(WantsToLook()) << "what has been looked at is no reason to look again";
  }
  EXPECT_FALSE(lobby_.has_greeted());
  EXPECT_TRUE(IsAnswered(guest));
  const int fd = lobby_.TakeCaller();
  ASSERT_EQ(fd, guest.fd);
  char all[64];
  EXPECT_EQ(recv(fd, all, sizeof(all), 0), static_cast<ssize_t>(kGreetingAndCall.size()))
      << "nothing of it has been read";
  close(fd);
}

TEST_F(LobbyTest, WhoCallsAtOnceIsNotAnswered) {
  const Guest guest = Come(kGreetingAndCall), pinging = Come(std::string(kGreeting) + std::string(kPing));
  EXPECT_FALSE(IsAnswered(guest));
  EXPECT_TRUE(IsAnswered(pinging)) << "it may wait for that before it calls";
}

TEST_F(LobbyTest, WhoAsksForMoreIsNextAndNoCallerUntilItCalls) {
  const Guest guest = Come(kGreeting), caller = Come(kGreeting), other = Come(kGreeting);
  Say(caller, kPing);
  lobby_.Look(now_);
  Say(guest, kPing);
  lobby_.Look(now_);
  Say(caller, kPing);
  lobby_.Look(now_);
  EXPECT_FALSE(lobby_.has_callers());
  Say(caller, kCall);
  lobby_.Look(now_);
  EXPECT_EQ(TakeCaller(), caller.fd);
  EXPECT_FALSE(lobby_.has_callers());
  EXPECT_EQ(TakeGreeted(), guest.fd) << "its turn is next";
}

TEST_F(LobbyTest, WhoHasBeenTakenIsNoLongerLookedAt) {
  const Guest guest = Come(kGreeting);
  const int fd = lobby_.TakeGreeted();
  lobby_.Look(now_);
  Say(guest, "a call");
  EXPECT_FALSE(WantsToLook());
  EXPECT_EQ(lobby_.size(), 0u);
  close(fd);
}

TEST_F(LobbyTest, TheLastWhoSpokeIsFirst) {
  const Guest a = Come(), b = Come(kGreeting), c = Come(kGreeting);
  Say(a, kGreeting);
  lobby_.Look(now_);
  EXPECT_EQ(TakeGreeted(), a.fd);
  EXPECT_EQ(TakeGreeted(), c.fd);
  EXPECT_EQ(TakeGreeted(), b.fd);
  const Guest d = Come(kGreeting), e = Come(kGreetingAndCall);
  Say(d, kCall);
  lobby_.Look(now_);
  EXPECT_EQ(TakeCaller(), d.fd);
  EXPECT_EQ(TakeCaller(), e.fd);
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
  EXPECT_EQ(TakeGreeted(), greeted.fd) << "it is not its fault that it waits";
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

TEST_F(LobbyTest, ToMakeRoomTheOldestSilentOneGoesThenTheOldestWhoGreetedThenWhoCalls) {
  const Guest calling = Come(kGreetingAndCall), greeted = Come(kGreeting), later = Come(kGreeting), silent = Come(),
              silent_too = Come();
  now_ += absl::Milliseconds(200);
  const Guest just_came = Come();
  for (const Guest* guest : {&silent, &silent_too, &greeted, &later, &calling, &just_came}) {
    const size_t before = lobby_.size();
    EXPECT_TRUE(lobby_.Drop(now_));
    EXPECT_EQ(IsAnswered(*guest), guest == &greeted || guest == &later);
    EXPECT_TRUE(HungUp(guest->client));
    EXPECT_EQ(lobby_.size(), before - 1);
  }
  EXPECT_FALSE(lobby_.Drop(now_));
  EXPECT_EQ(refused_->value(), 6);
}

TEST_F(LobbyTest, MoreAtOnceThanItLooksAtAtOnce) {
  std::vector<Guest> guests;
  for (int k = 0; k < 200; ++k) guests.push_back(Come());
  for (const Guest& guest : guests) Say(guest, kGreeting);
  while (WantsToLook()) lobby_.Look(now_);
  for (int k = 0; k < 200; ++k) EXPECT_GE(TakeGreeted(), 0) << k;
}

TEST_F(LobbyTest, ClearHangsUpOnAll) {
  const Guest silent = Come(), greeted = Come(kGreeting);
  lobby_.Clear();
  EXPECT_TRUE(IsAnswered(greeted));
  EXPECT_TRUE(HungUp(silent.client));
  EXPECT_TRUE(HungUp(greeted.client));
  EXPECT_EQ(lobby_.size(), 0u);
}

}  // namespace
}  // namespace rnnserve
