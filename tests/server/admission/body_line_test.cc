// SPDX-License-Identifier: Apache-2.0
#include "server/admission/body_line.h"

#include <gmock/gmock.h>
#include <grpcpp/completion_queue.h>
#include <gtest/gtest.h>

#include <list>
#include <optional>
#include <vector>

namespace rnnserve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kLimit = 100 * kMiB;

class BodyLineTest : public testing::Test {
 protected:
  struct Call {
    BodyLine::Reservation reservation;
    std::optional<absl::Status> status;  // once it has had its turn
  };

  ~BodyLineTest() override {
    calls_.clear();
    while (line_ && line_->waiting() > 0) Pump();
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) static_cast<CompletionTag*>(tag)->Complete(ok);
  }

  BodyLine& Line(BodyLine::Options options) {
    options.let_in = [this](int64_t bytes) { let_in_ = bytes; };
    return line_.emplace(options, &queue_);
  }
  // Every message of 10 MiB, and answers of the same.
  void Expect10() {
    sizes_.SawMessage(10 * kMiB, absl::UnixEpoch());
    sizes_.SawReply(10 * kMiB, 10 * kMiB, absl::UnixEpoch());
  }
  Call& Come(uint64_t caller) {
    Call& call = calls_.emplace_back();
    Serve(call, caller);
    return call;
  }
  CallTask Serve(Call& call, uint64_t caller) {
    const absl::Status status = co_await line_->Turn(call.reservation, caller, sizes_);
    call.status = status;
    if (status.ok()) served_.push_back(caller);
  }
  void Go(Call& call) {
    calls_.remove_if([&](const Call& other) { return &other == &call; });
  }
  // The next of the line's own looks.
  void Pump() {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue_.Next(&tag, &ok));
    static_cast<CompletionTag*>(tag)->Complete(ok);
  }

  int64_t resident_ = 0;
  MemoryWatch memory_{kLimit, [this] { return resident_; }};
  MemoryWatch machine_{int64_t{64} << 30, [] { return int64_t{0}; }};
  grpc::CompletionQueue queue_;
  CallSizes sizes_;
  int64_t let_in_ = 0;
  std::vector<uint64_t> served_;
  std::optional<BodyLine> line_;
  std::list<Call> calls_;
};

TEST_F(BodyLineTest, LetsInWhatFits) {
  Line({.max_bytes = 80 * kMiB, .max_wait = absl::InfiniteDuration()});
  Expect10();
  for (int k = 0; k < 7; ++k) EXPECT_TRUE(Come(1).status);
  EXPECT_FALSE(Come(1).status) << "the last eighth is for others";
  EXPECT_GE(let_in_, 70 * kMiB);
  Call& first = calls_.front();
  first.reservation.Came(kMiB);  // less than expected
  EXPECT_FALSE(calls_.back().status) << "still too little";
  Go(first);
  EXPECT_TRUE(calls_.back().status);
  EXPECT_EQ(line_->waiting(), 0);
}

TEST_F(BodyLineTest, WhatIsUnknownIsExpectedToBeNoLargerThanAMessageMayBe) {
  Line({.max_bytes = 1024 * kMiB,
        .max_message_bytes = 64 * kMiB,
        .max_wait = absl::InfiniteDuration(),
        .memory = &machine_});
  for (uint64_t caller = 0; caller < 8; ++caller) EXPECT_TRUE(Come(caller).status) << caller;
}

TEST_F(BodyLineTest, CallersTakeTurns) {
  Line({.max_bytes = 8 * kMiB, .max_wait = absl::InfiniteDuration()});
  Expect10();
  Call& first = Come(1);  // alone, so that it may
  for (const uint64_t caller : {1, 1, 1, 2, 3}) Come(caller);
  served_.clear();
  Go(first);
  while (line_->waiting() > 0) calls_.remove_if([](const Call& call) { return call.status.has_value(); });
  EXPECT_THAT(served_, ElementsAre(1, 2, 3, 1, 1));
}

TEST_F(BodyLineTest, WhoWaitsTooLongIsToldToComeAgain) {
  Line({.max_bytes = 8 * kMiB, .max_wait = absl::ZeroDuration()});
  Expect10();
  Come(1);
  const Call& late = Come(1);
  EXPECT_FALSE(late.status);
  Pump();
  ASSERT_TRUE(late.status);
  EXPECT_EQ(late.status->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(line_->waiting(), 0);
}

TEST_F(BodyLineTest, TheLineIsBounded) {
  Line({.max_bytes = 8 * kMiB, .max_waiting = 2, .max_wait = absl::InfiniteDuration()});
  Expect10();
  Call& first = Come(1);
  Come(1);
  Come(1);
  const Call& refused = Come(1);
  ASSERT_TRUE(refused.status);
  EXPECT_EQ(refused.status->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(line_->waiting(), 2);
  Go(first);
  calls_.remove_if([](const Call& call) { return call.status && call.status->ok(); });
}

TEST_F(BodyLineTest, MemoryIsForAllThatACallNeeds) {
  Line({.max_wait = absl::InfiniteDuration(), .memory = &memory_});
  Expect10();
  EXPECT_TRUE(Come(1).status);  // 40 MiB each
  EXPECT_FALSE(Come(1).status);
  Call& first = calls_.front();
  first.reservation.Came(10 * kMiB);
  resident_ = 10 * kMiB;
  first.reservation.Parsed();
  resident_ = 20 * kMiB;  // the rest is promised elsewhere from here on
  Pump();
  EXPECT_TRUE(calls_.back().status);
}

TEST_F(BodyLineTest, WhatIsNotKnownIsTakenForLarge) {
  Line({.max_wait = absl::InfiniteDuration(), .memory = &memory_});
  int let_in = 0;
  for (int k = 0; k < 100; ++k) let_in += Come(1).status ? 1 : 0;
  EXPECT_GT(let_in, 1);
  EXPECT_LT(let_in, 10);
  sizes_.SawMessage(100, absl::UnixEpoch());
  calls_.front().reservation.Came(100);
  calls_.front().reservation.Parsed();
  Pump();
  EXPECT_EQ(line_->waiting(), 0) << "now it is";
}

TEST_F(BodyLineTest, WhoSendsNothingHoldsNoRoomForLong) {
  Line({.max_bytes = 8 * kMiB, .max_wait = absl::InfiniteDuration(), .max_kept = absl::ZeroDuration()});
  Expect10();
  for (int k = 0; k < 3; ++k) EXPECT_TRUE(Come(1).status);
}

TEST(RecentLargest, ForgetsWhatWasLongAgo) {
  RecentLargest sizes;
  const absl::Time begin = absl::UnixEpoch();
  EXPECT_EQ(sizes.Get(), 0);
  sizes.Saw(100, begin);
  sizes.Saw(1, begin + absl::Seconds(1));
  EXPECT_EQ(sizes.Get(), 100);
  sizes.Saw(2, begin + absl::Seconds(6));
  EXPECT_EQ(sizes.Get(), 100) << "of the seconds before";
  sizes.Saw(3, begin + absl::Seconds(12));
  EXPECT_EQ(sizes.Get(), 3);
}

}  // namespace
}  // namespace rnnserve
