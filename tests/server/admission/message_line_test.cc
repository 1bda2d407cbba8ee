// SPDX-License-Identifier: Apache-2.0
#include "server/admission/message_line.h"

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

class LineOfCallsTest : public testing::Test {
 protected:
  struct Call {
    explicit Call(LineOfCallsTest& test) : reservation(*test.line_, test.sizes_) {}
    // Of this size, to be parsed.
    void Came(int64_t bytes) { EXPECT_TRUE(reservation.Came(bytes, /*even_if_closed=*/false).ok()); }
    Reservation reservation;
    std::optional<absl::Status> status;  // once it has had its turn
  };

  ~LineOfCallsTest() override {
    calls_.clear();
    while (line_ && line_->waiting() > 0) Pump();
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) static_cast<CompletionTag*>(tag)->Complete(ok);
  }

  void Line(MessageLine::Options options, MemoryWatch* memory = nullptr) {
    options.on_admitted_bytes = [this](int64_t bytes) { admitted_bytes_ = bytes; };
    admission_.emplace(CallAdmission::Options{.memory = memory});
    line_.emplace(options, &*admission_, &queue_);
  }
  // Every message of 10 MiB, and answers of the same.
  void Expect10() {
    sizes_.SawMessage(10 * kMiB, absl::UnixEpoch());
    sizes_.SawReply(10 * kMiB, 10 * kMiB, absl::UnixEpoch());
  }
  Call& Come(uint64_t caller) {
    Call& call = calls_.emplace_back(*this);
    Serve(call, caller);
    return call;
  }
  CallTask Serve(Call& call, uint64_t caller) {
    const absl::Status status = co_await call.reservation.Turn(caller);
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
  int64_t admitted_bytes_ = 0;
  std::vector<uint64_t> served_;
  std::optional<CallAdmission> admission_;
  std::optional<MessageLine> line_;
  std::list<Call> calls_;
};

TEST_F(LineOfCallsTest, LetsInWhatFits) {
  Line({.max_bytes = 80 * kMiB, .max_wait = absl::InfiniteDuration()});
  Expect10();
  for (int k = 0; k < 7; ++k) EXPECT_TRUE(Come(1).status);
  EXPECT_FALSE(Come(1).status) << "the last eighth is for others";
  EXPECT_GE(admitted_bytes_, 70 * kMiB);
  Call& first = calls_.front();
  first.Came(kMiB);  // less than expected
  EXPECT_FALSE(calls_.back().status) << "still too little";
  Go(first);
  EXPECT_TRUE(calls_.back().status);
  EXPECT_EQ(line_->waiting(), 0);
}

TEST_F(LineOfCallsTest, WhatIsUnknownIsExpectedToBeNoLargerThanAMessageMayBe) {
  Line({.max_bytes = 1024 * kMiB, .max_message_bytes = 64 * kMiB, .max_wait = absl::InfiniteDuration()}, &machine_);
  for (uint64_t caller = 0; caller < 8; ++caller) EXPECT_TRUE(Come(caller).status) << caller;
}

TEST_F(LineOfCallsTest, CallersTakeTurns) {
  Line({.max_bytes = 8 * kMiB, .max_wait = absl::InfiniteDuration()});
  Expect10();
  Call& first = Come(1);  // alone, so that it may
  for (const uint64_t caller : {1, 1, 1, 2, 3}) Come(caller);
  served_.clear();
  Go(first);
  while (line_->waiting() > 0) calls_.remove_if([](const Call& call) { return call.status.has_value(); });
  EXPECT_THAT(served_, ElementsAre(1, 2, 3, 1, 1));
}

TEST_F(LineOfCallsTest, WhoWaitsTooLongIsToldToComeAgain) {
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

TEST_F(LineOfCallsTest, TheLineIsBounded) {
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

TEST_F(LineOfCallsTest, MemoryIsForAllThatACallNeeds) {
  Line({.max_wait = absl::InfiniteDuration()}, &memory_);
  Expect10();
  EXPECT_TRUE(Come(1).status);  // 40 MiB each
  EXPECT_FALSE(Come(1).status);
  Call& first = calls_.front();
  first.Came(10 * kMiB);
  resident_ = 10 * kMiB;
  first.reservation.Parsed();
  resident_ = 20 * kMiB;  // the rest is promised elsewhere from here on
  Pump();
  EXPECT_TRUE(calls_.back().status);
}

TEST_F(LineOfCallsTest, WhatIsNotKnownIsTakenForLarge) {
  Line({.max_wait = absl::InfiniteDuration()}, &memory_);
  int let_in = 0;
  for (int k = 0; k < 100; ++k) let_in += Come(1).status ? 1 : 0;
  EXPECT_GT(let_in, 1);
  EXPECT_LT(let_in, 10);
  sizes_.SawMessage(100, absl::UnixEpoch());
  calls_.front().Came(100);
  calls_.front().reservation.Parsed();
  Pump();
  EXPECT_EQ(line_->waiting(), 0) << "now it is";
}

TEST_F(LineOfCallsTest, WhoSendsNothingHoldsNoRoomForLong) {
  Line({.max_bytes = 8 * kMiB, .max_wait = absl::InfiniteDuration(), .max_kept = absl::ZeroDuration()});
  Expect10();
  for (int k = 0; k < 3; ++k) EXPECT_TRUE(Come(1).status);
}

class LineOfStreamsTest : public testing::Test {
 protected:
  struct Stream {
    Stream(MessageLine& line, CallSizes& sizes) : reservation(line, sizes) {}
    Reservation reservation;
    bool asked = false;
  };

  ~LineOfStreamsTest() override {
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) static_cast<CompletionTag*>(tag)->Complete(ok);
  }

  MessageLine& Line(absl::Duration kept, int64_t max_bytes, MemoryWatch* memory = nullptr) {
    MessageLine::Options options = MessageLine::ForStreams();
    options.max_kept = kept;
    options.max_bytes = max_bytes;
    options.max_message_bytes = 64 * kMiB;
    options.on_admitted_bytes = [this](int64_t bytes) { admitted_bytes_ = bytes; };
    admission_.emplace(CallAdmission::Options{.memory = memory});
    return line_.emplace(options, &*admission_, &queue_);
  }
  // One whose last message was as large.
  static void Sent(Stream& stream, int64_t bytes) {
    EXPECT_TRUE(stream.reservation.MessageCame(bytes).ok());
    stream.reservation.Parsed();
  }
  CallTask Ask(Stream& stream, uint64_t caller) {
    stream.asked = false;
    const absl::Status turn = co_await stream.reservation.Turn(caller);
    stream.asked = turn.ok();
    order_.push_back(caller);
  }
  // The next of the line's own looks.
  void Pump() {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue_.Next(&tag, &ok));
    static_cast<CompletionTag*>(tag)->Complete(ok);
  }

  grpc::CompletionQueue queue_;
  CallSizes sizes_;
  std::vector<uint64_t> order_;
  int64_t admitted_bytes_ = 0;
  std::optional<CallAdmission> admission_;
  std::optional<MessageLine> line_;
};

