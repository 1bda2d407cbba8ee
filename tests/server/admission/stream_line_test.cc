// SPDX-License-Identifier: Apache-2.0
#include "server/admission/stream_line.h"

#include <gmock/gmock.h>
#include <grpcpp/completion_queue.h>
#include <gtest/gtest.h>

#include <list>
#include <vector>

namespace rnnserve {
namespace {

using testing::ElementsAre;

constexpr int64_t kMiB = 1 << 20;

class StreamLineTest : public testing::Test {
 protected:
  struct Stream {
    explicit Stream(StreamLine& line) : reservation(line) {}
    StreamLine::Reservation reservation;
    bool asked = false;
  };

  ~StreamLineTest() override {
    queue_.Shutdown();
    void* tag = nullptr;
    for (bool ok = false; queue_.Next(&tag, &ok);) static_cast<CompletionTag*>(tag)->Complete(ok);
  }

  StreamLine::Options Keeping(absl::Duration kept, int64_t max_bytes) {
    StreamLine::Options options;
    options.max_kept = kept;
    options.max_bytes = max_bytes;
    options.let_in = [this](int64_t bytes) { let_in_ = bytes; };
    return options;
  }
  // One whose last message was as large.
  static void Sent(Stream& stream, int64_t bytes) {
    stream.reservation.Came(bytes);
    stream.reservation.Parsed();
  }
  CallTask Ask(Stream& stream, uint64_t caller) {
    stream.asked = false;
    co_await stream.reservation.Turn(caller);
    stream.asked = true;
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
  std::vector<uint64_t> order_;
  int64_t let_in_ = 0;
};

TEST_F(StreamLineTest, SmallMessagesNeverWait) {
  StreamLine line(Keeping(absl::Hours(1), 1), &queue_);
  std::list<Stream> streams;
  for (uint64_t k = 0; k < 100; ++k) {
    Stream& stream = streams.emplace_back(line);
    for (int message = 0; message < 3; ++message) {
      Sent(stream, 64 << 10);
      Ask(stream, k);
      EXPECT_TRUE(stream.asked);
    }
  }
  EXPECT_LT(let_in_, 2 * kMiB);
}

TEST_F(StreamLineTest, LargeOnesWaitUntilThereIsRoomCallersInTurns) {
  StreamLine line(Keeping(absl::Hours(1), 10 * kMiB), &queue_);
  std::list<Stream> streams;
  for (const uint64_t caller : {1, 1, 1, 1, 2}) {
    Stream& stream = streams.emplace_back(line);
    Sent(stream, 4 * kMiB);
    Ask(stream, caller);
  }
  EXPECT_THAT(order_, ElementsAre(1, 1));
  EXPECT_GE(let_in_, 8 * kMiB);
  Pump();
  EXPECT_THAT(order_, ElementsAre(1, 1)) << "no room yet";
  for (int k = 0; k < 3; ++k) {
    Sent(*std::next(streams.begin(), k), 4 * kMiB);
    Pump();
  }
  EXPECT_THAT(order_, ElementsAre(1, 1, 1, 2, 1));
}

TEST_F(StreamLineTest, WhatIsUnknownIsExpectedToBeNoLargerThanAMessageMayBe) {
  MemoryWatch machine(int64_t{64} << 30, [] { return int64_t{0}; });
  StreamLine::Options options = Keeping(absl::Hours(1), 1024 * kMiB);
  options.memory = &machine;
  options.max_message_bytes = 64 * kMiB;
  StreamLine line(options, &queue_);
  std::list<Stream> streams;
  for (uint64_t caller = 0; caller < 8; ++caller) {
    Ask(streams.emplace_back(line), caller);
    EXPECT_TRUE(streams.back().asked) << caller;
  }
}

TEST_F(StreamLineTest, WhoIsAloneIsAskedWhateverHisMessagesTake) {
  MemoryWatch memory(64 * kMiB, [] { return 64 * kMiB; });
  StreamLine::Options options = Keeping(absl::Hours(1), 1);
  options.memory = &memory;
  StreamLine line(options, &queue_);
  Stream first(line), second(line);
  for (Stream* const stream : {&first, &second}) {
    Sent(*stream, kMiB);
    Ask(*stream, 1);
  }
  EXPECT_TRUE(first.asked && !second.asked);
  Sent(first, kMiB);
  Pump();
  EXPECT_TRUE(second.asked);
}

TEST_F(StreamLineTest, RoomIsNotKeptForThoseWhoSayNothing) {
  StreamLine line(Keeping(absl::ZeroDuration(), 5 * kMiB), &queue_);
  Stream silent(line), other(line);
  for (Stream* const stream : {&silent, &other}) {
    Sent(*stream, 4 * kMiB);
    Ask(*stream, 1);
    EXPECT_TRUE(stream->asked);
  }
}

TEST_F(StreamLineTest, AMessageIsPromisedItsMemoryUntilItIsParsed) {
  MemoryWatch memory(112 * kMiB, [] { return int64_t{0}; });  // of which 86 MiB can be used
  StreamLine::Options options = Keeping(absl::Hours(1), 100 * kMiB);
  options.memory = &memory;
  StreamLine line(options, &queue_);
  {
    Stream stream(line);
    Sent(stream, 10 * kMiB);
    Ask(stream, 1);
    EXPECT_FALSE(memory.HasRoom(50 * kMiB)) << "four times the message is promised";
    stream.reservation.Came(10 * kMiB);
    EXPECT_TRUE(stream.reservation.has_memory());
    EXPECT_FALSE(memory.HasRoom(50 * kMiB));
    stream.reservation.Parsed();
    EXPECT_FALSE(stream.reservation.has_memory());
    EXPECT_TRUE(memory.HasRoom(50 * kMiB, SteadyNow() + absl::Seconds(1))) << "once the process has been looked at";
    Ask(stream, 1);
  }
  EXPECT_TRUE(memory.HasRoom(80 * kMiB, SteadyNow() + absl::Hours(1))) << "with the stream goes its promise";
}

}  // namespace
}  // namespace rnnserve
