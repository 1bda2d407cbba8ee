// SPDX-License-Identifier: Apache-2.0
#include "server/transport/frame_guard.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rnnserve {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum Type { kData, kHeaders, kPriority, kReset, kSettings, kPush, kPing, kGoAway, kWindow, kContinuation };
constexpr int kAck = 1, kEndStream = 1, kEndHeaders = 4;

std::string Frame(int type, int flags, size_t bytes) {
  std::string frame(9 + bytes, '\0');
  frame[0] = static_cast<char>(bytes >> 16);
  frame[1] = static_cast<char>(bytes >> 8);
  frame[2] = static_cast<char>(bytes);
  frame[3] = static_cast<char>(type);
  frame[4] = static_cast<char>(flags);
  return frame;
}

std::span<uint8_t> BytesOf(std::string& text) { return {reinterpret_cast<uint8_t*>(text.data()), text.size()}; }

class FrameGuardTest : public testing::Test {
 protected:
  std::string_view Inspect(std::string bytes) {
    const char* why = guard_.Inspect(BytesOf(bytes), now_);
    return why == nullptr ? "" : why;
  }
  std::string_view Inspect(const std::string& bytes, int times) {
    std::string_view why;
    for (int k = 0; k < times && why.empty(); ++k) why = Inspect(bytes);
    return why;
  }
  void Greet() {
    Inspect(std::string(kPreface) + Frame(kSettings, 0, 0));
    Inspect(Frame(kSettings, kAck, 0));
  }

  absl::Time now_ = absl::UnixEpoch();
  FrameGuard guard_{now_};
};

