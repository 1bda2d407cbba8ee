// SPDX-License-Identifier: Apache-2.0
// The parts a session is made of, each by itself.
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "server/sessions/contract/aging.h"
#include "server/sessions/contract/creation_order.h"
#include "server/sessions/contract/ended_sessions.h"
#include "server/sessions/contract/expiry_wheel.h"
#include "server/sessions/contract/rate_limit.h"
#include "server/sessions/contract/window.h"
#include "tests/server/sessions/contract/session_fixture.h"

namespace rnnserve {
namespace {

Window::Kept KeptOf(uint64_t number, size_t bytes) {
  return {number, {number, 0}, {number, 0}, std::make_shared<TextReply>(std::string(bytes, 'x'))};
}

TEST(WindowTest, KeepsTheNewestWithinOperations) {
  Window window;
  const Window::Limits limits = {3, 1000};
  for (uint64_t n = 1; n <= 5; ++n) window.Keep(KeptOf(n, 10), limits);
  for (uint64_t n = 1; n <= 6; ++n) EXPECT_EQ(window.Find(n) != nullptr, n >= 3 && n <= 5) << n;
  EXPECT_EQ(window.bytes(), 30);
}

TEST(WindowTest, KeepsTheNewestWithinBytes) {
  Window window;
  const Window::Limits limits = {100, 25};
  for (uint64_t n = 1; n <= 5; ++n) window.Keep(KeptOf(n, 10), limits);
  for (uint64_t n = 1; n <= 5; ++n) EXPECT_EQ(window.Find(n) != nullptr, n >= 4) << n;
  window.Keep(KeptOf(6, 25), limits);
  EXPECT_EQ(window.Find(5), nullptr);
  EXPECT_NE(window.Find(6), nullptr);
}

TEST(WindowTest, OfNoOperationsKeepsNothing) {
  Window window;
  const Window::Limits limits = {0, 0};
  EXPECT_TRUE(limits.Fits(1 << 30));
  window.Keep(KeptOf(1, 10), limits);
  EXPECT_EQ(window.Find(1), nullptr);
  EXPECT_EQ(window.bytes(), 0);
}

TEST(RateLimitTest, GivesABurstAndThenTheRate) {
  RateLimit rate(10);
  int taken = 0;
  for (int k = 0; k < 100; ++k) taken += rate.Take(absl::Seconds(5));
  EXPECT_EQ(taken, 10);
  EXPECT_FALSE(rate.Take(absl::Seconds(5) + absl::Milliseconds(99)));
  EXPECT_TRUE(rate.Take(absl::Seconds(5) + absl::Milliseconds(200)));
}

TEST(AgingClockTest, OneSweepAgesByOnePeriodAtMost) {
  FakeClock clock;
  AgingClock aging(&clock, absl::Seconds(1));
  const absl::Duration start = aging.Now();
  clock.Move(absl::Milliseconds(400));
  EXPECT_EQ(aging.Now() - start, absl::Milliseconds(400));
  EXPECT_EQ(aging.Advance() - start, absl::Milliseconds(400));
  clock.Move(absl::Minutes(10));
  EXPECT_EQ(aging.Now() - start, absl::Milliseconds(1400));
  EXPECT_EQ(aging.Advance() - start, absl::Milliseconds(1400));
  EXPECT_EQ(aging.Now() - start, absl::Milliseconds(1400));
}

struct Reminder {
  WheelPosition wheel_position;
  int id = 0;
};

TEST(ExpiryWheelTest, EachItemComesUpInItsPeriod) {
  ExpiryWheel<std::shared_ptr<Reminder>> wheel(absl::Seconds(1));
  std::vector<std::shared_ptr<Reminder>> items;
  for (int k = 0; k < 50; ++k) {
    items.push_back(std::make_shared<Reminder>());
    items.back()->id = k;
    wheel.Add(items.back(), absl::Seconds(k) + absl::Milliseconds(500));
  }
  for (int k = 0; k < 50; k += 7) wheel.Remove(items[static_cast<size_t>(k)]);
  std::set<int> seen;
  for (int second = 0; second < 60; ++second) {
    for (const auto& item : wheel.TakeDue(absl::Seconds(second), 100)) {
      EXPECT_GE(second, item->id + 1);
      EXPECT_LE(second, item->id + 2);
      EXPECT_TRUE(seen.insert(item->id).second);
    }
  }
  for (int k = 0; k < 50; ++k) EXPECT_EQ(seen.contains(k), k % 7 != 0) << k;
}

TEST(ExpiryWheelTest, FarTimesComeUpEarlyAndManyComeInParts) {
  ExpiryWheel<std::shared_ptr<Reminder>> wheel(absl::Seconds(1));
  for (int k = 0; k < 10; ++k) wheel.Add(std::make_shared<Reminder>(), absl::Hours(1000));
  size_t found = 0;
  for (int second = 0; second < 2000; ++second) found += wheel.TakeDue(absl::Seconds(second), 3).size();
  EXPECT_EQ(found, 10u);
}

TEST(CreationOrderTest, PagesGoOnWhileItemsGo) {
  CreationOrder<std::shared_ptr<int>> order;
  for (uint64_t k = 1; k <= 100; ++k) order.Add(k, std::make_shared<int>(static_cast<int>(k)));
  for (uint64_t k = 1; k <= 100; ++k) {
    if (k % 10 != 0) order.Remove(k);
  }
  order.Remove(1);  // gone already
  EXPECT_EQ(order.size(), 10u);
  const auto first = order.Page(0, 4);
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(*first.back().second, 40);
  order.Remove(40);
  order.Remove(50);
  const auto second = order.Page(first.back().first, 100);
  ASSERT_EQ(second.size(), 5u);
  EXPECT_EQ(*second.front().second, 60);
}

TEST(EndedSessionsTest, RemembersTheLastOnes) {
  EndedSessions ended(2);
  SessionKey a, b, c;
  a.id.bytes[0] = 1, b.id.bytes[0] = 2, c.id.bytes[0] = 3;
  ended.Remember(a, {EndCause::kClosed, {7, 9}});
  ended.Remember(b, {EndCause::kExpired, {}});
  EXPECT_EQ(ended.Find(a)->numbers.last_applied, 7u);
  ended.Remember(c, {EndCause::kExpired, {}});
  EXPECT_FALSE(ended.Find(a).has_value());
  EXPECT_EQ(ended.Find(b)->cause, EndCause::kExpired);
  b.boot = 9;
  EXPECT_FALSE(ended.Find(b).has_value()) << "another session of that name";
}

}  // namespace
}  // namespace rnnserve