TEST_F(LineOfStreamsTest, SmallMessagesNeverWait) {
  MessageLine& line = Line(absl::Hours(1), 1);
  std::list<Stream> streams;
  for (uint64_t k = 0; k < 100; ++k) {
    Stream& stream = streams.emplace_back(line, sizes_);
    for (int message = 0; message < 3; ++message) {
      Sent(stream, 64 << 10);
      Ask(stream, k);
      EXPECT_TRUE(stream.asked);
    }
  }
  EXPECT_LT(admitted_bytes_, 2 * kMiB);
}

TEST_F(LineOfStreamsTest, LargeOnesWaitUntilThereIsRoomCallersInTurns) {
  MessageLine& line = Line(absl::Hours(1), 10 * kMiB);
  std::list<Stream> streams;
  for (const uint64_t caller : {1, 1, 1, 1, 2}) {
    Stream& stream = streams.emplace_back(line, sizes_);
    Sent(stream, 4 * kMiB);
    Ask(stream, caller);
  }
  EXPECT_THAT(order_, ElementsAre(1, 1));
  EXPECT_GE(admitted_bytes_, 8 * kMiB);
  Pump();
  EXPECT_THAT(order_, ElementsAre(1, 1)) << "no room yet";
  for (int k = 0; k < 3; ++k) {
    Sent(*std::next(streams.begin(), k), 4 * kMiB);
    Pump();
  }
  EXPECT_THAT(order_, ElementsAre(1, 1, 1, 2, 1));
}

TEST_F(LineOfStreamsTest, WhatIsUnknownIsExpectedToBeNoLargerThanAMessageMayBe) {
  MemoryWatch machine(int64_t{64} << 30, [] { return int64_t{0}; });
  MessageLine& line = Line(absl::Hours(1), 1024 * kMiB, &machine);
  std::list<Stream> streams;
  for (uint64_t caller = 0; caller < 8; ++caller) {
    Ask(streams.emplace_back(line, sizes_), caller);
    EXPECT_TRUE(streams.back().asked) << caller;
  }
}

TEST_F(LineOfStreamsTest, WhoIsAloneIsAskedWhateverHisMessagesTake) {
  MemoryWatch memory(64 * kMiB, [] { return 64 * kMiB; });
  MessageLine& line = Line(absl::Hours(1), 1, &memory);
  Stream first(line, sizes_), second(line, sizes_);
  for (Stream* const stream : {&first, &second}) {
    Sent(*stream, kMiB);
    Ask(*stream, 1);
  }
  EXPECT_TRUE(first.asked && !second.asked);
  Sent(first, kMiB);
  Pump();
  EXPECT_TRUE(second.asked);
}

TEST_F(LineOfStreamsTest, RoomIsNotKeptForThoseWhoSayNothing) {
  MessageLine& line = Line(absl::ZeroDuration(), 5 * kMiB);
  Stream silent(line, sizes_), other(line, sizes_);
  for (Stream* const stream : {&silent, &other}) {
    Sent(*stream, 4 * kMiB);
    Ask(*stream, 1);
    EXPECT_TRUE(stream->asked);
  }
}

TEST_F(LineOfStreamsTest, AMessageIsPromisedItsMemoryUntilItIsParsed) {
  MemoryWatch memory(112 * kMiB, [] { return int64_t{0}; });  // of which 86 MiB can be used
  MessageLine& line = Line(absl::Hours(1), 100 * kMiB, &memory);
  {
    Stream stream(line, sizes_);
    Sent(stream, 10 * kMiB);
    Ask(stream, 1);
    EXPECT_FALSE(memory.HasRoom(50 * kMiB)) << "four times the message is promised";
    {
      const auto in_flight = stream.reservation.MessageCame(10 * kMiB);
      EXPECT_FALSE(memory.HasRoom(50 * kMiB));
      EXPECT_TRUE(memory.HasRoom(45 * kMiB)) << "the message in flight is promised nothing more";
      stream.reservation.Parsed();
    }
    EXPECT_TRUE(memory.HasRoom(50 * kMiB, SteadyNow() + absl::Seconds(1))) << "once the process has been looked at";
    Ask(stream, 1);
  }
  EXPECT_TRUE(memory.HasRoom(80 * kMiB, SteadyNow() + absl::Hours(1))) << "with the stream goes its promise";
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