TEST_F(FrameGuardTest, CallsPass) {
  Greet();
  const std::string call = Frame(kHeaders, kEndHeaders, 100) + Frame(kData, 0, 16384) + Frame(kData, kEndStream, 0) +
                           Frame(kWindow, 0, 4) + Frame(kPing, kAck, 8);
  EXPECT_EQ(Inspect(call, 100'000), "");
}

// gRPC must see one acknowledgement for each of its own settings, whichever that is.
TEST_F(FrameGuardTest, OneAcknowledgementIsHiddenAndNoOther) {
  const std::string begin = std::string(kPreface) + Frame(kSettings, 0, 0), ack = Frame(kSettings, kAck, 0),
                    hidden = Frame(0xf5, kAck, 0), call = Frame(kHeaders, kEndHeaders, 10);
  const std::string all = begin + ack + call + ack + ack;
  const size_t type = begin.size() + 3, end = begin.size() + ack.size();
  for (const bool is_one_read : {false, true}) {
    for (size_t split = 0; split <= all.size(); ++split) {
      FrameGuard guard(now_, 1024, /*is_answered=*/true);
      std::string first = all.substr(0, split), second = all.substr(split);
      EXPECT_EQ(guard.Inspect(BytesOf(first), now_), nullptr);
      if (!is_one_read) guard.EndRead();
      EXPECT_EQ(guard.Inspect(BytesOf(second), now_), nullptr);
      const bool is_seen = !is_one_read && split > type && split < end;
      EXPECT_EQ(first + second, begin + (is_seen ? ack + call + hidden : hidden + call + ack) + ack) << split;
      EXPECT_TRUE(guard.acknowledged());
    }
  }
}

TEST_F(FrameGuardTest, WhatGrpcRefusesIsNotHidden) {
  std::string of_a_stream = Frame(kSettings, kAck, 0);
  of_a_stream[8] = 1;
  for (const std::string& ack : {Frame(kSettings, kAck, 6), Frame(kSettings, 3, 0), of_a_stream}) {
    FrameGuard guard(now_, 1024, /*is_answered=*/true);
    std::string all = std::string(kPreface) + Frame(kSettings, 0, 0) + ack;
    const std::string before = all;
    EXPECT_EQ(guard.Inspect(BytesOf(all), now_), nullptr);
    EXPECT_EQ(all, before);
  }
}

TEST_F(FrameGuardTest, AHiddenAcknowledgementIsNotThatOfGrpcsSettings) {
  FrameGuard guard(now_, 1024, /*is_answered=*/true);
  std::string begin = std::string(kPreface) + Frame(kSettings, 0, 0) + Frame(kSettings, kAck, 0);
  EXPECT_EQ(guard.Inspect(BytesOf(begin), now_, /*settings_sent=*/true), nullptr);
  EXPECT_FALSE(guard.acknowledged());
}

TEST_F(FrameGuardTest, StreamsBeforeTheSettingsAreAcknowledged) {
  Inspect(std::string(kPreface));
  EXPECT_EQ(Inspect(Frame(kHeaders, kEndHeaders, 10), FrameGuard::kMaxEarlyStreams), "");
  EXPECT_NE(Inspect(Frame(kHeaders, kEndHeaders, 10)), "");
  EXPECT_NE(Inspect(""), "") << "from then on";
}

TEST_F(FrameGuardTest, AnAcknowledgementBeforeGrpcHasSentItsSettingsIsWorthSomeStreams) {
  std::string early = std::string(kPreface) + Frame(kSettings, 0, 0) + Frame(kSettings, kAck, 0);
  const auto begin = [&](int64_t max_streams = 1024) {
    guard_ = FrameGuard(now_, max_streams);
    guard_.Inspect(BytesOf(early), now_, /*settings_sent=*/false);
    EXPECT_FALSE(guard_.acknowledged());
  };
  begin();
  EXPECT_EQ(Inspect(Frame(kHeaders, kEndHeaders, 10), 2048), "");
  EXPECT_NE(Inspect(Frame(kHeaders, kEndHeaders, 10)), "");
  begin();
  EXPECT_EQ(Inspect(Frame(kHeaders, kEndHeaders, 8192), 1024), "") << "all at once, with as many headers as gRPC takes";
  EXPECT_NE(Inspect(Frame(kHeaders, kEndHeaders, 1)), "");
  begin(4096);
  EXPECT_EQ(Inspect(Frame(kHeaders, kEndHeaders, 8192), 4096), "");
  begin(1);
  EXPECT_EQ(Inspect(Frame(kHeaders, kEndHeaders, 10), FrameGuard::kMaxEarlyStreams), "");
  EXPECT_NE(Inspect(Frame(kHeaders, kEndHeaders, 10)), "");
  begin();
  Inspect(Frame(kSettings, kAck, 0));
  EXPECT_TRUE(guard_.acknowledged());
}

TEST_F(FrameGuardTest, HeadersBeforeTheSettingsAreAcknowledged) {
  Inspect(std::string(kPreface));
  EXPECT_EQ(Inspect(Frame(kHeaders, kEndHeaders, 16384), FrameGuard::kMaxEarlyHeaderBytes / 16384), "");
  EXPECT_NE(Inspect(Frame(kHeaders, kEndHeaders, 1)), "");
}

TEST_F(FrameGuardTest, HeadersWithoutEnd) {
  Greet();
  Inspect(Frame(kHeaders, 0, 10));
  EXPECT_NE(Inspect(Frame(kContinuation, 0, 16384), 4), "");
}

TEST_F(FrameGuardTest, HeadersInEmptyPieces) {
  Greet();
  for (int k = 0; k < 100; ++k) {
    Inspect(Frame(kHeaders, 0, 10));
    EXPECT_EQ(Inspect(Frame(kContinuation, 0, 0), FrameGuard::kMaxContinuations - 1), "");
    EXPECT_EQ(Inspect(Frame(kContinuation, kEndHeaders, 0)), "");
  }
  Inspect(Frame(kHeaders, 0, 10));
  EXPECT_NE(Inspect(Frame(kContinuation, 0, 0), FrameGuard::kMaxContinuations + 1), "");
}

TEST_F(FrameGuardTest, ResetsHaveARate) {
  Greet();
  const std::string reset = Frame(kHeaders, kEndHeaders, 50) + Frame(kReset, 0, 4);
  EXPECT_EQ(Inspect(reset, 4096), "");
  now_ += absl::Milliseconds(100);
  EXPECT_EQ(Inspect(reset, 1000), "");
  EXPECT_NE(Inspect(reset), "");
}

TEST_F(FrameGuardTest, FramesThatSayNothing) {
  for (const std::string& frame : {Frame(kSettings, 0, 6), Frame(kSettings, kAck, 0), Frame(kData, 0, 0),
                                   Frame(kPriority, 0, 5), Frame(77, 0, 20)}) {
    guard_ = FrameGuard(now_);
    Greet();
    EXPECT_EQ(Inspect(frame, 50), "");
    EXPECT_NE(Inspect(frame, 1025), "");
  }
}

TEST_F(FrameGuardTest, PiecesOfAnySize) {
  std::string all(kPreface);
  all += Frame(kSettings, 0, 6) + Frame(kHeaders, kEndHeaders, 70) + Frame(kData, kEndStream, 1000);
  for (int k = 0; k <= FrameGuard::kMaxEarlyStreams; ++k) all += Frame(kHeaders, kEndHeaders, 30);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100}, all.size()}) {
    guard_ = FrameGuard(now_);
    std::string_view why;
    size_t at = 0;
    for (; at < all.size() && why.empty(); at += piece) why = Inspect(all.substr(at, piece));
    EXPECT_EQ(why, "too many streams before it acknowledged the server's settings") << piece;
    EXPECT_GT(at, all.size() - 3 * 39) << "in the last but one of them, not before";
  }
}

TEST_F(FrameGuardTest, WhatIsNoHttp2IsNotItsBusiness) {
  EXPECT_EQ(Inspect("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 10'000), "");
}

}  // namespace
}  // namespace rnnserve
